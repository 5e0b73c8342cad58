//! Errors become what the peer and the operator are told: the only place that maps them.
//!
//! Protocol 1.0 has no words for an error: the connection is closed without a byte, and the reason goes to the log and
//! the metrics.

use crate::broker::{CommitError, LocateError, PartitionError};
use crate::metrics::CloseReason;
use crate::protocol::HandshakeError;
use crate::record::FrameError;

/// Why a handshake closes the connection.
pub(super) fn of_handshake(error: &HandshakeError) -> CloseReason {
    match error {
        HandshakeError::UnknownRole(_) => CloseReason::UnknownRole,
        HandshakeError::EmptyName(_) | HandshakeError::InvalidName { .. } => {
            CloseReason::InvalidName
        }
    }
}

/// Why a frame closes the connection.
pub(super) fn of_frame(error: &FrameError) -> CloseReason {
    match error {
        FrameError::Magic(_) => CloseReason::BadMagic,
        FrameError::KeyTooLarge { .. }
        | FrameError::PayloadTooLarge { .. }
        | FrameError::TooManyRecords { .. } => CloseReason::TooLarge,
    }
}

/// Why there is no partition for the connection.
pub(super) fn of_partition(error: &PartitionError) -> CloseReason {
    match error {
        PartitionError::UnknownTopic(_) => CloseReason::UnknownTopic,
        PartitionError::UnknownPartition { .. } => CloseReason::UnknownPartition,
        PartitionError::Reserved(_) => CloseReason::ReservedTopic,
        PartitionError::LimitReached { .. } => CloseReason::LimitReached,
        PartitionError::Create(_) => CloseReason::Storage,
    }
}

/// Why there is no place to read from.
pub(super) fn of_locate(error: &LocateError) -> CloseReason {
    match error {
        LocateError::Damaged { .. } => CloseReason::Corrupt,
        LocateError::OutOfRange { .. } | LocateError::Io(_) => CloseReason::Storage,
    }
}

/// Why a commit was not done.
pub(super) fn of_commit(error: &CommitError) -> CloseReason {
    match error {
        CommitError::Append(_) => CloseReason::Storage,
        CommitError::TableFull => CloseReason::LimitReached,
    }
}
