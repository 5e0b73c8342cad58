//! Sending to a consumer: slices of segment files, across records, until the socket or the log is done.

use std::io::{self, Read};

use super::context::Context;
use super::session::{Role, Session, Verdict};
use crate::broker::Fetch;
use crate::metrics::CloseReason;
use crate::net::sys::send_file;

/// Bytes sent to one consumer before others get their turn.
const BYTES_PER_TURN: u64 = 4 * 1024 * 1024;

/// Bytes that one `sendfile` is asked for.
const SLICE: u64 = 1024 * 1024;

/// Reads of what a consumer sends (and nobody wants) in one turn.
const DISCARDS_PER_TURN: usize = 4;

/// Where sending stopped.
enum Sent {
    /// All there is was sent.
    Tail,
    /// The socket takes no more now.
    Blocked,
    /// The turn is over.
    Turn,
    Close(Option<CloseReason>),
}

impl Session {
    pub(super) fn drive_consumer(&mut self, cx: &mut Context) -> Verdict {
        if let Err(verdict) = self.discard_input(cx) {
            return verdict;
        }
        loop {
            match self.send(cx) {
                Sent::Blocked => return Verdict::Keep,
                Sent::Turn => return Verdict::Again,
                Sent::Close(reason) => return Verdict::Close(reason),
                // A peer that will send no more and has got everything: it is gone, or wants no more.
                Sent::Tail if self.ended || cx.stopping => return Verdict::Close(None),
                Sent::Tail => {}
            }
            if !self.park(cx) {
                return Verdict::Keep;
            }
        }
    }

    /// Parks at the end of the log. `true` if more has arrived meanwhile, and the session is not parked after all.
    fn park(&mut self, cx: &Context) -> bool {
        let waiter = self.waiter();
        let Role::Consumer { partition, cursor, parked } = &mut self.role else { return false };
        if *parked {
            return false;
        }
        partition.park(&cx.wake, waiter);
        // What was appended before parking woke nobody: look once more.
        if matches!(partition.fetch(cursor, 1), Fetch::Tail) {
            *parked = true;
            return false;
        }
        partition.unpark(&cx.wake, waiter);
        true
    }

    /// Something was appended: the partition has forgotten the waiter.
    pub(super) fn woken(&mut self) {
        if let Role::Consumer { parked, .. } = &mut self.role {
            *parked = false;
        }
    }

    fn send(&mut self, cx: &Context) -> Sent {
        let Role::Consumer { partition, cursor, .. } = &mut self.role else {
            return Sent::Close(None);
        };
        let mut left = BYTES_PER_TURN;
        while left > 0 {
            if !self.writable {
                return Sent::Blocked;
            }
            let slice = match partition.fetch(cursor, SLICE.min(left)) {
                Fetch::Slice(slice) => slice,
                Fetch::Tail => return Sent::Tail,
                Fetch::Damaged => return Sent::Close(Some(CloseReason::Corrupt)),
            };
            match send_file(&self.stream, &slice) {
                Ok(sent) => {
                    cursor.advance(sent as u64);
                    cx.metrics.bytes_out.add(sent as u64);
                    left = left.saturating_sub(sent as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Sent::Close(blame(&error)),
            }
        }
        Sent::Turn
    }

    /// Reads what the consumer sends, which means nothing in 1.0, to notice when it leaves.
    fn discard_input(&mut self, cx: &mut Context) -> Result<(), Verdict> {
        self.pending = Vec::new();
        self.pending_new = false;
        for _ in 0..DISCARDS_PER_TURN {
            if !self.readable {
                return Ok(());
            }
            match (&self.stream).read(&mut cx.scratch) {
                Ok(0) => {
                    self.ended = true;
                    self.readable = false;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Verdict::Close(None)),
            }
        }
        Ok(())
    }
}

/// Whether the peer left (no reason to give) or the file could not be read.
fn blame(error: &io::Error) -> Option<CloseReason> {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut => None,
        _ => Some(CloseReason::Storage),
    }
}
