//! Reading from a socket: handshakes, and producers' frames in runs.

use std::io::{self, Read};
use std::sync::Arc;

use mio::net::TcpStream;

use super::context::Context;
use super::gather::Counts;
use super::session::{Ending, Role, Session, Verdict};
use super::worker::{Job, Work};
use crate::metrics::CloseReason;
use crate::net::budget::Lease;
use crate::net::connection::{Action, acks};
use crate::net::open::open_now;
use crate::protocol::{ACK_LEN, Request};
use crate::record::Run;

/// Reads of one session before others get their turn.
const READS_PER_TURN: usize = 4;

/// A frame of at most this many bytes waits for its rest in the session's own small buffer; a larger one takes memory
/// from the budget.
const PENDING_MAX: u64 = 16 * 1024;

/// Memory of a large frame grows by this much as its bytes arrive: claims alone cost nothing.
const LARGE_STEP: usize = 256 * 1024;

/// A frame collected in memory of its own.
#[derive(Debug)]
pub(super) struct Large {
    buf: Vec<u8>,
    total: usize,
    _lease: Lease,
}

/// What one read brought.
enum Got {
    Bytes(usize),
    Nothing,
    End,
    Failed,
}

impl Session {
    /// Reads and acts until the socket is empty or the turn is over.
    pub(super) fn drive_input(&mut self, cx: &mut Context) -> Verdict {
        let goes_on = |session: &Self| {
            let waits = session.awaits_memory || !session.out.is_empty() || session.is_opening();
            !waits && session.closing.is_none() && (session.pending_new || session.readable)
        };
        for _ in 0..READS_PER_TURN {
            if !goes_on(self) {
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
        }
        let ends = self.closing.is_some() && self.out.is_empty();
        if ends || goes_on(self) { Verdict::Again } else { Verdict::Keep }
    }

    fn is_opening(&self) -> bool {
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
        let len = self.pending.len();
        cx.gather.room()[..len].copy_from_slice(&self.pending);
        self.pending.clear();
        self.process(len, cx)
    }

    fn read_frames(&mut self, cx: &mut Context) -> Option<Verdict> {
        let room = cx.gather.room();
        let have = self.pending.len();
        match read_some(&self.stream, &mut room[have..]) {
            Got::Bytes(read) => {
                // A short read means that the socket is empty: one system call saved. Unless the peer's end is
                // behind it, which is told once, and may have been told already.
                self.readable = have + read == room.len() || self.hung_up;
                room[..have].copy_from_slice(&self.pending);
                self.pending.clear();
                self.process(have + read, cx)
            }
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::End => self.end(have),
            Got::Failed => Some(Verdict::Close(None)),
        }
    }

    fn read_large(&mut self, cx: &mut Context) -> Option<Verdict> {
        let large = self.large.as_mut()?;
        let have = large.buf.len();
        large.buf.resize(large.total.min(have + LARGE_STEP), 0);
        let got = read_some(&self.stream, &mut large.buf[have..]);
        let read = if let Got::Bytes(read) = got { read } else { 0 };
        self.readable = have + read == large.buf.len() || self.hung_up;
        large.buf.truncate(have + read);
        match got {
            Got::Bytes(_) if large.buf.len() < large.total => None,
            Got::Bytes(_) => self.append_large(cx),
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::End => self.end(have),
            Got::Failed => Some(Verdict::Close(None)),
        }
    }

    /// Appends a frame that was collected in memory of its own, and answers it.
    fn append_large(&mut self, cx: &mut Context) -> Option<Verdict> {
        let mut large = self.large.take()?;
        let Role::Producer(partition) = &self.role else { return None };
        // Its header was checked before memory was taken for it.
        let mut run = Run::parse(&mut large.buf, &cx.limits)?;
        let stored = partition.append(&mut run).is_ok();
        let mut answer = Vec::with_capacity(ACK_LEN);
        acks(run.iter(), stored, &mut answer);
        self.answer(&answer).err()
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
                Action::Open(request) => opening = Some(request),
                Action::Wait => {
                    self.pending.extend_from_slice(&input[consumed..]);
                    break;
                }
                Action::Close(reason, detail) => {
                    self.closing = Some(Ending(Some(reason)));
                    self.detail = detail;
                    break;
                }
            }
            left -= consumed;
        }
        opening.and_then(|request| self.open(request, cx))
    }

    /// Keeps what is pending, the start of a frame (or handshake) that takes `needed` bytes to go on.
    fn keep(&mut self, needed: u64, cx: &mut Context) {
        if needed <= PENDING_MAX {
            return;
        }
        let Some(lease) = cx.budget.take_or_wait(needed, &cx.wake, self.waiter()) else {
            cx.metrics.receive_memory_waits.inc();
            self.awaits_memory = true;
            return;
        };
        // The frame limits keep `needed` within `usize`.
        let total = usize::try_from(needed).unwrap_or(usize::MAX);
        self.large = Some(Large { buf: std::mem::take(&mut self.pending), total, _lease: lease });
    }

    /// Memory may be there now.
    pub(super) fn memory(&mut self) {
        if self.awaits_memory {
            self.awaits_memory = false;
            self.pending_new = true;
        }
    }

    fn open(&mut self, request: Request, cx: &mut Context) -> Option<Verdict> {
        if cx.stopping {
            return Some(Verdict::Close(None));
        }
        if let Some(result) = open_now(&cx.broker, &request) {
            return Some(self.opened(result, cx));
        }
        let job = Job { work: Work::Open(request), key: self.key, inbox: Arc::clone(&cx.inbox) };
        match cx.jobs.send(job) {
            Ok(()) => None,
            Err(_) => Some(Verdict::Close(Some(CloseReason::Storage))),
        }
    }
}

fn read_some(mut stream: &TcpStream, buf: &mut [u8]) -> Got {
    debug_assert!(!buf.is_empty(), "an empty read would look like the end");
    loop {
        return match stream.read(buf) {
            Ok(0) => Got::End,
            Ok(read) => Got::Bytes(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Got::Nothing,
            Err(_) => Got::Failed,
        };
    }
}
