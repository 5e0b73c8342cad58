//! Sends lines of standard input to a topic, with the text before the first `=` of each as its key.
//!
//! ```sh
//! printf 'alice=a cup\nbob=a spoon\n' | cargo run --example produce -- orders
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::error::Error;

use hermitmq::client::{DeliveryError, ProducerOptions, Record, TopicProducer};
use hermitmq::model::TopicName;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let topic = std::env::args().nth(1).ok_or("which topic? produce TOPIC")?;
    let broker = std::env::var("HERMITMQ_BROKER").unwrap_or("127.0.0.1:9092".to_owned());
    let topic = TopicName::parse(&topic)?;
    let producer = TopicProducer::connect(broker, topic, ProducerOptions::default()).await?;

    // Outcomes come back here. Sending does not wait for them: hundreds of records are on the way at once.
    let (outcomes, mut failed) = mpsc::unbounded_channel::<DeliveryError>();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut sent = 0u64;
    while let Some(line) = lines.next_line().await? {
        let record = match line.split_once('=') {
            Some((key, value)) => Record::new(value.to_owned()).with_key(key.to_owned()),
            None => Record::new(line),
        };
        let outcomes = outcomes.clone();
        producer
            .send_with(record, move |outcome| {
                if let Err(error) = outcome {
                    // The receiver lives as long as this program waits for outcomes.
                    let _ = outcomes.send(error);
                }
            })
            .await?;
        sent += 1;
    }

    // Every record is stored or has failed after this.
    producer.close().await;
    drop(outcomes);
    let mut lost = 0u64;
    while let Some(error) = failed.recv().await {
        eprintln!("not stored: {error}");
        lost += 1;
    }
    println!("{} of {sent} records stored", sent - lost);
    if lost == 0 { Ok(()) } else { Err(format!("{lost} records are not stored").into()) }
}
