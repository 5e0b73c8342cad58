//! `hermitmq produce`: lines or a file become records.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::client::{Packing, Producer, ProducerOptions, Protocol, Record, TopicProducer};
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
        Some(payload) => sending.send(sending.key.clone(), payload).await,
        None => sending.send_lines().await,
    };
    sending.finish(sent).await
}

fn read_file(path: &Path) -> Result<Bytes, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::runtime(&format!("cannot read {}", path.display()), &error))?;
    Ok(Bytes::from(bytes))
}

/// Where records go.
enum Sink {
    /// To one partition.
    Partition(Producer),
    /// To each by its key, or in turns.
    Topic(Box<TopicProducer>),
}

/// A producer with its records on the way.
struct Sending {
    sink: Sink,
    /// The key of every record.
    key: Bytes,
    /// What stands between the key and the payload of a line.
    key_sep: Option<String>,
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
            connect: target.connect()?,
            packing,
            max_payload_bytes: PAYLOAD_BYTES_MAX,
            retry: target.retry(),
            ..ProducerOptions::default()
        };
        let (broker, topic) = (target.broker(), target.topic.clone());
        let alone = match (target.partition, target.protocol) {
            // 1.0 does not say how many partitions there are.
            (None, Protocol::V1_0) => Some(0),
            (partition, _) => partition,
        };
        let sink = match alone {
            Some(partition) => {
                Producer::connect(&broker, topic, partition, options).await.map(Sink::Partition)
            }
            None => {
                TopicProducer::connect(&broker, topic, options).await.map(Box::new).map(Sink::Topic)
            }
        };
        let sink = sink.map_err(|error| Failure::connect(&error))?;
        let key = args.key.clone().map(Bytes::from).unwrap_or_default();
        let key_sep = args.key_sep.clone();
        Ok(Self { sink, key, key_sep, tally: Arc::default(), sent: 0 })
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
                let (key, payload) = self.split(line);
                self.send(key, payload).await?;
            }
        }
        Ok(())
    }

    /// The key and the payload of a line.
    fn split(&self, mut line: Bytes) -> (Bytes, Bytes) {
        let sep = self.key_sep.as_ref().map(String::as_bytes);
        let at = sep.and_then(|sep| {
            let at = line.windows(sep.len()).position(|window| window == sep)?;
            Some((at, sep.len()))
        });
        match at {
            Some((at, len)) => {
                let key = line.split_to(at);
                (key, line.slice(len..))
            }
            None => (self.key.clone(), line),
        }
    }

    /// Hands one record over; waits while too many are on the way.
    async fn send(&mut self, key: Bytes, payload: Bytes) -> Result<(), Failure> {
        self.sent += 1;
        let (number, bytes) = (self.sent, payload.len() as u64);
        let record = Record { key, payload, timestamp: None };
        let tally = Arc::clone(&self.tally);
        let callback = move |outcome| tally.add(number, bytes, outcome);
        let not_sent = |error: &dyn std::error::Error| {
            Failure::runtime(&format!("record {number} was not sent"), error)
        };
        match &self.sink {
            Sink::Partition(producer) => {
                producer.send_with(record, callback).await.map_err(|error| not_sent(&error))
            }
            Sink::Topic(producer) => {
                let sent = producer.send_with(record, callback).await;
                sent.map(drop).map_err(|error| not_sent(&error))
            }
        }
    }

    /// Waits for the outcome of every record that was handed over. The first one that was not stored is told, else
    /// what stopped the sending.
    async fn finish(self, sent: Result<(), Failure>) -> Result<(), Failure> {
        match &self.sink {
            Sink::Partition(producer) => producer.close().await,
            Sink::Topic(producer) => producer.close().await,
        }
        if let Some(failure) = self.tally.failure() {
            return Err(failure);
        }
        sent?;
        self.tally.summarize();
        Ok(())
    }
}
