//! The admin listener of a real broker, over HTTP: health, metrics, administration, and the commands that use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod api;
mod client;
mod commands;
#[cfg(target_os = "linux")]
mod crowd;
mod events;
mod health;
mod metrics;
mod monitoring;
mod openapi;
#[path = "../support/mod.rs"]
mod support;
mod topics;

use std::path::Path;

use support::http::Answer;
use support::{Broker, Start};

/// A broker with an admin listener, which flushes soon.
fn start(data: &Path) -> Start {
    Start::on(data).with_admin().env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
}

fn broker(data: &Path) -> Broker {
    start(data).run()
}

/// Checks an answer that is a problem, and gives its detail.
fn problem(answer: &Answer, status: u16, code: &str, field: Option<&str>) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    let body = answer.json();
    assert_eq!(body["type"], format!("urn:hermitmq:problem:{code}"), "{answer:?}");
    assert_eq!(body["status"], status, "{answer:?}");
    assert_eq!(body["field"].as_str(), field, "{answer:?}");
    assert!(!body["title"].as_str().unwrap().is_empty(), "{answer:?}");
    let detail = body["detail"].as_str().unwrap();
    assert!(!detail.is_empty(), "{answer:?}");
    detail.to_owned()
}
