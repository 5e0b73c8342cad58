//! The same clients for programs without a runtime: each call blocks its thread.
//!
//! Do not use them inside an asynchronous task: waiting there panics, as every blocking wait of tokio does.

use tokio::runtime::{Builder, Runtime};

use super::commit::CommitError;
use super::connect::ConnectError;
use super::consumer::{ConsumeError, Consumer as AsyncConsumer, ConsumerOptions, Gap};
use super::group_consumer::{
    GroupConsumer as AsyncGroupConsumer, GroupConsumerOptions, PartitionError,
};
use super::message::{Message, Record};
use super::producer::{
    Delivery, DeliveryError, Producer as AsyncProducer, ProducerOptions, SendError,
};
use super::topic_producer::{TopicProducer as AsyncTopicProducer, TopicSendError};
use crate::model::{GroupName, Offset, PartitionId, TopicName};

/// [`client::Producer`](super::Producer) with its own background thread. The semantics are the same.
#[derive(Debug)]
pub struct Producer {
    inner: AsyncProducer,
    /// One worker thread, so that sending goes on between calls.
    runtime: Runtime,
}

impl Producer {
    /// See [`client::Producer::connect`](super::Producer::connect).
    pub fn connect(
        addr: impl Into<String>,
        topic: TopicName,
        partition: PartitionId,
        options: ProducerOptions,
    ) -> Result<Self, ConnectError> {
        let runtime = of_producer()?;
        let inner =
            runtime.block_on(AsyncProducer::connect(addr.into(), topic, partition, options))?;
        Ok(Self { inner, runtime })
    }

    /// Hands a record over, blocking while the window is full. [`Delivery::wait`] blocks for its offset.
    pub fn send(&self, record: Record) -> Result<Delivery, SendError> {
        self.inner.send_blocking(record, &self.runtime)
    }

    /// As [`send`](Self::send), with a callback that runs on the background thread: it must be quick and must not block.
    pub fn send_with(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
    ) -> Result<(), SendError> {
        self.inner.send_with_blocking(record, callback, &self.runtime)
    }

    /// Blocks until every record handed over so far is acked or failed.
    pub fn flush(&self) {
        self.runtime.block_on(self.inner.flush());
    }

    /// Blocks until everything is acked or failed, and closes the connection. A producer that is dropped without this ends
    /// its thread at once: what is not acked by then is reported as [`DeliveryError::Closed`].
    pub fn close(self) {
        self.runtime.block_on(self.inner.close());
    }
}

/// [`client::Consumer`](super::Consumer) for one thread. The semantics are the same.
#[derive(Debug)]
pub struct Consumer {
    inner: AsyncConsumer,
    /// Runs on the calling thread, within the calls.
    runtime: Runtime,
}

impl Consumer {
    /// See [`client::Consumer::connect`](super::Consumer::connect).
    pub fn connect(
        addr: impl Into<String>,
        group: impl Into<Option<GroupName>>,
        topic: TopicName,
        partition: PartitionId,
        options: ConsumerOptions,
    ) -> Result<Self, ConnectError> {
        let runtime = of_consumer()?;
        let connecting = AsyncConsumer::connect(addr.into(), group, topic, partition, options);
        let inner = runtime.block_on(connecting)?;
        Ok(Self { inner, runtime })
    }

    /// The next message; blocks for one at the end of the partition.
    pub fn recv(&mut self) -> Result<Message, ConsumeError> {
        // What is read already needs no runtime.
        match self.inner.try_next()? {
            Some(message) => Ok(message),
            None => self.runtime.block_on(self.inner.recv()),
        }
    }

    /// The next message that has been read already, without blocking.
    pub fn try_next(&mut self) -> Result<Option<Message>, ConsumeError> {
        self.inner.try_next()
    }

    /// Records that were left out since the last call, and why.
    pub fn take_gap(&mut self) -> Option<Gap> {
        self.inner.take_gap()
    }

    /// Makes the group resume behind `message`, and waits until the broker has it.
    pub fn commit(&mut self, message: &Message) -> Result<(), CommitError> {
        self.runtime.block_on(self.inner.commit(message))
    }

    /// Makes the group resume at `next`, the first offset that it has not handled.
    pub fn commit_offset(&mut self, next: Offset) -> Result<(), CommitError> {
        self.runtime.block_on(self.inner.commit_offset(next))
    }
}

/// [`client::TopicProducer`](super::TopicProducer) with its own background thread. The semantics are the same.
#[derive(Debug)]
pub struct TopicProducer {
    inner: AsyncTopicProducer,
    runtime: Runtime,
}

impl TopicProducer {
    /// See [`client::TopicProducer::connect`](super::TopicProducer::connect).
    pub fn connect(
        addr: impl Into<String>,
        topic: TopicName,
        options: ProducerOptions,
    ) -> Result<Self, ConnectError> {
        let runtime = of_producer()?;
        let inner = runtime.block_on(AsyncTopicProducer::connect(addr.into(), topic, options))?;
        Ok(Self { inner, runtime })
    }

    /// Hands a record over, blocking while the window of its partition is full; the partition, and the promise of an offset
    /// in it.
    pub fn send(&self, record: Record) -> Result<(PartitionId, Delivery), TopicSendError> {
        self.inner.send_blocking(record, &self.runtime)
    }

    /// As [`send`](Self::send), with a callback that runs on the background thread: it must be quick and must not block.
    pub fn send_with(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
    ) -> Result<PartitionId, TopicSendError> {
        self.inner.send_with_blocking(record, callback, &self.runtime)
    }

    /// Blocks until every record handed over so far is acked or failed.
    pub fn flush(&self) {
        self.runtime.block_on(self.inner.flush());
    }

    /// Blocks until everything is acked or failed, and closes the connections.
    pub fn close(self) {
        self.runtime.block_on(self.inner.close());
    }
}

/// [`client::GroupConsumer`](super::GroupConsumer) for one thread. The semantics are the same: it commits within
/// [`recv`](Self::recv), and heartbeats of the broker are read there, too.
#[derive(Debug)]
pub struct GroupConsumer {
    inner: AsyncGroupConsumer,
    runtime: Runtime,
}

impl GroupConsumer {
    /// See [`client::GroupConsumer::connect`](super::GroupConsumer::connect).
    pub fn connect(
        addr: impl Into<String>,
        group: impl Into<Option<GroupName>>,
        topic: TopicName,
        options: GroupConsumerOptions,
    ) -> Result<Self, ConnectError> {
        let runtime = of_consumer()?;
        let connecting = AsyncGroupConsumer::connect(addr.into(), group, topic, options);
        let inner = runtime.block_on(connecting)?;
        Ok(Self { inner, runtime })
    }

    /// The next message of any partition, and which; blocks for one.
    pub fn recv(&mut self) -> Result<(PartitionId, Message), PartitionError> {
        self.runtime.block_on(self.inner.recv())
    }

    /// The next message that has been read already, without blocking.
    pub fn try_next(&mut self) -> Result<Option<(PartitionId, Message)>, PartitionError> {
        self.inner.try_next()
    }

    /// Commits all that was given, and waits until the broker has it.
    pub fn commit(&mut self) -> Result<(), CommitError> {
        self.runtime.block_on(self.inner.commit())
    }

    /// Records that were left out since the last call, and in which partition.
    pub fn take_gap(&mut self) -> Option<(PartitionId, Gap)> {
        self.inner.take_gap()
    }

    /// Reads this partition no more. Whether others are left.
    pub fn leave(&mut self, partition: PartitionId) -> bool {
        self.inner.leave(partition)
    }

    /// Commits all that was given and closes the connections.
    pub fn close(self) -> Result<(), CommitError> {
        self.runtime.block_on(self.inner.close())
    }
}

/// With a worker thread, so that sending goes on between calls.
fn of_producer() -> Result<Runtime, ConnectError> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("hermitmq-producer")
        .enable_io()
        .enable_time()
        .build()
        .map_err(ConnectError::Runtime)
}

/// On the calling thread, within the calls.
fn of_consumer() -> Result<Runtime, ConnectError> {
    Builder::new_current_thread().enable_io().enable_time().build().map_err(ConnectError::Runtime)
}
