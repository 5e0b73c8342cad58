//! Errors become what the peer and the operator are told: the only place that maps them.
//!
//! Protocol 1.0 has no words for an error: the connection is closed without a byte, and the reason goes to the log and
//! the metrics. Protocol 1.1 says status, value and message before it closes.

use super::admission::TooManyConnections;
use crate::broker::{AppendError, CommitError, LocateError, PartitionError};
use crate::metrics::CloseReason;
use crate::protocol::v1_1::{self, Answer, AnswerTo};
use crate::protocol::{HandshakeError, Status};
use crate::record::FrameError;

/// The first byte of a connection with TLS; no role.
pub(super) const TLS_RECORD: u8 = 0x16;

/// Why a connection is refused or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For metrics and the log.
    pub reason: CloseReason,
    /// What a peer of version 1.1 is told.
    pub status: Status,
    /// The detail that the status asks for, else 0.
    pub value: u64,
    /// For the peer. Says nothing about the broker's machine.
    pub message: String,
    /// For the log, in the error's own words.
    pub detail: String,
}

impl Refusal {
    fn new(reason: CloseReason, status: Status, error: &impl ToString) -> Self {
        let detail = error.to_string();
        Self { reason, status, value: 0, message: detail.clone(), detail }
    }

    fn value(self, value: u64) -> Self {
        Self { value, ..self }
    }

    fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// The bytes of the answer.
    pub(super) fn answer(&self, to: AnswerTo) -> Vec<u8> {
        let mut bytes = Vec::new();
        Answer::error(self.status, self.value, self.message.as_str()).write(to, &mut bytes);
        bytes
    }
}

/// Why a handshake closes the connection.
pub(super) fn of_handshake(error: &HandshakeError) -> Refusal {
    let (reason, status) = match error {
        HandshakeError::UnknownRole(_) => (CloseReason::UnknownRole, Status::Unsupported),
        HandshakeError::EmptyName(_) | HandshakeError::InvalidName { .. } => {
            (CloseReason::InvalidName, Status::InvalidName)
        }
    };
    if matches!(error, HandshakeError::UnknownRole(TLS_RECORD)) {
        return Refusal::new(reason, status, &"a client with TLS, where tls.mode is off");
    }
    Refusal::new(reason, status, error)
}

/// Why a handshake of version 1.1 closes the connection.
pub(super) fn of_handshake_1_1(error: &v1_1::HandshakeError) -> Refusal {
    let status = error.status();
    let reason = match status {
        Status::Unsupported => CloseReason::Unsupported,
        Status::InvalidName => CloseReason::InvalidName,
        _ => CloseReason::Malformed,
    };
    Refusal::new(reason, status, error)
}

/// Why somebody is not let in: who it is could not be established.
pub(super) fn of_unauthenticated(error: &impl ToString) -> Refusal {
    Refusal::new(CloseReason::Unauthenticated, Status::Unauthenticated, error)
}

/// Why somebody is not let in: it may not do that. Says nothing about whether what was asked for exists.
pub(super) fn of_unauthorized(reason: &impl ToString) -> Refusal {
    Refusal::new(CloseReason::Unauthorized, Status::Unauthorized, reason)
}

/// Why a frame closes the connection.
pub(super) fn of_frame(error: &FrameError) -> Refusal {
    let too_large = |max: u32, key: &str| {
        Refusal::new(CloseReason::TooLarge, Status::TooLarge, error)
            .value(u64::from(max))
            .message(format!("{error} ({key})"))
    };
    match *error {
        FrameError::Magic(_) => Refusal::new(CloseReason::BadMagic, Status::Malformed, error),
        FrameError::KeyTooLarge { max, .. } => too_large(max, "security.max_key_kb"),
        FrameError::PayloadTooLarge { max, .. } => {
            too_large(max, "security.max_payload_mb, or the topic's max_payload_mb")
        }
        FrameError::TooManyRecords { max, .. } => too_large(max, "security.max_record_count"),
    }
}

/// Why there is no partition for the connection.
pub(super) fn of_partition(error: &PartitionError) -> Refusal {
    let new = |reason, status| Refusal::new(reason, status, error);
    match error {
        PartitionError::UnknownTopic(topic) => new(CloseReason::UnknownTopic, Status::UnknownTopic)
            .message(format!("there is no topic {topic}, and none is created on demand")),
        PartitionError::UnknownPartition { topic, partition, partitions } => {
            new(CloseReason::UnknownPartition, Status::UnknownPartition)
                .value(u64::from(*partitions))
                .message(format!("{topic} has no partition {partition}"))
        }
        PartitionError::Reserved(topic) => new(CloseReason::ReservedTopic, Status::ReservedTopic)
            .message(format!("{topic} is a topic of the broker")),
        PartitionError::LimitReached { .. } | PartitionError::TooManyTopics { .. } => {
            new(CloseReason::LimitReached, Status::LimitReached)
        }
        PartitionError::Unfinished { topic, .. } => new(CloseReason::Storage, Status::NotStored)
            .message(format!("{topic} was deleted, and not all of it is removed yet")),
        // The error names paths.
        PartitionError::Create(_) => new(CloseReason::Storage, Status::NotStored)
            .message("the topic could not be created now; the broker's log says why"),
    }
}

/// Why there is no place to read from.
pub(super) fn of_locate(error: &LocateError) -> Refusal {
    match *error {
        LocateError::Damaged { .. } => Refusal::new(CloseReason::Corrupt, Status::Corrupt, error),
        LocateError::OutOfRange { offset, start, end } => {
            let (reason, status) = (CloseReason::OutOfRange, Status::OffsetOutOfRange);
            Refusal::new(reason, status, error).value(offset.clamp(start, end)).message(format!(
                "offset {offset} is outside the log, which goes from {start} to {end}"
            ))
        }
        LocateError::Io(_) => Refusal::new(CloseReason::Storage, Status::Corrupt, error)
            .message("the log could not be read there; the broker's log says why"),
    }
}

/// Why a commit of version 1.0 was not done.
pub(super) fn of_commit(error: &CommitError) -> Refusal {
    let reason = match error {
        CommitError::Append(_) => CloseReason::Storage,
        CommitError::TableFull | CommitError::TooManyGroups { .. } => CloseReason::LimitReached,
        CommitError::Deleted => CloseReason::TopicDeleted,
        CommitError::BeyondEnd { .. } => CloseReason::OutOfRange,
    };
    let Answer { value, .. } = answer_of_commit(error);
    Refusal::new(reason, status_of_commit(error), error).value(value)
}

/// What a commit on a connection of role commit is answered that was not done. The connection goes on.
pub(super) fn answer_of_commit(error: &CommitError) -> Answer {
    let value = if let CommitError::BeyondEnd { end, .. } = *error { end } else { 0 };
    Answer::error(status_of_commit(error), value, "")
}

fn status_of_commit(error: &CommitError) -> Status {
    match error {
        // The offsets topic is never deleted.
        CommitError::Append(error) if error.is_permanent() => Status::ReadOnly,
        CommitError::Append(_) => Status::NotStored,
        CommitError::TableFull | CommitError::TooManyGroups { .. } => Status::LimitReached,
        CommitError::Deleted => Status::TopicDeleted,
        CommitError::BeyondEnd { .. } => Status::OffsetOutOfRange,
    }
}

/// Why frames will never be stored, if so: the error is not one that passes.
pub(super) fn of_append(error: &AppendError) -> Option<Refusal> {
    match error {
        AppendError::Deleted => Some(of_deleted()),
        error => error
            .is_permanent()
            .then(|| Refusal::new(CloseReason::ReadOnly, Status::ReadOnly, error)),
    }
}

/// Why frames whose flush failed are not stored.
pub(super) fn of_failed_flush() -> Refusal {
    let error = "a flush failed: the partition takes no more records until the broker is restarted";
    Refusal::new(CloseReason::ReadOnly, Status::ReadOnly, &error)
}

/// Why a connection ends whose topic was deleted.
pub(super) fn of_deleted() -> Refusal {
    Refusal::new(CloseReason::TopicDeleted, Status::TopicDeleted, &"the topic was deleted")
}

/// Why a connection is one too many.
pub(super) fn of_admission(error: TooManyConnections) -> Refusal {
    Refusal::new(reason_of_admission(error), Status::LimitReached, &error)
}

/// The same for one that is told nothing.
pub(super) fn reason_of_admission(error: TooManyConnections) -> CloseReason {
    match error {
        TooManyConnections::InAll { .. } => CloseReason::ConnectionLimit,
        TooManyConnections::OfAddress { .. } => CloseReason::AddressLimit,
    }
}

/// Why nothing begins any more.
pub(super) fn of_stopping() -> Refusal {
    Refusal::new(CloseReason::ShuttingDown, Status::ShuttingDown, &"the broker is going down")
}

/// Why a worker does not take what was asked for.
pub(super) fn of_lost_worker() -> Refusal {
    Refusal::new(CloseReason::Storage, Status::ShuttingDown, &"the broker is going down")
}
