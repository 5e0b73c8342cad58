//! What can be wrong with a handshake, in words for whoever sent it, and the status that the reply gives.

use super::Tag;
use crate::model::InvalidName;
use crate::model::limits::HANDSHAKE_FIELDS_BYTES_MAX;
use crate::protocol::Status;

/// Why bytes are not a handshake, whatever may follow them. The text is fit for the reply's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first byte is not a role of version 1.1.
    #[error("unknown role byte 0x{0:02x}")]
    UnknownRole(u8),
    /// The handshake's length is over the limit.
    #[error("the handshake has {len} bytes of fields, the limit is {HANDSHAKE_FIELDS_BYTES_MAX}")]
    TooLong {
        /// Bytes claimed.
        len: u16,
    },
    /// Fewer bytes are left than the tag and the length of a field take.
    #[error("the handshake ends inside a field: {left} bytes are left, a tag and a length take 3")]
    CutOff {
        /// Bytes left.
        left: usize,
    },
    /// A field's length goes beyond the end of the handshake.
    #[error("{tag} has a length of {len} bytes, but the handshake ends after {left}")]
    RunsOver {
        /// Which field.
        tag: Tag,
        /// Bytes claimed.
        len: u16,
        /// Bytes left.
        left: usize,
    },
    /// A tag stands twice, known or not.
    #[error("{0} stands twice")]
    Twice(Tag),
    /// A required field is not there.
    #[error("{tag} is missing; it is required to {purpose}")]
    Missing {
        /// Which field.
        tag: Tag,
        /// What the connection is for.
        purpose: &'static str,
    },
    /// A value has another length than its type.
    #[error("{tag} has {len} bytes, it takes {expected}")]
    WrongLength {
        /// Which field.
        tag: Tag,
        /// Bytes given.
        len: usize,
        /// Bytes of its type.
        expected: usize,
    },
    /// A value has more bytes than allowed.
    #[error("{tag} has {len} bytes, the limit is {max}")]
    TooManyBytes {
        /// Which field.
        tag: Tag,
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A value that means nothing.
    #[error("{tag} has {what} {value}; allowed: {allowed}")]
    WrongValue {
        /// Which field.
        tag: Tag,
        /// Which part of it.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What may be given.
        allowed: &'static str,
    },
    /// A text that is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(Tag),
    /// A topic or group name outside the allow-list.
    #[error("{tag} is not allowed: {source}")]
    InvalidName {
        /// Which name.
        tag: Tag,
        /// What is wrong with it.
        source: InvalidName,
    },
    /// A field that is not known and may not be skipped.
    #[error("{0} is not supported")]
    Unsupported(Tag),
}

impl HandshakeError {
    /// The status of the reply.
    pub fn status(&self) -> Status {
        match self {
            Self::UnknownRole(_) | Self::Unsupported(_) => Status::Unsupported,
            Self::InvalidName { .. } => Status::InvalidName,
            Self::TooLong { .. }
            | Self::CutOff { .. }
            | Self::RunsOver { .. }
            | Self::Twice(_)
            | Self::Missing { .. }
            | Self::WrongLength { .. }
            | Self::TooManyBytes { .. }
            | Self::WrongValue { .. }
            | Self::NotUtf8(_) => Status::Malformed,
        }
    }
}

/// A handshake whose fields take more bytes than one may have: its client names are too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handshake has {len} bytes of fields, the limit is {HANDSHAKE_FIELDS_BYTES_MAX}")]
pub struct HandshakeTooLong {
    /// Bytes of the fields.
    pub len: usize,
}
