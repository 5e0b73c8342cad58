//! What a program can set about a consumer.

use std::time::Duration;

use crate::client::{ConnectOptions, RetryPolicy};
use crate::model::limits;
use crate::protocol::v1_1::{Fallback, Start};
use crate::record::HEADER_LEN;

/// How a [`Consumer`](super::Consumer) reads, commits and repairs its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Version of the protocol, time for an attempt, token.
    pub connect: ConnectOptions,
    /// First record (1.1); `None`: where the group has committed, else the oldest. It counts for the first connection:
    /// after a break the consumer goes on behind the last record that it gave, or, before the first, where it began. A
    /// partition, or a topic, that came into being later is read from its oldest record if this is the latest.
    pub start: Option<Start>,
    /// Whether it ends with the log end at the time of the first connection (1.1): then
    /// [`ConsumeError::End`](super::ConsumeError::End) follows the last record.
    pub until_end: bool,
    /// Whether a batch becomes one message for each of its records, where its payload shows them (newline-terminated
    /// lines, as many as it claims). Else each batch is one message with its `record_count`.
    pub split_batches: bool,
    /// Bytes asked for in one read. A message keeps the chunk that it was read in.
    pub read_bytes: usize,
    /// Largest frame that is accepted, in bytes, header and key included. Nothing is allocated for a larger one.
    pub max_frame_bytes: u64,
    /// When to connect again after a break, and when to give up.
    pub retry: RetryPolicy,
    /// Time for a commit: connection, request and answer.
    pub commit_timeout: Duration,
    /// How often the broker is to say that it is there while it has nothing to send (1.1; 1.0 has no such thing). If
    /// nothing came for three times as long, the connection counts as broken and is made again: what a network dropped
    /// silently looks like an idle topic.
    pub heartbeat: Option<Duration>,
    /// If no byte came for that long, the connection counts as broken, whatever the heartbeat. For 1.0, where networks
    /// drop connections silently: each reconnect resends from the committed offset.
    pub idle_timeout: Option<Duration>,
}

impl Default for ConsumerOptions {
    /// Protocol 1.1, from the committed offset, batches split, reads of 256 KiB, frames up to the largest payload a broker
    /// takes by default, a heartbeat each 10 s.
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            start: None,
            until_end: false,
            split_batches: true,
            read_bytes: 256 * 1024,
            max_frame_bytes: u64::from(limits::PAYLOAD_MB_DEFAULT) * limits::MIB
                + u64::from(limits::KEY_BYTES_MAX)
                + HEADER_LEN as u64,
            retry: RetryPolicy::default(),
            commit_timeout: Duration::from_secs(5),
            heartbeat: Some(Duration::from_secs(10)),
            idle_timeout: None,
        }
    }
}

impl ConsumerOptions {
    /// For a log that was not there when the program began to read: it wants all that is stored from then on, which is all
    /// of it, and an offset of another log says nothing.
    pub(in crate::client) fn read_as_new(&mut self) {
        self.start = match self.start {
            Some(Start::Latest) => Some(Start::Earliest),
            Some(Start::Committed(Fallback::Latest)) => Some(Start::Committed(Fallback::Earliest)),
            Some(Start::Offset(_)) => None,
            start => start,
        };
    }
}
