//! Why there is no message.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Refused;
use crate::protocol::v1_1::IncomingError;

/// Why a [`Consumer`](super::Consumer) has no message. Nothing is lost: the next call connects again and goes on after
/// the last message that was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// The broker cannot be reached, or connections break before a byte comes. Call again to go on trying.
    #[error("no connection for {} ms: {reason}", elapsed.as_millis())]
    Disconnected {
        /// Time since the connection was lost.
        elapsed: Duration,
        /// What happened last.
        reason: Arc<str>,
    },
    /// The broker refuses for good, and says why (1.1). Calling again asks again, and helps only if what it says changes.
    #[error(transparent)]
    Rejected(#[from] Refused),
    /// The topic was deleted while it was read (1.1). Calling again reads the topic that has its name now, if there is one.
    #[error("{0}")]
    TopicDeleted(Arc<str>),
    /// Everything up to the log end was given: only if [`until_end`](super::ConsumerOptions::until_end) was asked for.
    #[error("everything up to the end was received")]
    End,
    /// The broker closed each connection right after the handshake, which is how protocol 1.0 refuses. Check group, topic
    /// and partition; calling again helps only if they come to exist.
    #[error(
        "the broker closed the connection right after the handshake for {} ms: does the partition exist, may the \
         topic be created, is the address that of a broker?",
        elapsed.as_millis()
    )]
    Refused {
        /// Time since the first refusal.
        elapsed: Duration,
    },
    /// What came is not a frame: the address belongs to something else, or data was damaged on the way. Calling again
    /// reads it again from the committed offset.
    #[error("not a frame: unknown magic byte 0x{0:02x}; is the address that of a broker?")]
    BadMagic(u8),
    /// What came is neither a frame nor a control frame: as [`BadMagic`](Self::BadMagic).
    #[error("not a frame: {0}")]
    Malformed(IncomingError),
    /// A frame larger than `max_frame_bytes`. Calling again meets it again: raise the limit, or commit an offset
    /// behind it.
    #[error("a frame of {bytes} bytes is over the limit of {max}")]
    FrameTooLarge {
        /// Bytes that its header claims.
        bytes: u64,
        /// Bytes allowed.
        max: u64,
    },
}
