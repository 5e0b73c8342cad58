//! Prints the records of a topic for a group, and commits them in bulk: what a worker that must not lose anything looks like.
//!
//! ```sh
//! cargo run --example consume -- orders billing
//! ```
//!
//! Ends with Ctrl-C, or with a third argument after so many records.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::error::Error;
use std::pin::pin;

use futures_util::StreamExt as _;
use hermitmq::client::{GroupConsumer, GroupConsumerOptions};
use hermitmq::model::{GroupName, TopicName};

/// Records that may come again after a crash, at most.
const COMMIT_EVERY: u64 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: consume TOPIC GROUP [COUNT]";
    let topic = TopicName::parse(&args.next().ok_or(usage)?)?;
    let group = GroupName::parse(&args.next().ok_or(usage)?)?;
    let count = args.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    let broker = std::env::var("HERMITMQ_BROKER").unwrap_or("127.0.0.1:9092".to_owned());

    // Committed below, once it is handled: never before.
    let options = GroupConsumerOptions { auto_commit: None, ..GroupConsumerOptions::default() };
    let mut messages = GroupConsumer::connect(broker, group, topic, options).await?.into_stream();
    let mut interrupted = pin!(tokio::signal::ctrl_c());

    let mut handled = 0;
    while handled < count {
        let next = tokio::select! {
            next = messages.next() => next,
            _ = &mut interrupted => break,
        };
        let Some(received) = next else { break };
        // The next call would try again; this program leaves that to whoever started it.
        let (partition, message) = received?;
        let (key, payload) = (&message.key, &message.payload);
        println!(
            "{partition}/{}: {}={}",
            message.offset,
            String::from_utf8_lossy(key),
            String::from_utf8_lossy(payload)
        );
        handled += 1;
        if handled % COMMIT_EVERY == 0
            && let Some(consumer) = messages.consumer().await
        {
            consumer.commit().await?;
        }
    }
    if let Some(consumer) = messages.consumer().await {
        consumer.commit().await?;
    }
    Ok(())
}
