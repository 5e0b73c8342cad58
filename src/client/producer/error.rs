//! Why a record was not taken, or not stored.

use std::sync::Arc;
use std::time::Duration;

/// Why [`send`](super::Producer::send) did not take a record. It was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The producer was closed, or the runtime that ran its background task is gone. Make a new producer.
    #[error("the producer is closed")]
    Closed,
    /// The key is larger than a broker takes. Send a smaller one.
    #[error("a key of {bytes} bytes is over the limit of {max}")]
    KeyTooLarge {
        /// Bytes of the key.
        bytes: usize,
        /// Bytes allowed.
        max: u32,
    },
    /// The payload is larger than `max_payload_bytes`. Send a smaller one, or raise the limit here and in the broker.
    #[error("a payload of {bytes} bytes is over the limit of {max}")]
    PayloadTooLarge {
        /// Bytes of the payload.
        bytes: usize,
        /// Bytes allowed.
        max: u32,
    },
}

/// Why a record that was handed over has no offset.
///
/// After `Disconnected`, `Refused` and `Closed` the record may be stored nevertheless: the connection can break
/// between the write and the ack. Sending it again can make a duplicate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The broker answered again and again that it cannot store the record now (disk full, back-pressure). It is not
    /// stored; send it again when the broker has room.
    #[error("not stored (status 0x{code:02x}) for {} ms: the broker has no room", elapsed.as_millis())]
    NotStored {
        /// The last status.
        code: u8,
        /// Time since it was first refused.
        elapsed: Duration,
    },
    /// The broker refused the record for good. It is not stored; sending it again does not help. With protocol 1.1 it
    /// says why: the record is too large, or the producer may not send here at all (the topic was deleted, the
    /// partition is read-only, access is denied), and then what was handed over behind it fails too.
    #[error("the broker refused the record with status 0x{code:02x}{}{message}", if message.is_empty() { "" } else { ": " })]
    Rejected {
        /// The status.
        code: u8,
        /// For people; protocol 1.0 says nothing.
        message: Arc<str>,
    },
    /// The broker cannot be reached, or connections break. Send it again when the broker is back.
    #[error("no ack for {} ms: {reason}", elapsed.as_millis())]
    Disconnected {
        /// Time since the connection was lost.
        elapsed: Duration,
        /// What happened last.
        reason: Arc<str>,
    },
    /// The broker closed the connection without a byte each time this frame was sent, which is how protocol 1.0
    /// refuses. Sending it again unchanged does not help.
    #[error(
        "the broker closed the connection without an answer to this frame for {} ms: is the key, payload or record \
         count over its limits, or does it keep crashing?",
        elapsed.as_millis()
    )]
    Refused {
        /// Time since the first refusal.
        elapsed: Duration,
    },
    /// The broker closed each connection right after the handshake, which is how protocol 1.0 refuses. Check topic and
    /// partition.
    #[error(
        "the broker closed the connection right after the handshake for {} ms: does the partition exist, may the \
         topic be created and written to, is the address that of a broker?",
        elapsed.as_millis()
    )]
    HandshakeRefused {
        /// Time since the first refusal.
        elapsed: Duration,
    },
    /// The producer's background task ended before the ack: its runtime was shut down.
    #[error("the producer ended before the record was acked")]
    Closed,
}
