//! One connection on a reactor: its socket, its protocol state, and what it is about.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Span;

use super::context::Context;
use super::delegate::Away;
use super::gather::Outcome;
use super::inbox::Key;
use super::receive::Large;
use super::transport::Transport;
use super::waiting::{Spares, WaitingAcks};
use super::worker::{Job, Work};
use crate::broker::{Cursor, OffsetKey, Partition, Settled, WaiterId, Wake};
use crate::metrics::{CloseReason, ConnectionRole, TlsFailure};
use crate::net::admission::{Seat, TooManyConnections};
use crate::net::admit::{Admitted, Visitor};
use crate::net::connection::{Connection, Opened};
use crate::net::open::{self, Reading, Target};
use crate::net::quota::Quota;
use crate::net::status::{self, Refusal};
use crate::protocol::COMMIT_ACK;
use crate::protocol::v1_1::{Answer, AnswerTo, Client};

/// A peer that has ended, or broken the protocol, has this long to take its last answers; a consumer of a deleted topic, to
/// take anything.
pub(super) const LINGER_TIME: Duration = Duration::from_secs(10);

/// What to do with a session after it was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Write what was gathered, then go on with it.
    Flush,
    /// Leave it: it waits for its socket, its partition or memory.
    Keep,
    /// It has used up its turn and can go on: others first.
    Again,
    /// Close it; a reason if the broker chose to.
    Close(Option<CloseReason>),
    /// Hand it to the reactor of its partition.
    Move(usize),
}

/// What the connection is about, once it is known.
#[derive(Debug)]
pub(super) enum Role {
    Unknown,
    Producer(Arc<Partition>),
    Consumer { partition: Arc<Partition>, cursor: Cursor, parked: bool, reading: Reading },
    Committer(Arc<Partition>, OffsetKey),
    Committed,
}

impl Role {
    /// How it is counted; `None` before the handshake is done.
    pub(super) fn counted(&self) -> Option<ConnectionRole> {
        match self {
            Self::Unknown => None,
            Self::Producer(_) => Some(ConnectionRole::Producer),
            Self::Consumer { .. } => Some(ConnectionRole::Consumer),
            Self::Committer(..) | Self::Committed => Some(ConnectionRole::Committer),
        }
    }
}

/// The end that a session is coming to, once its answers are out: a reason if the broker chose to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending(pub(super) Option<CloseReason>);

/// One connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a socket, not states")]
pub(super) struct Session {
    pub(super) stream: Transport,
    pub(super) peer: SocketAddr,
    /// Whom the certificate names that the peer has shown.
    pub(super) certificate: Option<Arc<str>>,
    /// When it was accepted.
    pub(super) begun: Instant,
    /// Who it is, once it was let in.
    pub(super) admitted: Option<Admitted>,
    /// What the client says of itself.
    pub(super) client: Option<Box<Client>>,
    pub(super) key: Key,
    pub(super) connection: Connection,
    pub(super) role: Role,
    /// From the handshake to the end, for traces.
    pub(super) span: Span,
    /// Received and not consumed: the start of a handshake or of a small frame.
    pub(super) pending: Vec<u8>,
    /// `pending` may hold something complete.
    pub(super) pending_new: bool,
    /// A frame being collected in memory of its own.
    pub(super) large: Option<Large>,
    /// Bytes received of large frames, and [`STALL_BYTES`](super::receive::STALL_BYTES) for each that was completed.
    pub(super) progress: u64,
    /// Among the reactor's `stalls`.
    pub(super) watched: bool,
    /// In the budget's queue: not read until another connection gives memory back.
    pub(super) awaits_memory: bool,
    /// Bytes of the frame for which it waits for memory.
    pub(super) wanted: u64,
    /// Bytes from here on that are known to be in the page cache.
    pub(super) warm: u64,
    /// What another thread does for it; it is sent nothing else meanwhile.
    pub(super) away: Option<Away>,
    /// Acks that wait until the disk has their frames.
    pub(super) waiting: WaitingAcks,
    /// Its partition wakes it after the next flush.
    pub(super) awaits_flush: bool,
    /// Its frames are answered once the disk has them, whatever the topic says.
    pub(super) flushed: bool,
    /// Not read until a flush has ended.
    pub(super) held: bool,
    /// Answers that the socket did not take, from `out_at` on.
    pub(super) out: Vec<u8>,
    pub(super) out_at: usize,
    /// The socket may have something to read, as far as is known.
    pub(super) readable: bool,
    /// The peer's end is in the socket, behind what is left to be read.
    pub(super) hung_up: bool,
    /// The socket may take something, as far as is known.
    pub(super) writable: bool,
    /// The peer sends no more.
    pub(super) ended: bool,
    /// Waits for its turn.
    pub(super) queued: bool,
    /// How the connection will end, once the answers are out.
    pub(super) closing: Option<Ending>,
    /// What the peer is told at the end, behind all its answers.
    pub(super) farewell: Vec<u8>,
    /// All has been said, and the peer is told that: what it still sends is read, so that closing does not take back what
    /// is on its way to it.
    pub(super) draining: bool,
    /// How much its principal may produce and consume, if that has a limit.
    pub(super) quota: Option<Arc<Quota>>,
    /// Neither read nor sent to until then, for that: its place among the reactor's `pauses`.
    pub(super) paused: Option<Instant>,
    /// Its place among the reactor's `deadlines`.
    pub(super) deadline: Option<Instant>,
    /// When something was last received.
    pub(super) active_at: Instant,
    /// Since when it was seen to have something for its socket, which took nothing.
    pub(super) blocked_since: Option<Instant>,
    /// Its place among the connections.
    pub(super) seat: Option<Seat>,
    /// Why it is one too many, if it is: what it is told.
    pub(super) unwanted: Option<TooManyConnections>,
    /// Its place among the reactor's `heartbeats`.
    pub(super) beat_at: Option<Instant>,
    /// When something was last sent to a consumer.
    pub(super) sent_at: Instant,
    /// Among the reactor's `lingers`.
    pub(super) lingers: bool,
    /// What the log says about the end beside its reason.
    pub(super) detail: String,
    /// As long as it is there: see [`Job`].
    there: Arc<()>,
}

impl Session {
    pub(super) fn new(stream: Transport, peer: SocketAddr, connection: Connection) -> Self {
        Self {
            stream,
            peer,
            certificate: None,
            begun: Instant::now(),
            admitted: None,
            client: None,
            key: Key(0),
            connection,
            role: Role::Unknown,
            span: Span::none(),
            pending: Vec::new(),
            pending_new: false,
            large: None,
            progress: 0,
            watched: false,
            awaits_memory: false,
            wanted: 0,
            warm: 0,
            away: None,
            waiting: WaitingAcks::default(),
            awaits_flush: false,
            flushed: false,
            held: false,
            out: Vec::new(),
            out_at: 0,
            readable: true,
            hung_up: false,
            writable: true,
            ended: false,
            queued: false,
            closing: None,
            farewell: Vec::new(),
            draining: false,
            quota: None,
            paused: None,
            deadline: None,
            active_at: Instant::now(),
            blocked_since: None,
            seat: None,
            unwanted: None,
            beat_at: None,
            sent_at: Instant::now(),
            lingers: false,
            detail: String::new(),
            there: Arc::default(),
        }
    }

    /// What is known of the peer beside its handshake.
    pub(super) fn visitor(&self) -> Visitor {
        Visitor { address: self.peer.ip(), certificate: self.certificate.clone() }
    }

    pub(super) fn waiter(&self) -> WaiterId {
        WaiterId(self.key.0)
    }

    /// Something that a worker is to do for it, unless it is gone by then.
    pub(super) fn job(&self, work: Work, cx: &Context) -> Job {
        let (inbox, asker) = (Arc::clone(&cx.inbox), Arc::downgrade(&self.there));
        Job { work, key: self.key, inbox, asker }
    }

    /// Does all that can be done now, within a turn.
    pub(super) fn drive(&mut self, cx: &mut Context) -> Verdict {
        let verdict = self.take_turn(cx);
        self.yield_memory(verdict, cx);
        verdict
    }

    fn take_turn(&mut self, cx: &mut Context) -> Verdict {
        if let Err(verdict) = self.release(&cx.wake, &mut cx.spares) {
            return verdict;
        }
        if let Err(verdict) = self.send_answers() {
            if self.closing.is_some() {
                self.linger(cx);
            }
            return verdict;
        }
        if let Some(ending) = self.closing {
            return self.drive_end(ending, cx);
        }
        match &self.role {
            Role::Consumer { .. } => self.drive_consumer(cx),
            Role::Committed => Verdict::Close(None),
            Role::Producer(partition) if partition.is_deleted() => {
                self.refuse(status::of_deleted());
                Verdict::Again
            }
            Role::Unknown | Role::Producer(_) => self.drive_input(cx),
            Role::Committer(..) => self.drive_committer(cx),
        }
    }

    /// The partition it has to do with, once that is known.
    pub(super) fn partition(&self) -> Option<&Arc<Partition>> {
        match &self.role {
            Role::Producer(partition)
            | Role::Consumer { partition, .. }
            | Role::Committer(partition, _) => Some(partition),
            Role::Unknown | Role::Committed => None,
        }
    }

    /// Ends the session once its answers are out.
    fn drive_end(&mut self, Ending(reason): Ending, cx: &mut Context) -> Verdict {
        if self.draining {
            return self.drain(reason, cx);
        }
        // The last acks come with a flush, and this session is woken then.
        if !self.owes_nothing() {
            return Verdict::Keep;
        }
        if !self.connection.speaks_1_1() {
            return Verdict::Close(reason);
        }
        if !cx.gather.is_empty() {
            // It may have gathered frames: they are answered first.
            return Verdict::Flush;
        }
        let farewell = std::mem::take(&mut self.farewell);
        if let Err(verdict) = self.answer(&farewell) {
            return verdict;
        }
        if self.is_sending() {
            self.linger(cx);
            return Verdict::Keep;
        }
        if self.ended || cx.stopping {
            return Verdict::Close(reason);
        }
        match self.stream.finish() {
            Ok(true) => {}
            Ok(false) => {
                self.writable = false;
                self.linger(cx);
                return Verdict::Keep;
            }
            Err(_) => return Verdict::Close(reason),
        }
        self.draining = true;
        // Of a frame that comes too late: others may need the memory.
        self.large = None;
        self.readable = true;
        self.linger(cx);
        self.drain(reason, cx)
    }

    /// Reads until the peer closes too.
    fn drain(&mut self, reason: Option<CloseReason>, cx: &mut Context) -> Verdict {
        if self.take_input(cx).is_err() || self.ended || cx.stopping {
            return Verdict::Close(reason);
        }
        if self.readable { Verdict::Again } else { Verdict::Keep }
    }

    pub(super) fn linger(&mut self, cx: &mut Context) {
        if !std::mem::replace(&mut self.lingers, true) {
            cx.lingers.push_back((Instant::now() + LINGER_TIME, self.key));
        }
    }

    /// Begins to end the session: the peer is told why, in version 1.1, behind all that is answered.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        if self.connection.speaks_1_1() {
            let to = match self.role {
                Role::Unknown => Some(AnswerTo::Handshake),
                // Each of its commits was answered.
                Role::Committer(..) => None,
                _ => Some(AnswerTo::Frame),
            };
            self.farewell = to.map(|to| refusal.answer(to)).unwrap_or_default();
        }
        self.closing = Some(Ending(Some(refusal.reason)));
        self.detail = refusal.detail;
    }

    /// Takes what a handshake asked for, or the refusal.
    pub(super) fn opened(&mut self, result: open::Opened, cx: &mut Context) -> Verdict {
        let (target, value) = match result {
            Ok((target, _)) if target.is_deleted() => {
                self.refuse(status::of_deleted());
                return Verdict::Again;
            }
            Ok(opened) => opened,
            Err(refusal) => {
                self.refuse(refusal);
                return Verdict::Again;
            }
        };
        if self.connection.speaks_1_1() {
            let mut reply = Vec::new();
            Answer::ok(value).write(AnswerTo::Handshake, &mut reply);
            if let Err(verdict) = self.answer(&reply) {
                return verdict;
            }
        }
        self.take_quota(cx);
        self.pending_new = !self.pending.is_empty();
        self.span.in_scope(|| tracing::debug!("opened"));
        let verdict = self.begin(target, cx);
        if matches!(self.role, Role::Producer(_)) {
            // What came with the handshake.
            self.charge_produced(self.pending.len(), cx);
        }
        cx.metrics.begun(self.role.counted());
        // While it was opened, perhaps.
        self.review_if_stale(cx);
        verdict
    }

    fn begin(&mut self, target: Target, cx: &mut Context) -> Verdict {
        match target {
            Target::Producer { partition, flushed } => {
                self.flushed = flushed;
                self.connection.limit_payload(partition.max_payload_bytes());
                self.connection.opened(Opened::Producer);
                let home = partition.ordinal() % cx.reactors;
                self.role = Role::Producer(partition);
                if home == cx.reactor { Verdict::Again } else { Verdict::Move(home) }
            }
            Target::Consumer(partition, cursor, reading) => {
                self.connection.opened(Opened::Consumer);
                let span = tracing::debug_span!(parent: &self.span, "fetch_start", partition = %partition.name());
                self.role = Role::Consumer { partition, cursor, parked: false, reading };
                span.in_scope(|| self.begin_consuming(cx))
            }
            Target::Committer(partition, key) => {
                self.connection.opened(Opened::Committer);
                self.role = Role::Committer(partition, key);
                Verdict::Again
            }
            Target::Committed => {
                self.connection.opened(Opened::Committed);
                self.role = Role::Committed;
                match self.answer(&COMMIT_ACK) {
                    Ok(()) => Verdict::Again,
                    Err(verdict) => verdict,
                }
            }
        }
    }

    /// Whether all answers are out.
    pub(super) fn owes_nothing(&self) -> bool {
        !self.is_sending() && self.waiting.is_empty()
    }

    /// Whether the socket has yet to take something that is under way.
    pub(super) fn is_sending(&self) -> bool {
        !self.out.is_empty() || self.stream.wants_write()
    }

    /// The socket failed, or what the peer sent on it is not TLS as it must be. What TLS says about that reaches the peer before
    /// the connection is closed.
    pub(super) fn broken(&mut self, cx: &mut Context) -> Verdict {
        let Some(failure) = self.stream.failure() else { return Verdict::Close(None) };
        self.detail = failure.text;
        if failure.kind == TlsFailure::Plaintext {
            return Verdict::Close(Some(CloseReason::TlsRequired));
        }
        self.closing = Some(Ending(Some(CloseReason::Tls)));
        self.draining = true;
        self.large = None;
        self.readable = true;
        self.linger(cx);
        Verdict::Again
    }

    /// Answers frames: now if that is due and no earlier ack waits, else once the disk has them.
    pub(super) fn acknowledge(
        &mut self,
        acks: &[u8],
        outcome: &Outcome,
        wake: &Arc<dyn Wake>,
        spares: &mut Spares,
    ) -> Result<(), Verdict> {
        if let Some(refusal) = &outcome.refusal
            && self.connection.speaks_1_1()
        {
            self.refuse(refusal.clone());
            return self.release(wake, spares);
        }
        // A topic may answer before the disk has it; what is refused does not wait for the disk.
        let due = outcome.due && !(self.flushed && outcome.stored);
        if due && self.waiting.is_empty() {
            return self.answer(acks);
        }
        self.waiting.push(acks, spares);
        self.release(wake, spares)
    }

    /// Sends the waiting acks that are due, and sees to it that the session is woken for the others.
    fn release(&mut self, wake: &Arc<dyn Wake>, spares: &mut Spares) -> Result<(), Verdict> {
        while !self.waiting.is_empty() {
            let Role::Producer(partition) = &self.role else { return Ok(()) };
            let settled = if self.flushed { partition.flushed() } else { partition.settled() };
            let mut waiting = std::mem::take(&mut self.waiting);
            // In version 1.1 a failure is not said in acks.
            let failed = settled.failed && !self.connection.speaks_1_1();
            let due = waiting.due(Settled { failed, ..settled });
            let (sent, len) = (self.answer(due), due.len());
            waiting.advance(len, spares);
            self.waiting = waiting;
            sent?;
            if settled.failed && self.connection.speaks_1_1() && !self.waiting.is_empty() {
                // In place of the first of them that never will be stored.
                let deleted = self.partition().is_some_and(|partition| partition.is_deleted());
                self.waiting.clear(spares);
                self.refuse(if deleted { status::of_deleted() } else { status::of_failed_flush() });
                break;
            }
            if self.waiting.is_empty() || !self.await_flush(wake) {
                break;
            }
        }
        if let Role::Producer(partition) = &self.role
            && self.flushed
            && !self.waiting.is_empty()
        {
            partition.hurry_flush();
        }
        Ok(())
    }

    /// Has the session woken after the next flush, once. `true` if it must look again: what happened before is not told.
    pub(super) fn await_flush(&mut self, wake: &Arc<dyn Wake>) -> bool {
        let waiter = self.waiter();
        match &self.role {
            Role::Producer(partition) if !self.awaits_flush => {
                partition.await_flush(wake, waiter);
                self.awaits_flush = true;
                true
            }
            _ => false,
        }
    }

    /// Something has happened in the partition, which has forgotten the waiter.
    pub(super) fn woken(&mut self) {
        match &mut self.role {
            Role::Consumer { parked, .. } => *parked = false,
            Role::Producer(_) => (self.awaits_flush, self.held) = (false, false),
            Role::Unknown | Role::Committer(..) | Role::Committed => {}
        }
    }

    /// Sends an answer, or as much of it as the socket takes; the rest is kept, and nothing is read until it is out.
    pub(super) fn answer(&mut self, bytes: &[u8]) -> Result<(), Verdict> {
        let alone = self.away != Some(Away::Sending) || bytes.is_empty();
        debug_assert!(alone, "another thread sends on this socket");
        if !self.out.is_empty() {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        let Ok(sent) = write_some(&mut self.stream, bytes) else {
            return Err(Verdict::Close(None));
        };
        if sent < bytes.len() || self.stream.wants_write() {
            self.writable = false;
            self.out.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Sends what was kept of the answers. `Err(Keep)` while some is left.
    fn send_answers(&mut self) -> Result<(), Verdict> {
        if !self.is_sending() {
            return Ok(());
        }
        if self.writable {
            match self.stream.flush() {
                Ok(flushed) => self.writable = flushed,
                Err(_) => return Err(Verdict::Close(None)),
            }
        }
        if self.out.is_empty() {
            // What is encrypted of the log does not keep a consumer from being heard.
            let heard = matches!(self.role, Role::Consumer { .. }) && self.closing.is_none();
            return if self.writable || heard { Ok(()) } else { Err(Verdict::Keep) };
        }
        if !self.writable {
            return Err(Verdict::Keep);
        }
        let Ok(sent) = write_some(&mut self.stream, &self.out[self.out_at..]) else {
            return Err(Verdict::Close(None));
        };
        self.out_at += sent;
        if self.out_at < self.out.len() {
            self.writable = false;
            return Err(Verdict::Keep);
        }
        // Given back: a client that was slow once does not hold memory for ever.
        self.out = Vec::new();
        self.out_at = 0;
        if self.stream.wants_write() {
            self.writable = false;
            return Err(Verdict::Keep);
        }
        Ok(())
    }

    /// The handshake is done, or will not be.
    pub(super) fn end_deadline(&mut self, cx: &mut Context) {
        if let Some(at) = self.deadline.take() {
            cx.deadlines.remove(&(at, self.key.0));
            cx.partial_handshakes.remove(&(at, self.key.0));
        }
    }

    /// Ends the session's business with its partition.
    pub(super) fn leave(&mut self, cx: &mut Context) {
        self.break_off(cx);
        let waiter = self.waiter();
        self.end_deadline(cx);
        if let Some(at) = self.paused.take() {
            cx.pauses.remove(&(at, self.key.0));
        }
        if let Some(at) = self.beat_at.take() {
            cx.heartbeats.remove(&(at, self.key.0));
        }
        if let Role::Consumer { partition, parked: true, .. } = &self.role {
            partition.unpark(&cx.wake, waiter);
        }
        if let Role::Producer(partition) = &self.role
            && self.awaits_flush
        {
            partition.forget_flush(&cx.wake, waiter);
        }
        self.forgo_memory(cx);
    }
}

/// Writes until the socket takes no more; returns the bytes written.
fn write_some(stream: &mut Transport, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
