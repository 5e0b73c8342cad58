//! One record out and back, without an async runtime: what a small tool needs.
//!
//! ```sh
//! cargo run --example blocking -- greetings "hello, world"
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::error::Error;

use hermitmq::client::{ConsumerOptions, ProducerOptions, Record, Start, blocking};
use hermitmq::model::TopicName;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: blocking TOPIC TEXT";
    let topic = TopicName::parse(&args.next().ok_or(usage)?)?;
    let text = args.next().ok_or(usage)?;
    let broker = std::env::var("HERMITMQ_BROKER").unwrap_or("127.0.0.1:9092".to_owned());

    let options = ProducerOptions::default();
    let producer = blocking::Producer::connect(&broker, topic.clone(), 0, options)?;
    let offset = producer.send(Record::new(text))?.wait()?;
    producer.close();

    // Without a group: from the offset that the broker has just told, and committing nothing.
    let options =
        ConsumerOptions { start: Some(Start::Offset(offset)), ..ConsumerOptions::default() };
    let mut consumer = blocking::Consumer::connect(&broker, None, topic, 0, options)?;
    let message = consumer.recv()?;
    println!("{offset}: {}", String::from_utf8_lossy(&message.payload));
    Ok(())
}
