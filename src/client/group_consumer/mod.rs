//! Reading the partitions of a topic, alone or as one of several members that share them.

mod options;
mod reading;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::ops::Bound;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

pub use options::{GroupConsumerOptions, Share};
pub use reading::PartitionError;

use super::commit::CommitError;
use super::connect::{ConnectError, Place};
use super::consumer::{ConsumeError, Consumer, Gap};
use super::message::Message;
use super::messages::Messages;
use super::place::partition_count;
use crate::model::{GroupName, PartitionId, TopicName};
use reading::{Reading, Received};

/// Reads the partitions of a topic for a group and commits what was handled.
///
/// **At least once.** A message counts as handled when [`recv`](Self::recv) is called again, or
/// [`commit`](Self::commit) or [`close`](Self::close): so handle it first. A program that is killed gets what it had
/// not committed again.
///
/// **Order** holds within a partition. Partitions with messages take turns, one for each chunk that was read.
///
/// **Members** of a group do not know of each other: [`Share::Member`] gives each its partitions by number. With the
/// wrong number of members partitions are read twice or not at all.
pub struct GroupConsumer {
    addr: String,
    topic: TopicName,
    group: Option<GroupName>,
    options: GroupConsumerOptions,
    partitions: BTreeMap<PartitionId, Reading>,
    /// The partition that gave the last message.
    current: PartitionId,
    /// Something was given that is not committed.
    dirty: bool,
    commit_at: Option<Instant>,
    discover_at: Option<Instant>,
}

/// Time between two commits, if the first of them failed.
const COMMIT_PAUSE: Duration = Duration::from_millis(100);

/// What comes next.
enum Next {
    Message(PartitionId, Message),
    Again,
    Commit,
    Discover,
    End,
}

impl GroupConsumer {
    /// Finds the topic's partitions at the broker `addr` (`host:port`) and connects to this member's. Needs protocol 1.1,
    /// unless the partitions are named.
    ///
    /// One that the broker refuses, as at damage, keeps nobody from the others: [`recv`](Self::recv) asks again and tells why. If
    /// it refuses all of them, this is the error.
    ///
    /// Without a group it commits nothing.
    pub async fn connect(
        addr: impl Into<String>,
        group: impl Into<Option<GroupName>>,
        topic: TopicName,
        options: GroupConsumerOptions,
    ) -> Result<Self, ConnectError> {
        let now = Instant::now();
        let mut consumer = Self {
            addr: addr.into(),
            topic,
            group: group.into(),
            partitions: BTreeMap::new(),
            current: 0,
            dirty: false,
            commit_at: options.auto_commit.map(|every| now + every),
            discover_at: options.discover.map(|every| now + every),
            options,
        };
        consumer.begin().await?;
        consumer.options.consumer.read_as_new();
        Ok(consumer)
    }

    /// The partitions that are read.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.partitions.keys().copied()
    }

    /// The next message of any partition, and which; waits for one. Commits what was handled when it is time to.
    ///
    /// Cancel-safe: dropped while it waits, nothing is lost.
    pub async fn recv(&mut self) -> Result<(PartitionId, Message), PartitionError> {
        if self.dirty && self.commit_at.is_some_and(|at| at <= Instant::now()) {
            self.auto_commit().await;
        }
        loop {
            match self.next().await? {
                Next::Message(partition, message) => return Ok((partition, message)),
                Next::Again => {}
                Next::Commit => self.auto_commit().await,
                Next::Discover => self.look_again().await,
                Next::End => {
                    let partition = self.current;
                    return Err(PartitionError { partition, source: ConsumeError::End });
                }
            }
        }
    }

    /// The next message that has been read already, without waiting; `None`: call [`recv`](Self::recv). Those given
    /// before it count as handled from the next [`recv`](Self::recv) on.
    pub fn try_next(&mut self) -> Result<Option<(PartitionId, Message)>, PartitionError> {
        let current = self.current;
        let reading = self.partitions.get_mut(&current);
        let buffered = match reading.and_then(|reading| reading.buffered(current)) {
            Some(buffered) => buffered,
            None => match self.in_turn(|partition, reading| reading.buffered(partition)) {
                Some(buffered) => buffered,
                None => return Ok(None),
            },
        };
        self.took(buffered).map(Some)
    }

    /// The messages, and the partition of each, as a stream. [`Messages::consumer`] gives the consumer back, to commit.
    pub fn into_stream(self) -> Messages<Self> {
        Messages::new(self)
    }

    /// Commits all that was given, all partitions at once, and waits until the broker has it: bounded by `commit_timeout`. One
    /// error is told, when all were tried.
    pub async fn commit(&mut self) -> Result<(), CommitError> {
        if self.group.is_none() {
            self.dirty = false;
            return Ok(());
        }
        let uncommitted = self.partitions.values_mut().filter(|read| read.given != read.committed);
        let mut committing: Vec<_> = uncommitted.map(|read| Box::pin(read.commit())).collect();
        let mut result = Ok(());
        // All at once: each takes a round trip, and a broker that does not answer takes the whole time allowed.
        poll_fn(|cx| {
            committing.retain_mut(|committing| match committing.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(committed) => {
                    if result.is_ok() {
                        result = committed;
                    }
                    false
                }
            });
            if committing.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(committing);
        self.dirty = result.is_err();
        result
    }

    /// Reads this partition no more, as if its end had come: for one that the broker refuses. What was given of it is committed
    /// all the same. Whether others are left.
    pub fn leave(&mut self, partition: PartitionId) -> bool {
        if let Some(reading) = self.partitions.get_mut(&partition) {
            reading.ended = true;
        }
        self.partitions.values().any(|reading| !reading.ended)
    }

    /// Commits all that was given and closes the connections.
    pub async fn close(mut self) -> Result<(), CommitError> {
        self.commit().await
    }

    /// Records that were left out since the last call, and in which partition; see [`Consumer::take_gap`].
    pub fn take_gap(&mut self) -> Option<(PartitionId, Gap)> {
        let mut all = self.partitions.iter_mut();
        all.find_map(|(&partition, reading)| Some((partition, reading.consumer.take_gap()?)))
    }

    /// What the first partition has that has anything, those behind the current one asked first.
    fn in_turn<T>(
        &mut self,
        mut ask: impl FnMut(PartitionId, &mut Reading) -> Option<T>,
    ) -> Option<T> {
        let behind = (Bound::Excluded(self.current), Bound::Unbounded);
        let others = (Bound::Unbounded, Bound::Included(self.current));
        for range in [behind, others] {
            let mut readings = self.partitions.range_mut(range);
            let had = readings.find_map(|(&partition, reading)| ask(partition, reading));
            if had.is_some() {
                return had;
            }
        }
        None
    }

    fn took(&mut self, received: Received) -> Received {
        if let Ok((partition, _)) = &received {
            self.current = *partition;
            self.dirty = true;
        }
        received
    }

    async fn next(&mut self) -> Result<Next, PartitionError> {
        if let Some((partition, message)) = self.try_next()? {
            return Ok(Next::Message(partition, message));
        }
        // A member without partitions is at the end of all that it has, too.
        let ends = self.options.consumer.until_end;
        if ends && self.partitions.values().all(|reading| reading.ended) {
            return Ok(Next::End);
        }
        let commit_at = self.commit_at.filter(|_| self.dirty);
        let discover_at = self.discover_at;
        // A runtime of one thread looks at sockets only when nothing is ready, and a long log always is.
        tokio::task::yield_now().await;
        tokio::select! {
            next = self.any() => next,
            () = until(commit_at) => Ok(Next::Commit),
            () = until(discover_at) => Ok(Next::Discover),
        }
    }

    /// Waits for whichever partition has something first.
    async fn any(&mut self) -> Result<Next, PartitionError> {
        let received = poll_fn(|cx| {
            let next = self.in_turn(|partition, reading| {
                if reading.ended {
                    return None;
                }
                match reading.consumer.poll_recv(cx) {
                    Poll::Pending => None,
                    Poll::Ready(Err(ConsumeError::End)) => {
                        reading.ended = true;
                        Some(None)
                    }
                    Poll::Ready(received) => Some(Some(reading.note(partition, received))),
                }
            });
            next.map_or(Poll::Pending, Poll::Ready)
        });
        match received.await {
            None => Ok(Next::Again),
            Some(received) => {
                self.took(received).map(|(partition, message)| Next::Message(partition, message))
            }
        }
    }

    async fn auto_commit(&mut self) {
        // Also where this wait is dropped meanwhile: the next one is not to begin with a commit again.
        self.commit_later(COMMIT_PAUSE);
        if let Err(error) = self.commit().await {
            // What was handled since is in the next one.
            tracing::warn!(topic = %self.topic, %error, "not committed; tried again with the next commit");
        }
        // One that fails is not repeated without a pause.
        self.commit_later(if self.dirty { COMMIT_PAUSE } else { Duration::ZERO });
    }

    fn commit_later(&mut self, pause: Duration) {
        self.commit_at = self.options.auto_commit.map(|every| Instant::now() + every.max(pause));
    }

    /// What is new connects within [`recv`](Self::recv), which waits for all partitions at once.
    async fn look_again(&mut self) {
        self.discover_at = self.options.discover.map(|every| Instant::now() + every);
        match self.discover().await {
            Ok(found) => self.partitions.extend(found),
            Err(error) => {
                tracing::debug!(topic = %self.topic, %error, "no look at the topic's partitions");
            }
        }
    }

    /// Connects to the partitions that there are.
    async fn begin(&mut self) -> Result<(), ConnectError> {
        let (mut begun, mut first_refusal) = (false, None);
        for (partition, mut reading) in self.discover().await? {
            match reading.consumer.begin().await {
                Ok(()) => begun = true,
                Err(ConnectError::Refused(refused)) => {
                    tracing::warn!(topic = %self.topic, partition, %refused, "a partition is not read");
                    first_refusal.get_or_insert(refused);
                }
                Err(error) => return Err(error),
            }
            self.partitions.insert(partition, reading);
        }
        first_refusal.filter(|_| !begun).map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// The partitions that are this member's and not read yet.
    async fn discover(&self) -> Result<Vec<(PartitionId, Reading)>, ConnectError> {
        let wanted = match &self.options.share {
            Share::Partitions(partitions) => partitions.clone(),
            share => {
                let connect = &self.options.consumer.connect;
                let count = partition_count(&self.addr, &self.topic, connect).await?;
                (0..count).filter(|&partition| share.includes(partition)).collect()
            }
        };
        let new = wanted.into_iter().filter(|partition| !self.partitions.contains_key(partition));
        Ok(new.map(|partition| (partition, self.unconnected(partition))).collect())
    }

    fn unconnected(&self, partition: PartitionId) -> Reading {
        let (addr, topic) = (self.addr.clone(), self.topic.clone());
        let place = Place { addr, topic, partition };
        let options = self.options.consumer.clone();
        let consumer = Consumer::unconnected(place, self.group.clone(), options);
        Reading { consumer, given: None, committed: None, ended: false }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for GroupConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupConsumer")
            .field("addr", &self.addr)
            .field("group", &self.group)
            .field("topic", &self.topic)
            .field("share", &self.options.share)
            .finish_non_exhaustive()
    }
}
