//! The bodies of the fuzz targets: each takes bytes, and panics if something is wrong.
//!
//! `fuzz/` runs them under libFuzzer, the twins beside this directory under proptest. `fuzz/README.md` says what each of
//! them holds the broker to.
//!
//! Reading order: [`input`] (bytes as decisions), [`log_dir`] (a log whose content is known), [`hurt`] (what happens to
//! its files), [`reading`] and [`keeping`] (what must hold of any log), [`sum_file`] (what a `.sum` file claims, read
//! from its specification), then the targets.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod access_rules;
pub mod admin_json;
pub mod catalog;
#[path = "../../support/certificates.rs"]
mod certificates;
pub mod config;
pub mod connection;
pub mod handshake;
pub mod hurt;
pub mod index;
pub mod input;
pub mod keeping;
pub mod log_dir;
pub mod reading;
pub mod recovery;
pub mod sum_file;
pub mod sums;
pub mod transport;

/// A body.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const ALL: &[(&str, Target)] = &[
    ("access_rules", access_rules::run),
    ("admin_json", admin_json::run),
    ("catalog", catalog::run),
    ("config", config::run),
    ("connection", connection::run),
    ("handshake", handshake::run),
    ("index", index::run),
    ("recovery", recovery::run),
    ("sums", sums::run),
    ("transport", transport::run),
];
