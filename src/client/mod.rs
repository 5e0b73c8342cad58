//! The SDK: what a program that talks to a broker needs. Feature `client` alone builds it.
//!
//! * [`Producer`]: sends records to a partition, pipelined, and tells the offset of each.
//! * [`TopicProducer`]: the same to all partitions of a topic, by key or in turns.
//! * [`Consumer`]: receives the records of a partition, from where its group has committed or from any other place, and
//!   commits what was handled.
//! * [`GroupConsumer`]: the same from all partitions of a topic, or from this member's share of them.
//! * [`Messages`]: what either of them receives, as a `Stream`.
//! * [`Committer`], [`commit()`]: where a group resumes, without a consumer.
//! * [`partition_count`], [`offset_of`]: what a topic has.
//! * [`blocking`]: these producers and consumers for programs without a runtime.
//! * [`partition_of_key`]: which partition a key belongs to, as in Kafka.
//! * `admin` (feature `admin`): topics, groups, records, connections, metrics, log level and health of a broker, over
//!   HTTP.
//! * [`raw`]: the protocol by hand, for load generators and tools.
//!
//! All of it is at least once. It speaks protocol 1.1, and 1.0 if [`ConnectOptions::protocol`] says so: then a refusal has no
//! reason, and there are no start positions. Every error is typed by what was asked for, and says what can be done about
//! it.
//!
//! Spans of [`tracing`] at `debug`: `connect` for each attempt, `producer` for the background task of one, `commit` for each
//! commit. None for records. [`ClientInfo::traceparent`] has the broker's span of a connection join a trace.
//!
//! # Sending
//!
//! ```no_run
//! use hermitmq::client::{Producer, ProducerOptions, Record};
//! use hermitmq::model::TopicName;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let topic = TopicName::parse("orders")?;
//! let producer = Producer::connect("127.0.0.1:9092", topic, 0, ProducerOptions::default()).await?;
//!
//! // Waits for room, not for the ack.
//! let delivery = producer.send(Record::new("a cup").with_key("customer-7")).await?;
//! println!("stored at {}", delivery.await?);
//!
//! for i in 0..1_000_000 {
//!     producer
//!         .send_with(Record::new(format!("order {i}")), |outcome| {
//!             if let Err(error) = outcome {
//!                 eprintln!("an order is lost: {error}");
//!             }
//!         })
//!         .await?;
//! }
//! producer.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Receiving
//!
//! ```no_run
//! use hermitmq::client::{Consumer, ConsumerOptions};
//! use hermitmq::model::{GroupName, TopicName};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (group, topic) = (GroupName::parse("billing")?, TopicName::parse("orders")?);
//! let options = ConsumerOptions::default();
//! let mut consumer = Consumer::connect("127.0.0.1:9092", group, topic, 0, options).await?;
//! loop {
//!     let mut message = consumer.recv().await?;
//!     loop {
//!         println!("{}: {:?}", message.offset, message.payload);
//!         match consumer.try_next()? {
//!             Some(next) => message = next,
//!             None => break,
//!         }
//!     }
//!     // Once for all that was there.
//!     consumer.commit(&message).await?;
//! }
//! # }
//! ```
//!
//! # Without a runtime
//!
//! ```no_run
//! use hermitmq::client::{ConsumerOptions, ProducerOptions, Record, blocking};
//! use hermitmq::model::{GroupName, TopicName};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (group, topic) = (GroupName::parse("billing")?, TopicName::parse("orders")?);
//! let addr = "127.0.0.1:9092";
//!
//! let producer = blocking::Producer::connect(addr, topic.clone(), 0, ProducerOptions::default())?;
//! let offset = producer.send(Record::new("a cup"))?.wait()?;
//! producer.close();
//!
//! let mut consumer = blocking::Consumer::connect(addr, group, topic, 0, ConsumerOptions::default())?;
//! let message = consumer.recv()?;
//! consumer.commit(&message)?;
//! # let _ = offset;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "admin")]
pub mod admin;
pub mod blocking;
mod commit;
mod connect;
mod consumer;
mod group_consumer;
mod message;
mod messages;
mod partitioner;
mod place;
mod producer;
pub mod raw;
mod retry;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod topic_producer;

pub use commit::{COMMIT_TIMEOUT, CommitError, Committer, commit};
pub use connect::{ConnectError, ConnectOptions, Protocol, Refused};
pub use consumer::{ConsumeError, Consumer, ConsumerOptions, Gap, GapReason};
pub use group_consumer::{GroupConsumer, GroupConsumerOptions, PartitionError, Share};
pub use message::{Message, Record};
pub use messages::{Messages, Source};
pub use partitioner::{murmur2, partition_of_key};
pub use place::{offset_of, partition_count};
pub use producer::{Delivery, DeliveryError, Packing, Producer, ProducerOptions, SendError};
pub use retry::RetryPolicy;
#[cfg(feature = "tls")]
pub use tls::{Identity, TlsOptions, TlsProblem, Trust};
pub use topic_producer::{TopicProducer, TopicSendError};

pub use crate::protocol::Status;
pub use crate::protocol::v1_1::{
    Client as ClientInfo, Durability, Fallback, Start, Token, TokenTooLong, TraceParent,
};

#[cfg(test)]
mod tests;
