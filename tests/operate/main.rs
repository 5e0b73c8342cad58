//! A broker and what is around it: signals, another configuration, the service manager, the container.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod container;
mod lifetime;
mod reload;
mod service_manager;
mod stuck_log;
#[path = "../support/mod.rs"]
mod support;
mod unit;

use support::{Broker, LogLine, wait_for};

/// Waits for a line of the log.
fn said(broker: &Broker, message: &str) -> LogLine {
    wait_for(message, || broker.log().into_iter().find(|line| line.get("message") == message))
}
