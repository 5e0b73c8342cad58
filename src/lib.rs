//! HermitMQ: a persistent topic/partition message broker in one small static binary.
//!
//! This page is the reading order. Imports go only downwards; `tests/tidy.rs` holds the table and checks it.

#[cfg(feature = "server")]
pub mod broker;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod metrics;
pub mod model;
#[cfg(feature = "server")]
pub mod net;
pub mod protocol;
pub mod record;
#[cfg(feature = "server")]
pub mod storage;
