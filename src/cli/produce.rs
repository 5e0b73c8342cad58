//! `hermitmq produce`: lines or a file become records.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::client::{Packing, Producer, ProducerOptions, Record};
use crate::model::limits;

use super::args::ProduceArgs;
use super::failure::Failure;
use super::lines;
use super::runtime;
use super::tally::Tally;

/// Largest record that is sent, in bytes. The broker may take less, and refuses what is too large for it.
const PAYLOAD_BYTES_MAX: u32 = limits::PAYLOAD_MB_MAX * 1024 * 1024;

pub(super) fn run(args: &ProduceArgs) -> Result<(), Failure> {
    runtime::block_on(produce(args))
}

async fn produce(args: &ProduceArgs) -> Result<(), Failure> {
    // Read before connecting: a wrong path needs no broker.
    let file = args.file.as_deref().map(read_file).transpose()?;
    let mut sending = Sending::start(args).await?;
    let sent = match file {
        Some(payload) => sending.send(payload).await,
        None => sending.send_lines().await,
    };
    sending.finish(sent).await
}

fn read_file(path: &Path) -> Result<Bytes, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::runtime(&format!("cannot read {}", path.display()), &error))?;
    Ok(Bytes::from(bytes))
}

/// A producer with its records on the way.
struct Sending {
    producer: Producer,
    key: Bytes,
    tally: Arc<Tally>,
    /// Records handed over, and so the number of the record in work, counted from 1.
    sent: u64,
}

impl Sending {
    async fn start(args: &ProduceArgs) -> Result<Self, Failure> {
        let target = &args.target;
        let packing = match args.batch {
            Some(max_records) => Packing::Lines { max_records },
            None => Packing::Frames,
        };
        let options = ProducerOptions {
            packing,
            max_payload_bytes: PAYLOAD_BYTES_MAX,
            retry: target.retry(),
            ..ProducerOptions::default()
        };
        let (broker, topic) = (target.broker(), target.topic.clone());
        let producer = Producer::connect(&broker, topic, target.partition, options)
            .await
            .map_err(|error| Failure::connect(&error))?;
        let key = args.key.clone().map(Bytes::from).unwrap_or_default();
        Ok(Self { producer, key, tally: Arc::default(), sent: 0 })
    }

    /// Sends each line of standard input, never holding more than a few chunks of it.
    async fn send_lines(&mut self) -> Result<(), Failure> {
        let mut chunks = lines::read(io::stdin());
        while let Some(chunk) = chunks.recv().await {
            let chunk =
                chunk.map_err(|error| Failure::runtime("cannot read standard input", &error))?;
            for line in chunk.lines() {
                // Later records must not be stored while an earlier one is missing.
                if self.tally.has_failure() {
                    return Ok(());
                }
                self.send(line).await?;
            }
        }
        Ok(())
    }

    /// Hands one record over; waits while too many are on the way.
    async fn send(&mut self, payload: Bytes) -> Result<(), Failure> {
        self.sent += 1;
        let (number, bytes) = (self.sent, payload.len() as u64);
        let record = Record { key: self.key.clone(), payload, timestamp: None };
        let tally = Arc::clone(&self.tally);
        let callback = move |outcome| tally.add(number, bytes, outcome);
        let taken = self.producer.send_with(record, callback).await;
        taken.map_err(|error| Failure::runtime(&format!("record {number} was not sent"), &error))
    }

    /// Waits for the outcome of every record that was handed over. The first one that was not stored is told, else
    /// what stopped the sending.
    async fn finish(self, sent: Result<(), Failure>) -> Result<(), Failure> {
        self.producer.close().await;
        if let Some(failure) = self.tally.failure() {
            return Err(failure);
        }
        sent?;
        self.tally.summarize();
        Ok(())
    }
}
