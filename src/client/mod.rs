//! The SDK: what a program that talks to a broker needs. Feature `client` alone builds it.
//!
//! * [`Producer`]: sends records to a partition, pipelined, and tells the offset of each.
//! * [`Consumer`]: receives the records of a partition for a group, and commits what was handled.
//! * [`commit()`]: sets where a group resumes, without a consumer.
//! * [`blocking`]: the same for programs without a runtime.
//! * [`partition_of_key`]: which partition a key belongs to, as in Kafka.
//! * `admin` (feature `admin`): topics, groups and health of a broker, over HTTP.
//! * [`raw`]: the protocol by hand, for load generators and tools.
//!
//! All of it speaks protocol 1.0 and is at least once. Every error is typed by what was asked for, and says what can be
//! done about it.
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
mod message;
mod partitioner;
mod producer;
pub mod raw;
mod retry;

pub use commit::{COMMIT_TIMEOUT, CommitError, commit};
pub use connect::ConnectError;
pub use consumer::{ConsumeError, Consumer, ConsumerOptions};
pub use message::{Message, Record};
pub use partitioner::{murmur2, partition_of_key};
pub use producer::{Delivery, DeliveryError, Packing, Producer, ProducerOptions, SendError};
pub use retry::RetryPolicy;

#[cfg(test)]
mod tests;
