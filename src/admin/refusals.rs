//! Errors of the layers below as problems: which kind each is, and which field is to blame.

use super::problem::{Kind, Problem};
use super::state::CloseError;
use crate::broker::{
    AppendError, CommitError, GroupError, LocateError, PartitionError, PeekError, StoreError,
    TopicError,
};

/// A topic was not found, created, altered or deleted.
pub(super) fn of_topic(error: &TopicError) -> Problem {
    use TopicError as E;
    let problem = |kind| Problem::new(kind, error.to_string());
    match error {
        E::Unknown(_) => problem(Kind::UnknownTopic).of("topic"),
        E::Exists(_) => problem(Kind::Conflict).of("name"),
        E::Reserved(_) => problem(Kind::Reserved).of("topic"),
        E::Declared(_) | E::Incomplete { .. } | E::Unfinished { .. } => problem(Kind::Conflict),
        E::OutOfRange { field, .. } => problem(Kind::InvalidRequest).of(*field),
        E::FewerPartitions { .. } => problem(Kind::Conflict).of("partitions"),
        E::TooManyTopics { .. } => problem(Kind::LimitReached),
        E::TooManyPartitions { .. } => problem(Kind::LimitReached).of("partitions"),
        E::ReadOnly(_) | E::Flush { .. } => problem(Kind::ReadOnly),
        E::Storage { .. } => problem(Kind::Storage),
        E::Closed => problem(Kind::ShuttingDown),
    }
}

/// A group was not found, reset or deleted.
pub(super) fn of_group(error: &GroupError) -> Problem {
    use GroupError as E;
    let problem = |kind| Problem::new(kind, error.to_string());
    match error {
        E::Unknown(_) => problem(Kind::UnknownGroup).of("group"),
        E::UnknownTopic(_) => problem(Kind::UnknownTopic).of("topic"),
        E::UnknownPartition { .. } => problem(Kind::UnknownPartition).of("partitions"),
        E::InUse { .. } => problem(Kind::Conflict),
        E::OutOfRange { .. } => problem(Kind::OutOfRange).of("to"),
        E::Commit {
            source: CommitError::TableFull | CommitError::TooManyGroups { .. }, ..
        } => problem(Kind::LimitReached),
        E::Locate { .. } | E::Commit { .. } => problem(Kind::Storage),
    }
}

/// A partition was not found.
pub(super) fn of_partition(error: &PartitionError) -> Problem {
    let (kind, field) = match error {
        PartitionError::UnknownPartition { .. } => (Kind::UnknownPartition, "partition"),
        _ => (Kind::UnknownTopic, "topic"),
    };
    Problem::new(kind, error.to_string()).of(field)
}

/// Nobody could look into a partition.
pub(super) fn of_peek(error: &PeekError) -> Problem {
    let problem = |kind| Problem::new(kind, error.to_string());
    match error {
        PeekError::Locate(LocateError::OutOfRange { .. }) => problem(Kind::OutOfRange).of("offset"),
        PeekError::Locate(LocateError::Damaged { .. }) => problem(Kind::Damaged),
        PeekError::Deleted => problem(Kind::UnknownTopic).of("topic"),
        PeekError::Locate(_) | PeekError::Io(_) => problem(Kind::Storage),
    }
}

/// A connection was not closed.
pub(super) fn of_close(error: &CloseError) -> Problem {
    let problem = |kind| Problem::new(kind, error.to_string());
    match error {
        CloseError::Name(_) => problem(Kind::InvalidRequest).of("connection"),
        CloseError::Unknown => problem(Kind::UnknownConnection).of("connection"),
        CloseError::Busy => problem(Kind::Busy),
    }
}

/// A record was not stored.
pub(super) fn of_store(error: &StoreError) -> Problem {
    let problem = |kind| Problem::new(kind, error.to_string());
    match error {
        StoreError::Reserved => problem(Kind::Reserved).of("topic"),
        StoreError::KeyTooLarge { .. } => problem(Kind::TooLarge).of("key"),
        StoreError::PayloadTooLarge { .. } => problem(Kind::TooLarge).of("payload"),
        StoreError::Append(AppendError::Deleted) => problem(Kind::UnknownTopic).of("topic"),
        StoreError::Append(error) if error.is_permanent() => problem(Kind::ReadOnly),
        StoreError::FlushFailed => problem(Kind::ReadOnly),
        StoreError::Append(_) | StoreError::Unflushed => problem(Kind::NotStored),
    }
}
