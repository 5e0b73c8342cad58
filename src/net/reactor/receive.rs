//! Reading from a socket: handshakes, and producers' frames in runs.

use std::io::{self, Read};
use std::sync::Arc;

use mio::net::TcpStream;

use super::context::{Context, READ_BUFFER};
use super::session::{Ending, Role, Session, Verdict};
use super::worker::Job;
use crate::metrics::CloseReason;
use crate::net::budget::Lease;
use crate::net::connection::{Action, acks};
use crate::net::open::open_now;
use crate::protocol::Request;
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
        if self.pending_new {
            self.pending_new = false;
            if let Some(verdict) = self.process_pending(cx) {
                return verdict;
            }
        }
        for _ in 0..READS_PER_TURN {
            let waits = self.awaits_memory || !self.out.is_empty();
            if waits || !self.readable || self.closing.is_some() || self.is_opening() {
                break;
            }
            let verdict =
                if self.large.is_some() { self.read_large(cx) } else { self.read_frames(cx) };
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        if self.closing.is_some() && self.out.is_empty() {
            return Verdict::Again;
        }
        let can_go_on = self.readable && self.out.is_empty() && !self.awaits_memory;
        if can_go_on && !self.is_opening() { Verdict::Again } else { Verdict::Keep }
    }

    fn is_opening(&self) -> bool {
        matches!(self.role, Role::Unknown) && !self.connection.in_handshake()
    }

    /// Goes on with what was received earlier, without reading.
    fn process_pending(&mut self, cx: &mut Context) -> Option<Verdict> {
        let mut buf = std::mem::take(&mut cx.buf);
        let len = self.pending.len();
        buf[..len].copy_from_slice(&self.pending);
        self.pending.clear();
        let verdict = self.process(&mut buf[..len], cx);
        cx.buf = buf;
        verdict
    }

    fn read_frames(&mut self, cx: &mut Context) -> Option<Verdict> {
        let mut buf = std::mem::take(&mut cx.buf);
        let have = self.pending.len();
        let verdict = match read_some(&self.stream, &mut buf[have..]) {
            Got::Bytes(read) => {
                // A short read means that the socket is empty: one system call saved. Unless the peer's end is
                // behind it, which is told once, and may have been told already.
                self.readable = have + read == buf.len() || self.hung_up;
                buf[..have].copy_from_slice(&self.pending);
                self.pending.clear();
                self.process(&mut buf[..have + read], cx)
            }
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::End => self.end(have),
            Got::Failed => Some(Verdict::Close(None)),
        };
        cx.buf = buf;
        verdict
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
            Got::Bytes(_) => {
                let mut whole = self.large.take()?;
                self.process(&mut whole.buf, cx)
            }
            Got::Nothing => {
                self.readable = false;
                None
            }
            Got::End => self.end(have),
            Got::Failed => Some(Verdict::Close(None)),
        }
    }

    /// The peer sends no more: what it sent is answered, then the connection is closed.
    fn end(&mut self, left: usize) -> Option<Verdict> {
        self.ended = true;
        self.readable = false;
        self.closing = Some(Ending(self.connection.end_of_input(left)));
        self.out.is_empty().then_some(Verdict::Again)
    }

    /// Acts on the bytes received; keeps what is left of them. Some verdict ends the turn.
    fn process(&mut self, input: &mut [u8], cx: &mut Context) -> Option<Verdict> {
        let mut acked = std::mem::take(&mut cx.acks);
        let mut at = 0;
        let mut opening = None;
        loop {
            let step = self.connection.receive(&mut input[at..]);
            let consumed = step.consumed;
            match step.action {
                Action::Append(mut run) => self.append(&mut run, &mut acked),
                Action::Read { needed } => {
                    at += consumed;
                    self.keep(&input[at..], needed, cx);
                    break;
                }
                Action::Open(request) => opening = Some(request),
                Action::Wait => {
                    at += consumed;
                    self.pending.extend_from_slice(&input[at..]);
                    break;
                }
                Action::Close(reason, detail) => {
                    self.closing = Some(Ending(Some(reason)));
                    self.detail = detail;
                    break;
                }
            }
            at += consumed;
        }
        let answered = if acked.is_empty() { Ok(()) } else { self.answer(&acked) };
        acked.clear();
        cx.acks = acked;
        match (answered, opening) {
            (Err(verdict), _) => Some(verdict),
            (Ok(()), Some(request)) => self.open(request, cx),
            (Ok(()), None) => None,
        }
    }

    fn append(&self, run: &mut Run<'_>, acked: &mut Vec<u8>) {
        let Role::Producer(partition) = &self.role else { return };
        let stored = partition.append(run).is_ok();
        acks(run, stored, acked);
    }

    /// Keeps the start of a frame (or handshake) that takes `needed` bytes to go on.
    fn keep(&mut self, rest: &[u8], needed: u64, cx: &mut Context) {
        if needed <= PENDING_MAX {
            self.pending.extend_from_slice(rest);
            return;
        }
        let waiter = self.waiter();
        let Some(lease) = cx.budget.take_or_wait(needed, &cx.wake, waiter) else {
            cx.metrics.receive_memory_waits.inc();
            self.awaits_memory = true;
            self.pending.extend_from_slice(rest);
            return;
        };
        // The frame limits keep `needed` within `usize`.
        let total = usize::try_from(needed).unwrap_or(usize::MAX);
        let mut buf = Vec::with_capacity(total.min(LARGE_STEP));
        buf.extend_from_slice(rest);
        self.pending = Vec::new();
        self.large = Some(Large { buf, total, _lease: lease });
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
        let job = Job { request, key: self.key, inbox: Arc::clone(&cx.inbox) };
        match cx.jobs.send(job) {
            Ok(()) => None,
            Err(_) => Some(Verdict::Close(Some(CloseReason::Storage))),
        }
    }
}

fn read_some(mut stream: &TcpStream, buf: &mut [u8]) -> Got {
    debug_assert!(!buf.is_empty() && buf.len() <= READ_BUFFER.max(LARGE_STEP));
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
