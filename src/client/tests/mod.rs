//! The clients against a scripted broker: each test plays the broker's part itself, over a real socket.
//!
//! Nothing here depends on speed; time-outs only keep a hanging test from hanging for ever.

mod blocking;
mod broker;
mod commit;
mod consumer;
mod ordering;
mod outages;
mod packing;
mod producer;
mod v1_1;

use std::future::Future;
use std::time::Duration;

use crate::client::{ConnectOptions, ConsumerOptions, ProducerOptions, Protocol, RetryPolicy};
use crate::model::{GroupName, TopicName};

/// Long enough for any machine.
async fn guard<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), test).await.expect("the test hangs")
}

fn topic() -> TopicName {
    TopicName::parse("orders").unwrap()
}

fn group() -> GroupName {
    GroupName::parse("billing").unwrap()
}

fn v1_0() -> ConnectOptions {
    ConnectOptions { protocol: Protocol::V1_0, ..ConnectOptions::default() }
}

fn v1_0_producer() -> ProducerOptions {
    ProducerOptions { connect: v1_0(), ..ProducerOptions::default() }
}

fn v1_0_consumer() -> ConsumerOptions {
    ConsumerOptions { connect: v1_0(), ..ConsumerOptions::default() }
}

/// Repeats soon, and gives up after `max_elapsed` ms.
fn retry(max_elapsed: u64) -> RetryPolicy {
    RetryPolicy {
        initial_backoff: Duration::from_millis(2),
        max_backoff: Duration::from_millis(20),
        max_elapsed: Duration::from_millis(max_elapsed),
    }
}
