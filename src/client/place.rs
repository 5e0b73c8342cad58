//! What a topic has, asked without reading it: how many partitions, and where a log ends.

use super::connect::{self, ConnectError, ConnectOptions, Hello, Place, Protocol, Wish};
use crate::model::{Offset, PartitionId, TopicName};
use crate::protocol::Status;
use crate::protocol::v1_1::{Durability, Start};

/// No topic has it: limits keep partitions far below.
const NO_PARTITION: PartitionId = PartitionId::MAX;

/// How many partitions a topic has, 1 or more. The broker creates the topic if it may. Needs protocol 1.1.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use hermitmq::client::{ConnectOptions, partition_count};
/// use hermitmq::model::TopicName;
///
/// let topic = TopicName::parse("orders")?;
/// let count = partition_count("127.0.0.1:9092", &topic, &ConnectOptions::default()).await?;
/// # let _ = count;
/// # Ok(())
/// # }
/// ```
pub async fn partition_count(
    addr: &str,
    topic: &TopicName,
    options: &ConnectOptions,
) -> Result<u32, ConnectError> {
    can_count(options)?;
    count_by(addr, offset_of(addr, topic, NO_PARTITION, Start::Latest, options).await)
}

/// The same for one who is to produce: he may not be allowed to read.
pub(super) async fn partition_count_to_produce(
    addr: &str,
    topic: &TopicName,
    options: &ConnectOptions,
) -> Result<u32, ConnectError> {
    can_count(options)?;
    let place = Place { addr: addr.to_owned(), topic: topic.clone(), partition: NO_PARTITION };
    let hello = Hello::produce(&place, Durability::Topic, options)?;
    let opened = connect::open(addr, &hello, options).await;
    count_by(addr, opened.map(|(_, offset)| offset))
}

/// 1.0 refuses without a word.
fn can_count(options: &ConnectOptions) -> Result<(), ConnectError> {
    match options.protocol {
        Protocol::V1_1 => Ok(()),
        Protocol::V1_0 => Err(ConnectError::NotIn1_0("number of partitions")),
    }
}

/// A partition that is not there is refused with the number of those that are.
fn count_by(addr: &str, asked: Result<Offset, ConnectError>) -> Result<u32, ConnectError> {
    match asked {
        Err(ConnectError::Refused(refused))
            if refused.status() == Some(Status::UnknownPartition) && refused.value > 0 =>
        {
            Ok(u32::try_from(refused.value).unwrap_or(u32::MAX))
        }
        Err(error) => Err(error),
        // Nothing says so: there is the one that was asked for.
        Ok(_) => Err(ConnectError::NoReply { addr: addr.to_owned() }),
    }
}

/// The offset of a place in a partition: the log start, the log end, or that of the first record at or after a time.
/// Needs protocol 1.1.
///
/// [`Start::Latest`] gives the log end, [`Start::Earliest`] the log start.
pub async fn offset_of(
    addr: &str,
    topic: &TopicName,
    partition: PartitionId,
    start: Start,
    options: &ConnectOptions,
) -> Result<Offset, ConnectError> {
    let place = Place { addr: addr.to_owned(), topic: topic.clone(), partition };
    // It reads nothing: with the end the broker has nothing to wait for either.
    let wish = Wish { group: None, start, heartbeat_ms: None, until_end: true };
    let hello = Hello::consume(&place, wish, options)?;
    let (_, offset) = connect::open(addr, &hello, options).await?;
    Ok(offset)
}
