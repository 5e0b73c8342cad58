//! Sending to all partitions of a topic.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use super::connect::ConnectError;
use super::message::Record;
use super::partitioner::partition_of_key;
use super::place::partition_count_to_produce;
use super::producer::{Delivery, DeliveryError, Producer, ProducerOptions, SendError};
use crate::model::{Offset, PartitionId, TopicName};

/// Why a [`TopicProducer`] did not take a record. It was not sent.
#[derive(Debug, thiserror::Error)]
pub enum TopicSendError {
    /// The producer of its partition could not be connected. Send it again.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The producer of its partition did not take it.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Sends records to the partitions of one topic: those with a key to the [partition of the key](partition_of_key), the
/// others in turns.
///
/// Each partition has its own [`Producer`], connected with its first record. Order, repetition and errors are those of
/// [`Producer`], for each partition. The number of partitions is that of the time of [`connect`](Self::connect): while a
/// topic grows, a key keeps its place until the program makes a new producer.
pub struct TopicProducer {
    addr: String,
    topic: TopicName,
    options: ProducerOptions,
    producers: Vec<OnceCell<Producer>>,
    count: NonZeroU32,
    turn: AtomicU32,
}

impl TopicProducer {
    /// Asks the broker at `addr` (`host:port`) how many partitions the topic has. Needs protocol 1.1; with 1.0 use
    /// [`with_partitions`](Self::with_partitions).
    pub async fn connect(
        addr: impl Into<String>,
        topic: TopicName,
        options: ProducerOptions,
    ) -> Result<Self, ConnectError> {
        let addr = addr.into();
        let count = partition_count_to_produce(&addr, &topic, &options.connect).await?;
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        Ok(Self::with_partitions(addr, topic, count, options))
    }

    /// For a topic of which the number of partitions is known. Does not connect yet.
    pub fn with_partitions(
        addr: impl Into<String>,
        topic: TopicName,
        count: NonZeroU32,
        options: ProducerOptions,
    ) -> Self {
        let producers = (0..count.get()).map(|_| OnceCell::new()).collect();
        Self { addr: addr.into(), topic, options, producers, count, turn: AtomicU32::new(0) }
    }

    /// How many partitions records are spread over.
    pub fn partitions(&self) -> u32 {
        self.count.get()
    }

    /// Hands a record over, waiting for room in the window of its partition; returns the partition, and the promise of an
    /// offset in it. See [`Producer::send`].
    pub async fn send(&self, record: Record) -> Result<(PartitionId, Delivery), TopicSendError> {
        let partition = self.partition_of(&record);
        let delivery = self.producer(partition).await?.send(record).await?;
        Ok((partition, delivery))
    }

    /// As [`send`](Self::send), with a callback for the outcome; see [`Producer::send_with`].
    pub async fn send_with(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
    ) -> Result<PartitionId, TopicSendError> {
        let partition = self.partition_of(&record);
        self.producer(partition).await?.send_with(record, callback).await?;
        Ok(partition)
    }

    /// As `send`, for callers outside a runtime: they enter it only to connect, or if they have to wait.
    pub(super) fn send_blocking(
        &self,
        record: Record,
        runtime: &Runtime,
    ) -> Result<(PartitionId, Delivery), TopicSendError> {
        let partition = self.partition_of(&record);
        let delivery =
            self.producer_blocking(partition, runtime)?.send_blocking(record, runtime)?;
        Ok((partition, delivery))
    }

    /// As `send_with`, for callers outside a runtime.
    pub(super) fn send_with_blocking(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
        runtime: &Runtime,
    ) -> Result<PartitionId, TopicSendError> {
        let partition = self.partition_of(&record);
        let producer = self.producer_blocking(partition, runtime)?;
        producer.send_with_blocking(record, callback, runtime)?;
        Ok(partition)
    }

    /// Waits until every record handed over so far is acked or failed.
    pub async fn flush(&self) {
        for producer in self.producers.iter().filter_map(OnceCell::get) {
            producer.flush().await;
        }
    }

    /// Takes no more records for partitions that had any, waits until those handed over are acked or failed, and closes
    /// the connections.
    pub async fn close(&self) {
        for producer in self.producers.iter().filter_map(OnceCell::get) {
            producer.close().await;
        }
    }

    fn partition_of(&self, record: &Record) -> PartitionId {
        if record.key.is_empty() {
            self.turn.fetch_add(1, Ordering::Relaxed) % self.count
        } else {
            partition_of_key(&record.key, self.count)
        }
    }

    async fn producer(&self, partition: PartitionId) -> Result<&Producer, ConnectError> {
        // Partitions are below the count.
        let cell = &self.producers[partition as usize];
        let connect = || {
            let options = self.options.clone();
            Producer::connect(self.addr.as_str(), self.topic.clone(), partition, options)
        };
        cell.get_or_try_init(connect).await
    }

    fn producer_blocking(
        &self,
        partition: PartitionId,
        runtime: &Runtime,
    ) -> Result<&Producer, ConnectError> {
        match self.producers[partition as usize].get() {
            Some(producer) => Ok(producer),
            None => runtime.block_on(self.producer(partition)),
        }
    }
}

impl fmt::Debug for TopicProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicProducer")
            .field("addr", &self.addr)
            .field("topic", &self.topic)
            .field("partitions", &self.count)
            .finish_non_exhaustive()
    }
}
