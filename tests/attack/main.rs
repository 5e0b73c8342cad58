//! Clients that want the broker, or somebody else, harm: each limit holds, and those beside it are served as before.
//!
//! What is sent that is no protocol is in `tests/bad_input.rs`, clients that leave in `tests/leaving.rs`, a small control
//! group in `tests/operate/container.rs`. `docs/LIMITS.md` says which limit is whose.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]
#![allow(clippy::print_stdout)]

mod bystander;
mod connections;
mod crowd;
mod floods;
mod half_open;
mod limits;
mod memory;
mod openings;
mod quotas;
mod silence;
#[path = "../support/mod.rs"]
mod support;
