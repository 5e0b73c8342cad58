//! Receiving records: large reads, no copies, at least once.

mod decode;
mod error;
mod options;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

pub use error::ConsumeError;
pub use options::ConsumerOptions;

use super::commit::{self, CommitError};
use super::connect::{self, ConnectError};
use super::message::Message;
use super::retry::Backoff;
use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::protocol::Request;
use decode::Decoder;

/// Receives the records of one partition for one group, from the group's committed offset on.
///
/// **At least once.** What is handled and not committed comes again to the next consumer of the group. Commit the
/// *next* offset of what was handled ([`commit`](Self::commit) does): clients of the original commit the offset
/// itself, and see that message again. Offsets are of records, but a broker resumes at frames: a group that resumes
/// inside a batch gets the whole batch again.
///
/// **Breaks** are repaired within [`recv`](Self::recv): the broker starts again from the committed offset, and what this
/// consumer has given before is left out. So one consumer gives no record twice, except for a log that was deleted and
/// begun again: its records below the last offset given are left out as well until it has grown past it.
///
/// **Two consumers of a group** on one partition both get all of it; protocol 1.0 does not share a partition out.
pub struct Consumer {
    addr: String,
    group: GroupName,
    topic: TopicName,
    partition: PartitionId,
    options: ConsumerOptions,
    stream: Option<TcpStream>,
    decoder: Decoder,
    backoff: Backoff,
    /// When the connection broke, if no byte has come since.
    failing_since: Option<Instant>,
    connected_at: Instant,
}

/// A connection that was open for longer was not refused, even if no byte came.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// A connection that was open for longer ended the outage before it, even if it brought nothing new.
const RECOVERY_TIME: Duration = Duration::from_secs(5);

impl Consumer {
    /// Connects to the broker at `addr` (`host:port`): one attempt, within `connect_timeout`.
    ///
    /// Protocol 1.0 does not answer a handshake: a partition that does not exist shows in [`recv`](Self::recv).
    pub async fn connect(
        addr: impl Into<String>,
        group: GroupName,
        topic: TopicName,
        partition: PartitionId,
        options: ConsumerOptions,
    ) -> Result<Self, ConnectError> {
        let mut consumer = Self {
            addr: addr.into(),
            group,
            topic,
            partition,
            stream: None,
            decoder: Decoder::new(options.max_frame_bytes, options.split_batches),
            backoff: Backoff::new(&options.retry),
            options,
            failing_since: None,
            connected_at: Instant::now(),
        };
        consumer.stream = Some(consumer.open().await?);
        Ok(consumer)
    }

    /// The next message; waits for one at the end of the partition.
    ///
    /// Cancel-safe: dropped while it waits, nothing is lost, and the next call goes on where this one was.
    pub async fn recv(&mut self) -> Result<Message, ConsumeError> {
        loop {
            if let Some(message) = self.try_next()? {
                return Ok(message);
            }
            self.fill().await?;
        }
    }

    /// The next message that has been read already, without waiting and without I/O. `Ok(None)`: call
    /// [`recv`](Self::recv) to read more.
    ///
    /// To handle messages in bulk: `recv` one, take the others with this until `None`, commit the last one.
    pub fn try_next(&mut self) -> Result<Option<Message>, ConsumeError> {
        let next = self.decoder.next();
        if next.is_err() {
            // There is no telling where the next frame starts, so the next call starts over, after a pause.
            self.stream = None;
            self.decoder.restart();
            self.failing_since = Some(Instant::now());
        } else if matches!(next, Ok(Some(_))) && self.failing_since.take().is_some() {
            // Something new: the outage is over.
            self.backoff.reset();
        }
        next
    }

    /// Makes the group resume behind `message`: commits its `next_offset`, and with it all before it.
    ///
    /// Protocol 1.0 takes one connection for each commit: commit the last message of a bulk, not each one.
    pub async fn commit(&self, message: &Message) -> Result<(), CommitError> {
        self.commit_offset(message.next_offset).await
    }

    /// Makes the group resume at `next`, the first offset that it has not handled. Bounded by `commit_timeout`.
    pub async fn commit_offset(&self, next: Offset) -> Result<(), CommitError> {
        let request = Request::Commit {
            group: self.group.clone(),
            topic: self.topic.clone(),
            partition: self.partition,
            offset: next,
        };
        commit::send(&self.addr, &request, self.options.commit_timeout).await
    }

    async fn open(&self) -> Result<TcpStream, ConnectError> {
        let request = Request::Consume {
            group: self.group.clone(),
            topic: self.topic.clone(),
            partition: self.partition,
        };
        connect::open(&self.addr, &request, self.options.connect_timeout).await
    }

    /// Reads some bytes, on a new connection if need be.
    async fn fill(&mut self) -> Result<(), ConsumeError> {
        if self.stream.is_none() {
            self.reconnect().await?;
        }
        match self.read().await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.stream = None;
                let silence = error.kind() == io::ErrorKind::TimedOut;
                let lived = self.connected_at.elapsed();
                let refused = !silence && lived < REFUSAL_TIME;
                // One that was cut off sooner may have brought repetitions only, as before damage in the log.
                if silence || lived >= RECOVERY_TIME {
                    self.failing_since = None;
                    self.backoff.reset();
                }
                self.fail(error.to_string().into(), refused)
            }
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        self.decoder.make_room(self.options.read_bytes);
        let reading = stream.read_buf(&mut self.decoder.buf);
        let read = match self.options.idle_timeout {
            None => reading.await?,
            Some(limit) => tokio::time::timeout(limit, reading).await.map_err(|_| {
                let text = format!("no byte within {} ms", limit.as_millis());
                io::Error::new(io::ErrorKind::TimedOut, text)
            })??,
        };
        if read == 0 {
            let text = "the broker closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(())
    }

    /// Dropped half-way, it starts over with the next call, in the same outage.
    async fn reconnect(&mut self) -> Result<(), ConsumeError> {
        loop {
            if self.failing_since.is_some() {
                tokio::time::sleep(self.backoff.next_pause()).await;
            }
            match self.open().await {
                Ok(stream) => {
                    self.decoder.restart();
                    self.stream = Some(stream);
                    self.connected_at = Instant::now();
                    return Ok(());
                }
                Err(error) => self.fail(error.to_string().into(), false)?,
            }
        }
    }

    /// Notes a failure. An error once it has lasted too long; the next call then begins a new outage.
    fn fail(&mut self, reason: Arc<str>, refused: bool) -> Result<(), ConsumeError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let elapsed = since.elapsed();
        tracing::debug!(addr = %self.addr, topic = %self.topic, partition = self.partition, %reason,
            "connection to the broker lost");
        if elapsed < self.options.retry.max_elapsed {
            return Ok(());
        }
        self.failing_since = None;
        self.backoff.reset();
        if refused {
            return Err(ConsumeError::Refused { elapsed });
        }
        Err(ConsumeError::Disconnected { elapsed, reason })
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("addr", &self.addr)
            .field("group", &self.group)
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
