//! Sending to a consumer: slices of segment files, across records, until the socket or the log is done.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::session::{Ending, Role, Session, Verdict};
use super::transport::Read;
use super::worker::{Job, Work};
use crate::broker::{Fetch, Moved};
use crate::metrics::CloseReason;
use crate::model::Offset;
use crate::protocol::Status;
use crate::protocol::v1_1::{COMMIT_LEN, ControlFrame};
use crate::storage::file_slice::FileSlice;

/// Bytes sent to one consumer before others get their turn.
const BYTES_PER_TURN: u64 = 4 * 1024 * 1024;

/// The same while producers write to this reactor: what they wait for an ack grows by the time of a turn.
const BYTES_PER_TURN_BESIDE_PRODUCERS: u64 = 128 * 1024;

/// For so long after its last append a reactor has producers.
const PRODUCERS_TIME: Duration = Duration::from_millis(10);

/// Bytes that one `sendfile` is asked for, and that are looked at before, whether they are in the page cache.
const SLICE: u64 = 1024 * 1024;

/// Slices from this size on are looked at before they are sent, whether they are in the page cache. A smaller one is
/// what was just appended, as a rule; at most, this much is read from the disk on the reactor.
const PROBE_MIN: u64 = 16 * 1024;

/// Reads of what a consumer sends in one turn.
const INPUTS_PER_TURN: usize = 4;

/// Where sending stopped.
enum Sent {
    /// All there is was sent.
    Tail,
    /// The socket takes no more now.
    Blocked,
    /// The turn is over.
    Turn,
    /// The consumer has all that it asked for.
    Done,
    /// What comes next is damaged.
    Damaged,
    /// The topic was deleted, and the consumer stands between two frames.
    Deleted,
    Close(Option<CloseReason>),
}

impl Session {
    pub(super) fn drive_consumer(&mut self, cx: &mut Context) -> Verdict {
        if let Err(verdict) = self.take_input(cx) {
            return verdict;
        }
        loop {
            match self.send(cx) {
                Sent::Blocked => return self.rest(),
                Sent::Turn => return Verdict::Again,
                Sent::Close(reason) => return Verdict::Close(reason),
                Sent::Damaged => return self.end_at_damage(cx),
                Sent::Deleted => return self.end_deleted(cx),
                Sent::Done => {
                    self.closing = Some(Ending(None));
                    return Verdict::Again;
                }
                // A peer that will send no more and has got everything: it is gone, or wants no more.
                Sent::Tail if self.ended => return Verdict::Close(None),
                Sent::Tail => {}
            }
            if !self.park(cx) {
                return self.rest();
            }
        }
    }

    /// Nothing more to send for now. What is left to be read is not told again.
    fn rest(&self) -> Verdict {
        if self.readable { Verdict::Again } else { Verdict::Keep }
    }

    /// Parks at the end of the log, once. `true` if more has arrived meanwhile.
    fn park(&mut self, cx: &Context) -> bool {
        let waiter = self.waiter();
        let Role::Consumer { partition, cursor, parked, .. } = &mut self.role else { return false };
        if *parked {
            return false;
        }
        partition.park(&cx.wake, waiter);
        *parked = true;
        // What was appended before parking woke nobody: look once more. If there is more, the session stays parked while
        // it sends; being woken then does no harm.
        !matches!(partition.fetch(cursor, 1), Fetch::Tail)
    }

    fn send(&mut self, cx: &mut Context) -> Sent {
        let mut left = bytes_per_turn(cx);
        while left > 0 {
            let Role::Consumer { partition, cursor, reading, .. } = &mut self.role else {
                return Sent::Close(None);
            };
            if !self.writable || self.warming {
                return Sent::Blocked;
            }
            let max = if self.warm > 0 { self.warm.min(left) } else { SLICE };
            let max = reading.limit(cursor, max);
            if max == 0 {
                partition.traffic().records_out.add(reading.count(reading.until_offset));
                return Sent::Done;
            }
            // Read before: what is before it was sent once there is nothing more to send.
            let end = partition.end_offset();
            let fetched = partition.fetch(cursor, max);
            let (skipped, moved) = (cursor.take_skipped(), cursor.take_moved());
            if let Some(moved) = moved {
                partition.traffic().records_out.add(reading.count(moved.from));
                reading.pass(moved.to);
            }
            if (skipped.is_some() || moved.is_some()) && self.connection.speaks_1_1() {
                match self.tell_passed(skipped, moved, cx) {
                    Ok(()) => continue,
                    Err(_) => return Sent::Close(None),
                }
            }
            let slice = match fetched {
                Fetch::Slice(slice) => slice,
                Fetch::Tail => {
                    partition.traffic().records_out.add(reading.count(end));
                    return if reading.until.is_some() { Sent::Done } else { Sent::Tail };
                }
                Fetch::Damaged => return Sent::Damaged,
                Fetch::Deleted => return Sent::Deleted,
            };
            if reading.limit(cursor, slice.len()) < slice.len() {
                // It went on to the segment in which it ends.
                continue;
            }
            if slice.len() > self.warm && slice.len() >= PROBE_MIN {
                self.warm = slice.len();
                if !slice.is_cached() {
                    return self.warm_up(slice, cx);
                }
            }
            if slice.len() > left {
                // It was asked for to look at it.
                self.warm = slice.len();
                continue;
            }
            match self.stream.send_slice(&slice, &mut cx.plaintext) {
                Ok(sent) => {
                    let sent = sent as u64;
                    cursor.advance(sent);
                    self.sent_at = cx.now;
                    cx.metrics.bytes_out.add(sent);
                    partition.traffic().bytes_out.add(sent);
                    left = left.saturating_sub(sent);
                    self.warm = self.warm.saturating_sub(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Sent::Close(blame(&error)),
            }
        }
        Sent::Turn
    }

    /// The consumer was moved past damage, or was slower than retention; it stands where frames begin again.
    fn tell_passed(
        &mut self,
        skipped: Option<Offset>,
        moved: Option<Moved>,
        cx: &Context,
    ) -> Result<(), Verdict> {
        if let Some(offset) = skipped {
            let message = "damaged records were skipped";
            self.tell(&ControlFrame::new(Status::Corrupt, offset, message), cx)?;
        }
        if let Some(Moved { from, to }) = moved {
            let message = format!("records {from} to {} are not retained any more", to - 1);
            self.tell(&ControlFrame::new(Status::OffsetOutOfRange, to, message), cx)?;
        }
        Ok(())
    }

    /// Has the slice read into the page cache by a thread that may wait for the disk.
    fn warm_up(&mut self, slice: FileSlice, cx: &Context) -> Sent {
        cx.metrics.cold_reads.inc();
        self.warming = true;
        let job = Job { work: Work::Warm(slice), key: self.key, inbox: Arc::clone(&cx.inbox) };
        match cx.reads.send(job) {
            Ok(()) => Sent::Blocked,
            Err(_) => Sent::Close(Some(CloseReason::Storage)),
        }
    }

    /// Reads what the peer sends, to notice when it leaves: commits, of a consumer that may commit; else it means nothing.
    pub(super) fn take_input(&mut self, cx: &mut Context) -> Result<(), Verdict> {
        self.pending_new = false;
        let commits =
            matches!(&self.role, Role::Consumer { reading, .. } if reading.commit_key().is_some());
        if !commits {
            self.pending = Vec::new();
        } else if self.pending.len() >= COMMIT_LEN {
            let pending = std::mem::take(&mut self.pending);
            self.take_commits(&pending, &cx.broker);
        }
        for _ in 0..INPUTS_PER_TURN {
            if !self.readable {
                return Ok(());
            }
            // The start of a commit, at most.
            let have = self.pending.len();
            cx.scratch[..have].copy_from_slice(&self.pending);
            match self.stream.read(&mut cx.scratch[have..]) {
                Ok(Read { len: 0, .. }) => {
                    self.ended = true;
                    self.readable = false;
                }
                Ok(Read { len, .. }) if commits => {
                    self.take_commits(&cx.scratch[..have + len], &cx.broker);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(_) => return Err(self.broken(cx)),
            }
        }
        Ok(())
    }
}

fn bytes_per_turn(cx: &Context) -> u64 {
    let since = cx.appended_at.map(|at| cx.now.saturating_duration_since(at));
    let beside_producers = since.is_some_and(|since| since < PRODUCERS_TIME);
    if beside_producers { BYTES_PER_TURN_BESIDE_PRODUCERS } else { BYTES_PER_TURN }
}

/// Whether the peer left (no reason to give) or the file could not be read.
fn blame(error: &io::Error) -> Option<CloseReason> {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut => None,
        _ => Some(CloseReason::Storage),
    }
}
