//! From a handshake to a partition: what a connection asked for, found or created.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::connection::Asked;
use super::status::{self, Refusal};
use crate::broker::{Broker, Cursor, LocateError, Member, OffsetKey, Partition, PartitionError};
use crate::model::{GroupName, Offset, PartitionId, TopicName, TopicPartition};
use crate::protocol::Request;
use crate::protocol::v1_1::{Durability, Fallback, Handshake, NO_COMMIT, Role, Start};
use crate::telemetry;

/// What was asked for.
#[derive(Debug)]
pub(super) enum Target {
    /// Append here.
    Producer {
        partition: Arc<Partition>,
        /// Answer once the disk has it, whatever the topic says.
        flushed: bool,
    },
    /// Read from here.
    Consumer(Arc<Partition>, Cursor, Reading),
    /// Commit this key.
    Committer(Arc<Partition>, OffsetKey),
    /// The commit of a version 1.0 handshake is done.
    Committed,
}

/// What a consumer of version 1.1 asks for beside records, nothing of it but its group for one of version 1.0; and how far it
/// got.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// It counts as one of its group until this is dropped.
    pub(super) member: Option<Box<Member>>,
    /// It may commit on its connection.
    pub(super) commits: bool,
    /// It is told this often that there is nothing to send.
    pub(super) heartbeat: Option<Duration>,
    /// It ends here.
    pub(super) until: Option<Cursor>,
    /// The offset of that place.
    pub(super) until_offset: Offset,
    /// It did not get the place it asked for: the one it has, and why.
    pub(super) moved: Option<(Offset, String)>,
    /// Offsets before this one were counted as sent, or are not for this consumer.
    counted: Offset,
}

impl Reading {
    /// Of so many bytes behind the cursor, those that are before where it ends.
    pub(super) fn limit(&self, cursor: &Cursor, bytes: u64) -> u64 {
        let left = self.until.as_ref().and_then(|end| cursor.distance_to(end));
        left.map_or(bytes, |left| left.min(bytes))
    }

    /// The group that it reads for.
    pub(super) fn group(&self) -> Option<&GroupName> {
        self.member.as_ref().map(|member| &member.key().group)
    }

    /// Everything before an offset was sent: how many offsets that is more than when it was last counted.
    pub(super) fn count(&mut self, until: Offset) -> u64 {
        let more = until.saturating_sub(self.counted);
        self.counted += more;
        more
    }

    /// What is before an offset was deleted, and is sent to nobody.
    pub(super) fn pass(&mut self, to: Offset) {
        self.counted = self.counted.max(to);
    }

    /// What it may commit.
    pub(super) fn commit_key(&self) -> Option<&OffsetKey> {
        self.member.as_ref().filter(|_| self.commits).map(|member| member.key())
    }
}

impl Target {
    /// Whether its topic was deleted meanwhile.
    pub(super) fn is_deleted(&self) -> bool {
        match self {
            Self::Producer { partition, .. }
            | Self::Consumer(partition, ..)
            | Self::Committer(partition, _) => partition.is_deleted(),
            Self::Committed => false,
        }
    }
}

/// A target, and the value of the reply.
pub(super) type Opened = Result<(Target, u64), Refusal>;

impl Asked {
    /// The span of the connection, from here to its end; in the trace that the peer names, if it names one.
    pub(super) fn span(&self, peer: SocketAddr, certificate: Option<&str>) -> Span {
        let role = match self {
            _ if self.produces() => "producer",
            _ if self.consumes() => "consumer",
            _ => "committer",
        };
        let partition = format_args!("{}/{}", self.topic(), self.partition());
        let span = tracing::info_span!("connection", role, %peer, %partition, certificate);
        if let Self::V1_1(handshake) = self
            && let Some(traceparent) = handshake.client.traceparent
        {
            telemetry::join(&span, &traceparent.to_string());
        }
        span
    }

    fn topic(&self) -> &TopicName {
        match self {
            Self::V1_0(request) => request.topic(),
            Self::V1_1(handshake) => &handshake.topic,
        }
    }

    fn partition(&self) -> PartitionId {
        match self {
            Self::V1_0(request) => request.partition(),
            Self::V1_1(handshake) => handshake.partition,
        }
    }

    fn produces(&self) -> bool {
        match self {
            Self::V1_0(request) => matches!(request, Request::Produce { .. }),
            Self::V1_1(handshake) => matches!(handshake.role, Role::Produce { .. }),
        }
    }

    fn consumes(&self) -> bool {
        match self {
            Self::V1_0(request) => matches!(request, Request::Consume { .. }),
            Self::V1_1(handshake) => matches!(handshake.role, Role::Consume { .. }),
        }
    }
}

/// Answers a request without touching the disk; `None` if that is not possible.
pub(super) fn open_now(broker: &Broker, asked: &Asked) -> Option<Opened> {
    if let Some(refused) = refuse_reserved(asked) {
        return Some(Err(refused));
    }
    // Finding a consumer's place reads the index and the log.
    if asked.consumes() {
        return None;
    }
    let found = broker.existing(asked.topic(), asked.partition())?;
    Some(found.map_err(|error| status::of_partition(&error)).and_then(|it| act(broker, asked, it)))
}

/// Answers a request. May create a topic and read the log: not for a reactor.
pub(super) fn open(broker: &Broker, asked: &Asked) -> Opened {
    if let Some(refused) = refuse_reserved(asked) {
        return Err(refused);
    }
    let partition = broker
        .partition(asked.topic(), asked.partition())
        .map_err(|error| status::of_partition(&error))?;
    act(broker, asked, partition)
}

fn refuse_reserved(asked: &Asked) -> Option<Refusal> {
    let refused = asked.produces() && asked.topic().is_reserved();
    refused.then(|| status::of_partition(&PartitionError::Reserved(asked.topic().clone())))
}

fn act(broker: &Broker, asked: &Asked, partition: Arc<Partition>) -> Opened {
    match asked {
        Asked::V1_0(request) => act_1_0(broker, request, partition).map(|target| (target, 0)),
        Asked::V1_1(handshake) => act_1_1(broker, handshake, partition),
    }
}

fn act_1_0(
    broker: &Broker,
    request: &Request,
    partition: Arc<Partition>,
) -> Result<Target, Refusal> {
    match request {
        Request::Produce { .. } => Ok(Target::Producer { partition, flushed: false }),
        Request::Consume { group, .. } => {
            let key = key(group, partition.name());
            // Before the offset is looked up: it is not forgotten from then on.
            let member = Box::new(broker.join(key.clone()));
            let committed = broker.committed(&key);
            let from = committed.unwrap_or(0);
            let (cursor, moved) = resume(broker, &partition, group, committed, from)
                .map_err(|error| status::of_locate(&error))?;
            let counted = moved.unwrap_or(from).max(partition.start_offset());
            let reading = Reading { counted, member: Some(member), ..Reading::default() };
            Ok(Target::Consumer(partition, cursor, reading))
        }
        Request::Commit { group, offset, .. } => {
            match broker.commit(key(group, partition.name()), &partition, *offset) {
                Ok(_) => Ok(Target::Committed),
                Err(error) => Err(status::of_commit(&error)),
            }
        }
    }
}

fn act_1_1(broker: &Broker, handshake: &Handshake, partition: Arc<Partition>) -> Opened {
    let client = &handshake.client;
    tracing::debug!(
        partition = %partition.name(), client_name = client.name, client_software = client.software,
        "a client of protocol 1.1"
    );
    match &handshake.role {
        Role::Produce { durability } => {
            let end = partition.next_offset();
            let flushed = *durability == Durability::Flushed;
            Ok((Target::Producer { partition, flushed }, end))
        }
        Role::Consume { group, start, heartbeat_ms, until_end } => {
            let end = partition.end_offset();
            let key = group.as_ref().map(|group| key(group, partition.name()));
            let member = key.clone().map(|key| Box::new(broker.join(key)));
            let committed = key.as_ref().and_then(|key| broker.committed(key));
            let heartbeat = heartbeat_ms.map(heartbeat);
            let reading = Reading { member, commits: true, heartbeat, ..Reading::default() };
            let wanted = Wanted { group: group.as_ref(), start: *start, committed, end };
            consume(broker, partition, &wanted, *until_end, reading)
                .map_err(|error| status::of_locate(&error))
        }
        Role::Commit { group } => {
            let key = key(group, partition.name());
            let committed = broker.committed(&key).unwrap_or(NO_COMMIT);
            Ok((Target::Committer(partition, key), committed))
        }
    }
}

/// Where a consumer of version 1.1 wants to begin.
struct Wanted<'a> {
    group: Option<&'a GroupName>,
    start: Start,
    committed: Option<Offset>,
    /// The log end at the time of the handshake.
    end: Offset,
}

fn consume(
    broker: &Broker,
    partition: Arc<Partition>,
    wanted: &Wanted<'_>,
    until_end: bool,
    mut reading: Reading,
) -> Result<(Target, u64), LocateError> {
    let Wanted { group, start, committed, end } = *wanted;
    let mut cursor = match (start, committed, group) {
        (Start::Committed(_), Some(offset), Some(group)) => {
            let (cursor, to) = resume(broker, &partition, group, committed, offset)?;
            reading.moved = to.map(|to| {
                (to, format!("the committed offset {offset} is not in the log any more"))
            });
            cursor
        }
        (Start::Latest | Start::Committed(Fallback::Latest), ..) => partition.locate(end)?,
        (Start::Earliest | Start::Committed(Fallback::Earliest), ..) => {
            // The oldest may be removed meanwhile: then it is another one.
            partition.resume(partition.start_offset())?.0
        }
        (Start::Offset(offset), ..) => {
            let missed =
                |error: &LocateError| tell_missed(broker, &partition, group, offset, error);
            partition.locate(offset).inspect_err(missed)?
        }
        (Start::Timestamp(timestamp), ..) => partition.locate_time(timestamp)?,
    };
    if until_end {
        reading.until = Some(partition.locate(end)?);
        reading.until_offset = end;
    }
    let first = partition.offset_at(&mut cursor)?;
    reading.counted = first;
    if let Some((to, _)) = &mut reading.moved {
        *to = first;
    }
    Ok((Target::Consumer(partition, cursor, reading), first))
}

/// The place where a group resumes; where that is outside the log, also the nearest offset in it.
fn resume(
    broker: &Broker,
    partition: &Partition,
    group: &GroupName,
    committed: Option<Offset>,
    offset: Offset,
) -> Result<(Cursor, Option<Offset>), LocateError> {
    let (cursor, moved) = partition.resume(offset)?;
    let moved = moved.filter(|_| committed.is_some());
    if let Some(moved) = moved
        && broker.warnings.allow()
    {
        tracing::warn!(
            %group, partition = %partition.name(), committed = moved.from, start = moved.to,
            "the committed offset is outside the log; the group resumes at the nearest one"
        );
    }
    Ok((cursor, moved.map(|moved| moved.to)))
}

/// A consumer that comes back for records that were deleted is refused, and goes on at the oldest one by itself: it has missed them
/// all the same.
fn tell_missed(
    broker: &Broker,
    partition: &Partition,
    group: Option<&GroupName>,
    offset: Offset,
    error: &LocateError,
) {
    let LocateError::OutOfRange { start, .. } = *error else { return };
    if offset == 0 || offset >= start {
        return;
    }
    broker.metrics().readers_moved.inc();
    if broker.warnings.allow() {
        tracing::warn!(
            group = group.map(tracing::field::display), partition = %partition.name(), from = offset, start,
            "a consumer comes back for records that were deleted: it is refused, and told the oldest one"
        );
    }
}

fn heartbeat(ms: NonZeroU32) -> Duration {
    Duration::from_millis(u64::from(ms.get().max(crate::model::limits::HEARTBEAT_MS_MIN)))
}

fn key(group: &GroupName, partition: &TopicPartition) -> OffsetKey {
    OffsetKey { group: group.clone(), partition: partition.clone() }
}
