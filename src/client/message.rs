//! What a program sends and what it receives.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::model::Offset;

/// A record to send: bytes, and perhaps a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Empty for a record without a key. A compacted topic keeps the newest record of each key.
    pub key: Bytes,
    /// The content. With a key and in a compacted topic, an empty payload deletes the key.
    pub payload: Bytes,
    /// Nanoseconds since the Unix epoch; `None` takes the time at which the record is handed over.
    pub timestamp: Option<u64>,
}

impl Record {
    /// A record without a key, with the time of sending.
    ///
    /// A `Vec<u8>`, `String` or `&'static` slice becomes [`Bytes`] without a copy.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { key: Bytes::new(), payload: payload.into(), timestamp: None }
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets the timestamp, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }
}

/// A record received, or a batch of records where it was asked for whole or does not show its records.
///
/// Key and payload are slices of the buffer that the connection was read into: nothing was copied, and a message
/// that is kept for long keeps that buffer. Copy what little you keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Offset of the record; of the first one of a batch.
    pub offset: Offset,
    /// Nanoseconds since the Unix epoch, as the sender set it.
    pub timestamp: u64,
    /// Empty for a record without a key.
    pub key: Bytes,
    /// The content.
    pub payload: Bytes,
    /// 1, or the number of records of a batch that is given whole.
    pub record_count: u32,
    /// Where a group resumes that has handled this message: the offset to commit.
    pub next_offset: Offset,
}

/// Nanoseconds since the Unix epoch; 0 for a clock that stands before it.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
