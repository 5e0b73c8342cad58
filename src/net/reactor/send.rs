//! Sending to a consumer: slices of segment files, across records, until the socket or the log is done. What `delegate` is
//! for is sent there.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::io::Errno;

use super::context::Context;
use super::delegate::{self, Away};
use super::session::{Ending, Role, Session, Verdict};
use super::transport::Read;
use super::worker::Work;
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
pub(super) enum Sent {
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
            let sent = self.send(cx);
            let ends = match &sent {
                Sent::Damaged | Sent::Deleted => true,
                Sent::Tail => self.ended,
                _ => false,
            };
            if ends && self.stream.wants_write() {
                // Encrypted, and more than the socket took: closing would take it away.
                self.writable = false;
                return self.rest();
            }
            match sent {
                Sent::Blocked => {
                    self.wait_for_quota(cx);
                    return self.rest();
                }
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
        let beside_producers = is_beside_producers(cx);
        let may_delegate = self.delegable().is_some();
        let mut left =
            if beside_producers { BYTES_PER_TURN_BESIDE_PRODUCERS } else { BYTES_PER_TURN };
        while left > 0 {
            let Role::Consumer { partition, cursor, reading, .. } = &mut self.role else {
                return Sent::Close(None);
            };
            if !self.writable || self.away.is_some() || (self.paused.is_some() && !cx.stopping) {
                return Sent::Blocked;
            }
            let max = match self.warm {
                _ if beside_producers && may_delegate => delegate::PARCEL_MAX,
                0 => SLICE,
                warm => warm.min(left),
            };
            let max = self.quota.as_ref().map_or(max, |quota| quota.consume.step(max));
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
            let slice = match self.give_away(slice, beside_producers, cx) {
                Ok(slice) => slice,
                Err(stopped) => return stopped,
            };
            // More of it was asked for to look at it.
            match self.send_slice(&slice.first(left), cx) {
                Ok(sent) => {
                    left = left.saturating_sub(sent);
                    if self.charge_consumed(sent, cx) {
                        return Sent::Blocked;
                    }
                }
                Err(stopped) => return stopped,
            }
        }
        Sent::Turn
    }

    /// Gives the slice to another thread if it is cold, or much to send beside producers; else it is given back.
    fn give_away(
        &mut self,
        slice: FileSlice,
        beside_producers: bool,
        cx: &Context,
    ) -> Result<FileSlice, Sent> {
        let mut cold = false;
        if slice.len() > self.warm && slice.len() >= PROBE_MIN {
            self.warm = slice.len();
            cold = !slice.is_cached();
        }
        let bulk = beside_producers && slice.len() >= delegate::BULK_MIN;
        if (cold || bulk)
            && let Some(socket) = self.delegable()
            && let Ok(socket) = delegate::duplicate(socket)
        {
            return Err(self.delegate(slice, socket, cold, cx));
        }
        if cold {
            let slice = slice.first(SLICE);
            self.warm = slice.len();
            // It may be what was warmed: only what comes behind it is cold.
            return if slice.is_cached() { Ok(slice) } else { Err(self.warm_up(slice, cx)) };
        }
        Ok(slice)
    }

    /// The socket, if another thread may send on it for the reactor. Not what is encrypted; and who has a quota is sent little at
    /// once.
    fn delegable(&self) -> Option<&TcpStream> {
        self.stream.plain().filter(|_| self.quota.is_none())
    }

    /// Sends as much of the slice as the socket takes at once; returns how much that was.
    fn send_slice(&mut self, slice: &FileSlice, cx: &mut Context) -> Result<u64, Sent> {
        let Role::Consumer { partition, cursor, .. } = &mut self.role else {
            return Err(Sent::Close(None));
        };
        match self.stream.send_slice(slice, &mut cx.plaintext) {
            Ok(sent) => {
                let sent = sent as u64;
                cursor.advance(sent);
                self.sent_at = cx.now;
                cx.metrics.bytes_out.add(sent);
                partition.traffic().bytes_out.add(sent);
                self.warm = self.warm.saturating_sub(sent);
                Ok(sent)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            Err(error) => Err(Sent::Close(self.blame(&error))),
        }
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

    /// Has the slice read into the page cache by a thread that may wait for the disk, and sends it then.
    fn warm_up(&mut self, slice: FileSlice, cx: &Context) -> Sent {
        cx.metrics.cold_reads.inc();
        self.away = Some(Away::Warming);
        match cx.reads.send(self.job(Work::Warm(slice), cx)) {
            Ok(()) => Sent::Blocked,
            Err(_) => Sent::Close(Some(CloseReason::Storage)),
        }
    }

    /// Why it could not be sent to: the peer left (no reason to give), or the file could not be read. The log says more.
    pub(super) fn blame(&mut self, error: &io::Error) -> Option<CloseReason> {
        if is_of_peer(error) {
            return None;
        }
        self.detail = error.to_string();
        Some(CloseReason::Storage)
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
            self.take_commits(&pending, cx)?;
        }
        for _ in 0..INPUTS_PER_TURN {
            if !self.readable {
                return Ok(());
            }
            // The start of a commit, at most.
            let have = self.pending.len();
            cx.scratch[..have].copy_from_slice(&self.pending);
            match self.stream.read(&mut cx.scratch[have..]) {
                Ok(Read { len: 0, more: true }) => {}
                Ok(Read { len: 0, more: false }) => {
                    self.ended = true;
                    self.readable = false;
                }
                Ok(Read { len, .. }) if commits => {
                    // Out of the reactor's hands for as long as that takes.
                    let scratch = std::mem::take(&mut cx.scratch);
                    let taken = self.take_commits(&scratch[..have + len], cx);
                    cx.scratch = scratch;
                    taken?;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(_) => return Err(self.broken(cx)),
            }
        }
        Ok(())
    }
}

fn is_beside_producers(cx: &Context) -> bool {
    let since = cx.appended_at.map(|at| cx.now.saturating_duration_since(at));
    since.is_some_and(|since| since < PRODUCERS_TIME)
}

/// Whether it is what a socket says of a peer that has left, or cannot be reached any more.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut,
    };
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | HostUnreachable
        | NetworkDown | NetworkUnreachable | NotConnected | TimedOut => true,
        // It has no kind.
        _ => Errno::from_io_error(error) == Some(Errno::HOSTDOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_cannot_be_reached_is_not_taken_for_the_disk() {
        let peer = [
            Errno::PIPE,
            Errno::CONNRESET,
            Errno::TIMEDOUT,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::NETDOWN,
            Errno::HOSTDOWN,
            Errno::CONNREFUSED,
        ];
        let not_of_peer: Vec<_> =
            peer.into_iter().filter(|errno| !is_of_peer(&(*errno).into())).collect();
        assert_eq!(not_of_peer, []);
        let disk = [Errno::IO, Errno::NOMEM, Errno::NOSPC, Errno::STALE];
        let of_peer: Vec<_> =
            disk.into_iter().filter(|errno| is_of_peer(&(*errno).into())).collect();
        assert_eq!(of_peer, []);
        assert!(!is_of_peer(&io::ErrorKind::UnexpectedEof.into()), "a file that was cut");
    }
}
