//! From a handshake to a partition: what a connection asked for, found or created.

use std::sync::Arc;

use crate::broker::{Broker, Cursor, OffsetKey, Partition, PartitionError};
use crate::metrics::CloseReason;
use crate::model::{GroupName, Offset, TopicPartition};
use crate::protocol::Request;

use super::status;

/// What was asked for.
#[derive(Debug)]
pub(super) enum Target {
    /// Append here.
    Producer(Arc<Partition>),
    /// Read from here.
    Consumer(Arc<Partition>, Cursor),
    /// The commit is done.
    Committed,
}

/// Why it was refused: the reason, and a text for the log.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: CloseReason,
    pub(super) detail: String,
}

impl Refused {
    fn new(reason: CloseReason, detail: &impl ToString) -> Self {
        Self { reason, detail: detail.to_string() }
    }
}

/// Answers a request without touching the disk; `None` if that is not possible.
pub(super) fn open_now(broker: &Broker, request: &Request) -> Option<Result<Target, Refused>> {
    if let Some(refused) = refuse_reserved(request) {
        return Some(Err(refused));
    }
    match request {
        Request::Produce { topic, partition } => {
            let found = broker.existing(topic, *partition)?;
            Some(found.map(Target::Producer).map_err(|error| of_partition(&error)))
        }
        // Finding a consumer's place reads the index and the log.
        Request::Consume { .. } => None,
        Request::Commit { group, topic, partition, offset } => {
            let found = broker.existing(topic, *partition)?;
            Some(match found {
                Ok(partition) => commit(broker, group, &partition, *offset),
                Err(error) => Err(of_partition(&error)),
            })
        }
    }
}

/// Answers a request. May create a topic and read the log: not for a reactor.
pub(super) fn open(broker: &Broker, request: &Request) -> Result<Target, Refused> {
    if let Some(refused) = refuse_reserved(request) {
        return Err(refused);
    }
    let partition = broker
        .partition(request.topic(), request.partition())
        .map_err(|error| of_partition(&error))?;
    match request {
        Request::Produce { .. } => Ok(Target::Producer(partition)),
        Request::Consume { group, .. } => consume(broker, group, partition),
        Request::Commit { group, offset, .. } => commit(broker, group, &partition, *offset),
    }
}

fn refuse_reserved(request: &Request) -> Option<Refused> {
    match request {
        Request::Produce { topic, .. } if topic.is_reserved() => {
            Some(of_partition(&PartitionError::Reserved(topic.clone())))
        }
        _ => None,
    }
}

fn consume(
    broker: &Broker,
    group: &GroupName,
    partition: Arc<Partition>,
) -> Result<Target, Refused> {
    let committed = broker.committed(&key(group, partition.name()));
    let (cursor, moved) = partition
        .resume(committed.unwrap_or(0))
        .map_err(|error| Refused::new(status::of_locate(&error), &error))?;
    if let Some(moved) = moved.filter(|_| committed.is_some()) {
        tracing::warn!(
            %group, partition = %partition.name(), committed = moved.from, start = moved.to,
            "the committed offset is outside the log; the group resumes at the nearest one"
        );
    }
    Ok(Target::Consumer(partition, cursor))
}

fn commit(
    broker: &Broker,
    group: &GroupName,
    partition: &Partition,
    offset: Offset,
) -> Result<Target, Refused> {
    match broker.commit(key(group, partition.name()), partition, offset) {
        Ok(_) => Ok(Target::Committed),
        Err(error) => Err(Refused::new(status::of_commit(&error), &error)),
    }
}

fn key(group: &GroupName, partition: &TopicPartition) -> OffsetKey {
    OffsetKey { group: group.clone(), partition: partition.clone() }
}

fn of_partition(error: &PartitionError) -> Refused {
    Refused::new(status::of_partition(error), error)
}
