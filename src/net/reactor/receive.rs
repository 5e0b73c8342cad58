//! Reading from a socket: handshakes, and producers' frames in runs.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use super::context::Context;
use super::gather::{Counts, Outcome};
use super::session::{Ending, Role, Session, Verdict};
use super::transport::{Read, Transport};
use super::waiting::WAITING_MAX;
use super::worker::Work;
use crate::metrics::CloseReason;
use crate::net::admit::admit_now;
use crate::net::budget::Lease;
use crate::net::connection::{Action, Asked, acks};
use crate::net::open::open_now;
use crate::net::status;
use crate::protocol::ACK_LEN;
use crate::record::{FrameLimits, Run};

/// Reads of one session before others get their turn.
const READS_PER_TURN: usize = 4;

/// A session that holds memory while others wait for it must receive [`STALL_BYTES`] in this time, or
/// complete a frame.
pub(super) const STALL_TIME: Duration = Duration::from_secs(20);

/// See [`STALL_TIME`].
pub(super) const STALL_BYTES: u64 = 256 * 1024;

/// A frame collected in memory of its own.
#[derive(Debug)]
pub(super) struct Large {
    buf: Vec<u8>,
    total: usize,
    _lease: Lease,
}

/// What one read brought.
enum Got {
    /// So many, and whether there may be more.
    Bytes(usize, bool),
    /// Nothing now.
    Nothing,
    /// Nothing yet: there may be more.
    Later,
    End,
    Failed,
}

impl Session {
    /// Reads and acts until the socket is empty or the turn is over.
    pub(super) fn drive_input(&mut self, cx: &mut Context) -> Verdict {
        if self.awaits_memory && self.hung_up && !self.can_complete() {
            // Others that wait are not to wait for it, too.
            return Verdict::Close(Some(CloseReason::Truncated));
        }
        let stopping = cx.stopping;
        let goes_on = |session: &Self| {
            let paused = session.paused.is_some() && !stopping;
            let unserved = session.awaits_memory && !session.pending_new;
            let waits = paused || unserved || session.held || session.is_opening();
            let waits = waits || session.is_sending();
            !waits && session.closing.is_none() && (session.pending_new || session.readable)
        };
        for _ in 0..READS_PER_TURN {
            if !goes_on(self) || self.is_held(cx) {
                break;
            }
            if !self.may_read(cx) {
                return Verdict::Flush;
            }
            let verdict = if self.pending_new {
                self.process_pending(cx)
            } else if self.large.is_some() {
                self.read_large(cx)
            } else {
                self.read_frames(cx)
            };
            if let Some(verdict) = verdict {
                return verdict;
            }
            if self.large.is_some() {
                // As much as one read brings of it is a turn's worth.
                break;
            }
        }
        let ends = self.closing.is_some() && !self.is_sending();
        if ends || goes_on(self) { Verdict::Again } else { Verdict::Keep }
    }

    /// Whether nothing more may be read until a flush has ended: too much waits for the disk.
    fn is_held(&mut self, cx: &Context) -> bool {
        if !self.has_too_much_unflushed(cx) {
            return false;
        }
        if self.await_flush(&cx.wake) && !self.has_too_much_unflushed(cx) {
            return false;
        }
        cx.metrics.flush_waits.inc();
        self.held = true;
        true
    }

    fn has_too_much_unflushed(&self, cx: &Context) -> bool {
        match &self.role {
            Role::Producer(partition) => {
                self.waiting.len() >= WAITING_MAX || partition.is_behind(cx.now)
            }
            _ => false,
        }
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(self.role, Role::Unknown) && !self.connection.in_handshake()
    }

    /// Whether what is read can join what was gathered.
    fn may_read(&self, cx: &Context) -> bool {
        if self.large.is_some() {
            // A large frame is written from its own memory, behind what this session may have gathered.
            return cx.gather.is_empty();
        }
        let partition = match &self.role {
            Role::Producer(partition) => Some(partition),
            _ => None,
        };
        cx.gather.takes(partition, self.pending.len())
    }

    /// Goes on with what was received earlier, without reading.
    fn process_pending(&mut self, cx: &mut Context) -> Option<Verdict> {
        self.pending_new = false;
        // Taken whole: it may be large, and is not needed so large again.
        let pending = std::mem::take(&mut self.pending);
        cx.gather.room()[..pending.len()].copy_from_slice(&pending);
        self.process(pending.len(), cx)
    }

    fn read_frames(&mut self, cx: &mut Context) -> Option<Verdict> {
        let contended = cx.budget.is_contended();
        let pending_max = cx.pending_max;
        let mut room = cx.gather.room();
        let have = self.pending.len();
        if let Some(quota) = &self.quota {
            let len = have + quota.produce.step(room.len() - have);
            room = &mut room[..len];
        }
        if contended || self.connection.in_handshake() {
            // What does not become a whole frame has to be kept, outside the budget: little of it. So has what follows a
            // handshake, until that is acted upon.
            let len = room.len().min(have + pending_max);
            room = &mut room[..len];
        }
        match read_some(&mut self.stream, &mut room[have..]) {
            Got::Bytes(read, more) => {
                // A socket that is empty saves one system call. Unless the peer's end is behind it, which is told once,
                // and may have been told already.
                self.readable = more || self.hung_up;
                self.active_at = cx.now;
                room[..have].copy_from_slice(&self.pending);
                self.pending.clear();
                self.charge_produced(read, cx);
                self.process(have + read, cx)
            }
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::Later => None,
            Got::End => self.end(have),
            Got::Failed => Some(self.broken(cx)),
        }
    }

    fn read_large(&mut self, cx: &mut Context) -> Option<Verdict> {
        let large = self.large.as_mut()?;
        let have = large.buf.len();
        // Nothing is gathered now: all of the buffer is free, and warm, which the frame's own memory is not. That is touched
        // as its bytes arrive, not when they are claimed.
        let mut room = cx.gather.room();
        let step = room.len().min(large.total - have);
        let step = self.quota.as_ref().map_or(step, |quota| quota.produce.step(step));
        room = &mut room[..step];
        let got = read_some(&mut self.stream, room);
        let (read, more) = match got {
            Got::Bytes(read, more) => (read, more),
            Got::Later => (0, true),
            Got::Nothing | Got::End | Got::Failed => (0, false),
        };
        self.readable = more || self.hung_up;
        large.buf.extend_from_slice(&room[..read]);
        let is_whole = large.buf.len() == large.total;
        self.progress += read as u64;
        if read > 0 {
            self.active_at = cx.now;
            self.charge_produced(read, cx);
        }
        match got {
            Got::Bytes(..) if is_whole => self.append_large(cx),
            Got::Bytes(..) | Got::Later => None,
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::End => self.end(have),
            Got::Failed => Some(self.broken(cx)),
        }
    }

    /// Appends a frame that was collected in memory of its own, and answers it.
    fn append_large(&mut self, cx: &mut Context) -> Option<Verdict> {
        let mut large = self.large.take()?;
        // Its header was checked before memory was taken for it.
        let run = Run::parse(&mut large.buf, &FrameLimits::STORED);
        let (Role::Producer(partition), Some(mut run)) = (&self.role, run) else {
            return Some(Verdict::Close(None));
        };
        self.progress += STALL_BYTES;
        let span =
            super::gather::span_of(self.span.id(), partition, 1, run.records(), run.bytes().len());
        let appended = span.in_scope(|| partition.append(&mut run));
        cx.appended_at = Some(cx.now);
        let outcome = Outcome::of(partition, &appended);
        let mut answer = Vec::with_capacity(ACK_LEN);
        acks(run.iter(), outcome.stored, &mut answer);
        self.acknowledge(&answer, &outcome, &cx.wake, &mut cx.spares).err()
    }

    /// The peer sends no more: what it sent is answered, then the connection is closed.
    fn end(&mut self, left: usize) -> Option<Verdict> {
        self.ended = true;
        self.readable = false;
        self.closing = Some(Ending(self.connection.end_of_input(left)));
        None
    }

    /// Acts on the first `len` bytes of the room behind what was gathered; keeps what is left of them. Some verdict ends
    /// the turn.
    fn process(&mut self, len: usize, cx: &mut Context) -> Option<Verdict> {
        let mut left = len;
        let mut opening = None;
        loop {
            // Frames that were gathered are in front of the room: it begins with what is left.
            let at = if opening.is_some() { len - left } else { 0 };
            let input = &mut cx.gather.room()[at..at + left];
            let step = self.connection.receive(input);
            let consumed = step.consumed;
            match step.action {
                Action::Append(run) => {
                    let counts = Counts::of(&run);
                    if let Role::Producer(partition) = &self.role {
                        cx.gather.add(self.key, partition, &counts);
                    }
                }
                Action::Read { needed } => {
                    self.pending.extend_from_slice(&input[consumed..]);
                    self.keep(needed, cx);
                    break;
                }
                Action::Open(asked) => opening = Some(asked),
                Action::Commit(commits) => {
                    let answer = || super::commits::answer(&self.role, commits, &cx.broker);
                    let answered = self.span.in_scope(answer);
                    self.pending.extend_from_slice(&input[consumed..]);
                    self.pending_new = !self.pending.is_empty();
                    return self.answer(&answered).err();
                }
                Action::Wait => {
                    self.pending.extend_from_slice(&input[consumed..]);
                    break;
                }
                Action::Close(refusal) => {
                    self.refuse(*refusal);
                    break;
                }
            }
            left -= consumed;
        }
        opening.and_then(|asked| self.open(asked, cx))
    }

    /// Keeps what is pending, the start of a frame (or handshake) that takes `needed` bytes to go on.
    fn keep(&mut self, needed: u64, cx: &mut Context) {
        if let Some(deadline) = self.deadline {
            if !self.pending.is_empty() {
                cx.partial_handshakes.insert((deadline, self.key.0));
            }
            return;
        }
        if needed <= cx.pending_max as u64 {
            // There may be fewer connections than when it began to wait.
            self.forgo_memory(cx);
            return;
        }
        let Some(lease) = cx.budget.take_or_wait(needed, &cx.memory_wake, self.waiter()) else {
            cx.metrics.receive_memory_waits.inc();
            self.awaits_memory = true;
            self.wanted = needed;
            return;
        };
        self.awaits_memory = false;
        // The frame limits keep `needed` within `usize`.
        let total = usize::try_from(needed).unwrap_or(usize::MAX);
        let mut buf = std::mem::take(&mut self.pending);
        buf.reserve_exact(total - buf.len());
        if !std::mem::replace(&mut self.watched, true) {
            cx.stalls.push_back((Instant::now() + STALL_TIME, self.key, self.progress));
        }
        self.large = Some(Large { buf, total, _lease: lease });
    }

    /// Whether its socket holds the rest of the frame for which it waits, now that no more will come.
    fn can_complete(&self) -> bool {
        // What is encrypted may be here already: it is found out when it is read.
        let Some(socket) = self.stream.plain() else { return true };
        let there = ioctl_fionread(socket).unwrap_or(u64::MAX);
        there.saturating_add(self.pending.len() as u64) >= self.wanted
    }

    /// Memory may be there now. It stays in the queue until it has taken it: see [`Session::yield_memory`].
    pub(super) fn memory(&mut self) {
        self.pending_new |= self.awaits_memory;
    }

    /// After a turn: leaves the queue for memory if it ends, or was woken and waits for something else. Nobody passes the
    /// first. It asks again when it goes on.
    pub(super) fn yield_memory(&mut self, verdict: Verdict, cx: &Context) {
        if self.closing.is_some() || (self.pending_new && verdict == Verdict::Keep) {
            self.forgo_memory(cx);
        }
    }

    /// Leaves the queue for memory, if it is there.
    pub(super) fn forgo_memory(&mut self, cx: &Context) {
        if std::mem::take(&mut self.awaits_memory) {
            cx.budget.forget(&cx.memory_wake, self.waiter());
        }
    }

    fn open(&mut self, asked: Asked, cx: &mut Context) -> Option<Verdict> {
        self.end_deadline(cx);
        if let Some(error) = self.unwanted {
            self.refuse(status::of_admission(error));
            return Some(Verdict::Again);
        }
        if cx.stopping {
            if matches!(asked, Asked::V1_0(_)) {
                return Some(Verdict::Close(None));
            }
            self.refuse(status::of_stopping());
            return Some(Verdict::Again);
        }
        self.certificate = self.stream.certificate();
        if self.stream.is_tls() {
            cx.metrics.tls_connections.inc();
        }
        self.span = asked.span(self.peer, self.certificate.as_deref());
        if let Asked::V1_1(handshake) = &asked
            && (handshake.client.name.is_some() || handshake.client.software.is_some())
        {
            self.client = Some(Box::new(handshake.client.clone()));
        }
        let visitor = self.visitor();
        let visitor = match self.span.in_scope(|| admit_now(&cx.access, &asked, &visitor)) {
            Some(Ok(admitted)) => {
                self.admitted = Some(admitted);
                if let Some(result) = self.span.in_scope(|| open_now(&cx.broker, &asked)) {
                    return Some(self.opened(result, cx));
                }
                None
            }
            Some(Err(refusal)) => {
                self.refuse(refusal);
                return Some(Verdict::Again);
            }
            // Its token has to be hashed.
            None => Some(visitor),
        };
        let work = Work::Open { asked, visitor, span: self.span.clone() };
        let job = self.job(work, cx);
        if cx.jobs.send(job).is_err() {
            self.refuse(status::of_lost_worker());
            return Some(Verdict::Again);
        }
        None
    }
}

fn read_some(stream: &mut Transport, buf: &mut [u8]) -> Got {
    match stream.read(buf) {
        Ok(Read { len: 0, more: true }) => Got::Later,
        Ok(Read { len: 0, more: false }) => Got::End,
        Ok(Read { len, more }) => Got::Bytes(len, more),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Got::Nothing,
        Err(_) => Got::Failed,
    }
}
