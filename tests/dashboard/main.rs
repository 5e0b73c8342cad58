//! The dashboard of a real broker in a real browser: what a button says it does, the broker has done; and what a page shows when
//! there is nothing, no answer, no right to see it, or something that would like to be a script.
//!
//! Without chromium and chromedriver each test says that it is skipped. `HERMITMQ_SCREENSHOTS=DIR` keeps pictures of the pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod actions;
mod browser;
mod gate;
mod looks;
mod states;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use serde_json::Value;

use support::http::get;
use support::{Broker, Start};

/// A broker with an admin listener.
fn start(data: &Path) -> Start {
    Start::on(data).with_admin().env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
}

/// What the broker itself says.
fn api(broker: &Broker, path: &str) -> Value {
    get(broker.admin(), &format!("/api/v1{path}")).json()
}
