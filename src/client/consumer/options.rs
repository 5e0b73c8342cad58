//! What a program can set about a consumer.

use std::time::Duration;

use crate::client::RetryPolicy;
use crate::model::limits;
use crate::record::HEADER_LEN;

/// How a [`Consumer`](super::Consumer) reads, commits and repairs its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Whether a batch becomes one message for each of its records, where its payload shows them (newline-terminated
    /// lines, as many as it claims). Else each batch is one message with its `record_count`.
    pub split_batches: bool,
    /// Bytes asked for in one read. A message keeps the chunk that it was read in.
    pub read_bytes: usize,
    /// Largest frame that is accepted, in bytes, header and key included. Nothing is allocated for a larger one.
    pub max_frame_bytes: u64,
    /// When to connect again after a break, and when to give up.
    pub retry: RetryPolicy,
    /// Time for each attempt to connect.
    pub connect_timeout: Duration,
    /// Time for a commit: connection, request and answer.
    pub commit_timeout: Duration,
    /// If no byte came for that long, the connection counts as broken and is made again. Protocol 1.0 has no heartbeat, so
    /// a connection that a network dropped silently looks like an idle topic: set this where networks do that. Each
    /// reconnect resends from the committed offset.
    pub idle_timeout: Option<Duration>,
}

impl Default for ConsumerOptions {
    /// Batches split, reads of 256 KiB, frames up to the largest payload a broker takes by default, no idle time-out.
    fn default() -> Self {
        Self {
            split_batches: true,
            read_bytes: 256 * 1024,
            max_frame_bytes: u64::from(limits::PAYLOAD_MB_DEFAULT) * limits::MIB
                + u64::from(limits::KEY_BYTES_MAX)
                + HEADER_LEN as u64,
            retry: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(5),
            commit_timeout: Duration::from_secs(5),
            idle_timeout: None,
        }
    }
}
