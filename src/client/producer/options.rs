//! What a program can set about a producer.

use std::time::Duration;

use crate::client::{ConnectOptions, RetryPolicy};
use crate::model::limits;
use crate::protocol::v1_1::Durability;

/// How a [`Producer`](super::Producer) gathers, bounds and repeats what it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerOptions {
    /// Version of the protocol, time for an attempt, token.
    pub connect: ConnectOptions,
    /// When a record counts as stored: as the topic says, or only once it is on the disk (1.1).
    pub durability: Durability,
    /// How long a record may wait for others to be sent with it. 0: what is queued is sent at once, and what comes
    /// in the meantime is gathered anyway.
    pub linger: Duration,
    /// Bytes gathered into one write; when they are there, the linger ends. A larger frame is written alone.
    pub batch_bytes: usize,
    /// Bytes handed over and not yet acked at which `send` waits, each record counted as a frame of its own (29 bytes,
    /// key and payload). The last record taken may exceed it, so that a larger one can pass.
    pub max_in_flight_bytes: usize,
    /// Frames written and not yet acked, at most. 1 keeps the order of records even when one has to be repeated.
    /// `send` waits once the records for that many frames are handed over.
    pub max_in_flight_frames: usize,
    /// How records become frames.
    pub packing: Packing,
    /// Largest payload of a record, in bytes: larger ones are refused at once. Set it as the broker's limit is set.
    pub max_payload_bytes: u32,
    /// When to repeat and when to give up.
    pub retry: RetryPolicy,
    /// Time in which the broker neither takes a byte nor sends an ack, while some are due, after which the connection counts as
    /// broken.
    pub ack_timeout: Duration,
}

impl Default for ProducerOptions {
    /// Protocol 1.1, no linger, writes of 64 KiB, a window of 16 MiB and 65,536 frames, a frame for each record.
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            durability: Durability::Topic,
            linger: Duration::ZERO,
            batch_bytes: 64 * 1024,
            max_in_flight_bytes: 16 * 1024 * 1024,
            max_in_flight_frames: 65_536,
            packing: Packing::Frames,
            max_payload_bytes: limits::PAYLOAD_MB_DEFAULT * 1024 * 1024,
            retry: RetryPolicy::default(),
            ack_timeout: Duration::from_secs(30),
        }
    }
}

/// How records become frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// A frame for each record: any bytes, a key and a timestamp of its own.
    Frames,
    /// Records that are queued together share a frame, each ended by a newline: 1 byte of overhead instead of 29.
    ///
    /// Such a frame is stored or repeated as a whole and carries the timestamp of its first record. A record with a
    /// key or with a newline byte gets a frame of its own, in its place. Consumers see single records again: those of this
    /// SDK, and any that splits a batch at newlines.
    Lines {
        /// Most records in one frame; a frame also ends at `batch_bytes`.
        max_records: u32,
    },
}

impl Packing {
    /// Most records that one frame takes, at least 1 and at most what a broker accepts.
    pub(super) fn max_records(self) -> u32 {
        match self {
            Self::Frames => 1,
            Self::Lines { max_records } => max_records.clamp(1, limits::RECORD_COUNT_MAX),
        }
    }
}
