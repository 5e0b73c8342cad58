//! Receiving records: large reads, no copies, at least once.

mod decode;
mod error;
mod gap;
mod link;
mod options;

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

pub use error::ConsumeError;
pub use gap::{Gap, GapReason};
pub use options::ConsumerOptions;

use super::commit::{CommitError, Committer};
use super::connect::{ConnectError, ConnectOptions, Place, Protocol, Refused};
use super::message::Message;
use super::messages::Messages;
use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::protocol::Status;
use crate::protocol::v1_1::ControlFrame;
use decode::{Decoded, Decoder};
use gap::Gaps;
use link::{Ended, Link};

/// Receives the records of one partition, for a group from its committed offset on, or from any other place.
///
/// **At least once.** What is handled and not committed comes again to the next consumer of the group. Commit the
/// *next* offset of what was handled ([`commit`](Self::commit) does): clients of the original commit the offset
/// itself, and see that message again. Offsets are of records, but a broker resumes at frames: a group that resumes
/// inside a batch gets the whole batch again.
///
/// **Breaks** are repaired within [`recv`](Self::recv): the consumer goes on behind the last record that it gave, and
/// gives no record twice. (With protocol 1.0 the broker starts again from the committed offset, and what was given before
/// is left out; there, records of a log that was deleted and begun again are left out as well until it has grown past
/// the last offset given.)
///
/// **Gaps.** Records that retention deleted before they were read, or that are damaged, are missing; protocol 1.1 says so,
/// and [`take_gap`](Self::take_gap) tells it.
///
/// **Two consumers of a group** on one partition both get all of it. [`GroupConsumer`](super::GroupConsumer) shares the
/// partitions of a topic out.
pub struct Consumer {
    link: Link,
    group: Option<GroupName>,
    decoder: Decoder,
    committer: Option<Committer>,
    gaps: Gaps,
    /// Where it is known to stand although no record says so: the log ends there, or did.
    reached: Option<Offset>,
}

impl Consumer {
    /// Connects to the broker at `addr` (`host:port`): one attempt, within `connect.timeout`.
    ///
    /// Without a group it commits nothing, and begins with the oldest record if `start` says nothing else (1.1). Protocol
    /// 1.0 does not answer a handshake: a partition that does not exist shows in [`recv`](Self::recv).
    pub async fn connect(
        addr: impl Into<String>,
        group: impl Into<Option<GroupName>>,
        topic: TopicName,
        partition: PartitionId,
        options: ConsumerOptions,
    ) -> Result<Self, ConnectError> {
        let place = Place { addr: addr.into(), topic, partition };
        let mut consumer = Self::unconnected(place, group.into(), options);
        consumer.begin().await?;
        Ok(consumer)
    }

    /// One that connects with [`begin`](Self::begin), else with the first [`recv`](Self::recv).
    pub(in crate::client) fn unconnected(
        place: Place,
        group: Option<GroupName>,
        options: ConsumerOptions,
    ) -> Self {
        let decoder =
            Decoder::new(options.max_frame_bytes, options.split_batches, options.connect.protocol);
        let committer = group.clone().map(|group| {
            let connect =
                ConnectOptions { timeout: options.commit_timeout, ..options.connect.clone() };
            let Place { addr, topic, partition } = place.clone();
            Committer::new(addr, group, topic, partition, connect)
        });
        let link = Link::new(place, group.clone(), options);
        Self { link, group, decoder, committer, gaps: Gaps::default(), reached: None }
    }

    /// The first attempt to connect.
    pub(in crate::client) async fn begin(&mut self) -> Result<(), ConnectError> {
        let first = poll_fn(|cx| self.link.poll_open(None, cx)).await?;
        // 1.0 does not say where it begins.
        self.reached = (self.link.protocol() == Protocol::V1_1).then_some(first);
        Ok(())
    }

    /// The next message; waits for one at the end of the partition.
    ///
    /// Cancel-safe: dropped while it waits, nothing is lost, and the next call goes on where this one was.
    pub async fn recv(&mut self) -> Result<Message, ConsumeError> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Self::recv), for one who waits for several.
    pub(in crate::client) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Message, ConsumeError>> {
        loop {
            if let Some(message) = self.try_next()? {
                return Poll::Ready(Ok(message));
            }
            if self.is_at_end() {
                return Poll::Ready(Err(ConsumeError::End));
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    /// The next message that has been read already, without waiting and without I/O. `Ok(None)`: call
    /// [`recv`](Self::recv) to read more.
    ///
    /// To handle messages in bulk: `recv` one, take the others with this until `None`, commit the last one.
    pub fn try_next(&mut self) -> Result<Option<Message>, ConsumeError> {
        loop {
            match self.decoder.next() {
                Ok(Decoded::Message(message)) => {
                    self.link.alive();
                    return Ok(Some(message));
                }
                Ok(Decoded::Control(control)) => self.take_in(control)?,
                Ok(Decoded::Nothing) => return Ok(None),
                Err(error) => {
                    // There is no telling where the next frame starts, so the next call starts over, after a pause.
                    self.link.reset();
                    self.decoder.restart();
                    return Err(error);
                }
            }
        }
    }

    /// The messages as a stream. [`Messages::consumer`] gives the consumer back, to commit.
    pub fn into_stream(self) -> Messages<Self> {
        Messages::new(self)
    }

    /// Records that were left out since the last call, and why: once for each gap.
    pub fn take_gap(&mut self) -> Option<Gap> {
        self.gaps.take()
    }

    /// The offset after the last message that was given; before the first, where the broker said that it begins (1.1).
    pub fn position(&self) -> Option<Offset> {
        self.decoder.position().or(self.reached)
    }

    /// The partition that is read.
    pub fn partition(&self) -> PartitionId {
        self.link.place().partition
    }

    /// Makes the group resume behind `message`: commits its `next_offset`, and with it all before it, and waits until the
    /// broker has it.
    ///
    /// Costs a round trip (with 1.0 also a connection): commit the last message of a bulk, not each one.
    pub async fn commit(&mut self, message: &Message) -> Result<(), CommitError> {
        self.commit_offset(message.next_offset).await
    }

    /// Makes the group resume at `next`, the first offset that it has not handled. Bounded by `commit_timeout`.
    pub async fn commit_offset(&mut self, next: Offset) -> Result<(), CommitError> {
        match &mut self.committer {
            Some(committer) => committer.commit(next).await,
            None => Err(CommitError::NoGroup),
        }
    }

    /// As [`commit_offset`](Self::commit_offset), over the consumer's own connection and without an answer (1.1; with 1.0
    /// it is the same): cheap enough for each message.
    ///
    /// What the broker refuses is not told, and a break can lose the last of them: end with
    /// [`commit_offset`](Self::commit_offset).
    pub async fn commit_unconfirmed(&mut self, next: Offset) -> Result<(), CommitError> {
        if self.group.is_none() {
            return Err(CommitError::NoGroup);
        }
        if self.link.protocol() == Protocol::V1_1 && self.link.send_commit(next).await {
            return Ok(());
        }
        self.commit_offset(next).await
    }

    /// Acts on what the broker says between frames.
    fn take_in(&mut self, control: ControlFrame) -> Result<(), ConsumeError> {
        self.link.alive();
        match control.status() {
            Some(Status::Ok) => self.reached = Some(control.offset),
            Some(Status::OffsetOutOfRange) => self.skip(control, GapReason::Deleted),
            Some(Status::Corrupt) => self.skip(control, GapReason::Damaged),
            Some(Status::TopicDeleted) => {
                self.link.reset();
                self.begin_anew();
                return Err(ConsumeError::TopicDeleted(control.message.into()));
            }
            // Coming again would end the same way.
            Some(Status::Unauthenticated | Status::Unauthorized) => {
                self.link.reset();
                let ControlFrame { code, message, .. } = control;
                return Err(ConsumeError::Rejected(Refused { code, value: 0, message }));
            }
            // It closes now, or says what a later version means.
            _ => tracing::debug!(
                place = ?self.link.place(), code = control.code, message = control.message, "the broker says"
            ),
        }
        Ok(())
    }

    /// The log that was read is gone. One that gets its name has offsets of its own.
    fn begin_anew(&mut self) {
        self.link.begin_anew();
        self.decoder.begin_anew();
        self.reached = None;
    }

    fn skip(&mut self, control: ControlFrame, reason: GapReason) {
        let to = control.offset;
        // All before it was given: the broker ends there, at damage that it does not skip.
        if self.decoder.position() != Some(to) {
            let from = self.position().filter(|&from| from != to);
            self.gaps.add(Gap { from, to, reason, message: control.message });
        }
        self.decoder.go_on_at(to);
    }

    /// Whether all that was asked for has been given.
    fn is_at_end(&self) -> bool {
        let stands = self.decoder.position().max(self.reached);
        match (self.link.end(), stands) {
            (Some(end), Some(stands)) => stands >= end && self.decoder.is_between_frames(),
            _ => false,
        }
    }

    /// Reads some bytes, on a new connection if need be.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConsumeError>> {
        if !self.link.is_open() {
            ready!(self.poll_reconnect(cx))?;
            if self.is_at_end() {
                return Poll::Ready(Ok(()));
            }
        }
        self.decoder.make_room(self.link.options().read_bytes);
        match ready!(self.link.poll_read(&mut self.decoder.buf, cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(self.link.broken(&error)),
        }
    }

    fn poll_reconnect(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConsumeError>> {
        loop {
            // What the broker said at first counts, too: records may have come since, also if none was given before.
            let from = self.position();
            match ready!(self.link.poll_open(from, cx)) {
                Ok(first) => {
                    self.decoder.restart();
                    if self.link.protocol() == Protocol::V1_1 {
                        self.reached = Some(first);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    if is_gone(&error) {
                        self.begin_anew();
                    }
                    match self.link.refused(error)? {
                        Ended::Again => {}
                        Ended::GoOnAt(to) => {
                            let message = "the offset is not in the log any more".to_owned();
                            self.gaps.add(Gap { from, to, reason: GapReason::Deleted, message });
                            self.decoder.go_on_at(to);
                            self.reached = None;
                        }
                    }
                }
            }
        }
    }
}

/// Whether the broker says that there is no such log: it was deleted while the connection was down.
fn is_gone(error: &ConnectError) -> bool {
    let ConnectError::Refused(refused) = error else { return false };
    let gone = [Status::UnknownTopic, Status::UnknownPartition, Status::TopicDeleted];
    refused.status().is_some_and(|status| gone.contains(&status))
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("place", self.link.place())
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
