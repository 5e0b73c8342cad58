//! Errors of the layers below as problems: which kind each is, and which field is to blame.

use std::error::Error;
use std::io;

use super::problem::{Kind, Problem};
use super::state::CloseError;
use crate::broker::{
    AppendError, CommitError, GroupError, LocateError, PartitionError, PeekError, StoreError,
    TopicError, is_out_of_descriptors,
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
        E::Storage { source, .. } => of_disk(source, error.to_string()),
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
        E::Reserved(_) => problem(Kind::Reserved).of("topic"),
        E::UnknownPartition { .. } => problem(Kind::UnknownPartition).of("partitions"),
        E::InUse { .. } => problem(Kind::Conflict),
        E::OutOfRange { .. } => problem(Kind::OutOfRange).of("to"),
        E::Commit {
            source: CommitError::TableFull | CommitError::TooManyGroups { .. }, ..
        } => problem(Kind::LimitReached),
        E::Locate { source, .. } => of_disk(source, error.to_string()),
        E::Commit { source, .. } => of_disk(source, error.to_string()),
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
        PeekError::Locate(_) | PeekError::Io(_) => of_disk(error, error.to_string()),
    }
}

/// A file was not opened, written or read. Where there was no descriptor for it, no disk is to blame.
fn of_disk(error: &(dyn Error + 'static), detail: String) -> Problem {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let no_descriptor =
        causes.any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_out_of_descriptors));
    if no_descriptor {
        let way_out = "the broker needs a higher limit (ulimit -n, LimitNOFILE of systemd)";
        return Problem::new(Kind::LimitReached, format!("{detail}; {way_out}"));
    }
    Problem::new(Kind::Storage, detail)
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

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_limit_of_open_files_is_no_failed_disk() {
        let status = |errno: Errno| {
            let error = PeekError::Io(errno.into());
            of_peek(&error).into_response().status().as_u16()
        };
        assert_eq!((status(Errno::MFILE), status(Errno::NFILE)), (409, 409));
        assert_eq!(status(Errno::IO), 500);
    }
}
