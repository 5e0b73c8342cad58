//! Sending much to a consumer by a reader thread, in place of the reactor.
//!
//! `sendfile` takes the caller's time: it waits for the disk where the page cache lacks what is to be sent, it copies, and over
//! loopback it does the receiver's work as well. So what a consumer is sent that catches up is given away, if it is cold, or if
//! the reactor has producers: their acks wait neither for the disk nor for the copy. A consumer at the tail is served by the
//! reactor, and so is one that reads what is cached while nobody produces.
//!
//! A slice that is given away has been limited already, by the published end, by damage and by where the consumer ends. Until it
//! is taken back its cursor stands before it and nothing else is sent on its socket, so all that is known of frames' boundaries
//! holds as it does when the reactor sends.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mio::net::TcpStream;

use super::Reactor;
use super::context::Context;
use super::inbox::Key;
use super::send::{Sent, blame};
use super::session::{Role, Session, Verdict};
use super::worker::{Job, Work};
use crate::broker::Partition;
use crate::metrics::{CloseReason, Metrics};
use crate::net::sys::send_file;
use crate::storage::file_slice::FileSlice;

/// A consumer that has so many bytes of its segment before it catches up: more than two of the largest runs that are
/// appended at once.
pub(super) const BULK_MIN: u64 = 512 * 1024;

/// Bytes that one `sendfile` of a reader thread is asked for. Between two of them the thread may lose the processor to a reactor,
/// and looks whether it is to end.
const PIECE: u64 = 128 * 1024;

/// What a reader thread does for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// It reads into the page cache what is to be sent next.
    Warming,
    /// It sends.
    Sending,
}

/// A slice on its way to a consumer.
#[derive(Debug)]
pub(super) struct Parcel {
    slice: FileSlice,
    /// A descriptor of its own: that of a session which is closed meanwhile may become another connection's.
    socket: TcpStream,
    partition: Arc<Partition>,
    /// It is to be read from the disk.
    cold: bool,
}

/// What became of a parcel.
#[derive(Debug)]
pub(super) struct Delivery {
    sent: u64,
    stopped: Stopped,
}

#[derive(Debug)]
enum Stopped {
    /// All of it was sent.
    Whole,
    /// The socket took no more.
    Full,
    Failed(io::Error),
}

/// A second descriptor of the socket. Fails if the process has as many as it may have.
pub(super) fn duplicate(socket: &TcpStream) -> io::Result<TcpStream> {
    let descriptor = socket.as_fd().try_clone_to_owned()?;
    Ok(TcpStream::from_std(descriptor.into()))
}

impl Parcel {
    /// Sends until all is sent, the socket is full, or the broker ends. What is sent is counted here: the session may be gone.
    pub(super) fn deliver(mut self, metrics: &Metrics, over: &AtomicBool) -> Delivery {
        if self.cold {
            self.slice.read_ahead();
        }
        let mut sent = 0;
        let stopped = loop {
            if self.slice.is_empty() || over.load(Ordering::Relaxed) {
                break Stopped::Whole;
            }
            match send_file(&self.socket, &self.slice.first(PIECE)) {
                Ok(bytes) => {
                    let bytes = bytes as u64;
                    self.slice.advance(bytes);
                    sent += bytes;
                    metrics.bytes_out.add(bytes);
                    self.partition.traffic().bytes_out.add(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Stopped::Full,
                Err(error) => break Stopped::Failed(error),
            }
        };
        Delivery { sent, stopped }
    }
}

impl Session {
    /// Gives the slice to a reader thread.
    pub(super) fn delegate(
        &mut self,
        slice: FileSlice,
        socket: TcpStream,
        cold: bool,
        cx: &Context,
    ) -> Sent {
        let Role::Consumer { partition, .. } = &self.role else { return Sent::Close(None) };
        cx.metrics.delegated_sends.inc();
        if cold {
            cx.metrics.cold_reads.inc();
        }
        let parcel = Parcel { slice, socket, partition: Arc::clone(partition), cold };
        self.away = Some(Away::Sending);
        // Read ahead is not read: what the socket does not take is looked at again.
        self.warm = 0;
        // From here on it means that the socket became writable again. That may be before it was full: one try too many.
        self.writable = false;
        let job = Job { work: Work::Send(parcel), key: self.key, inbox: Arc::clone(&cx.inbox) };
        match cx.reads.send(job) {
            Ok(()) => Sent::Blocked,
            Err(_) => Sent::Close(Some(CloseReason::Storage)),
        }
    }

    /// Goes on behind what was sent for it.
    fn returned(&mut self, delivery: &Delivery, now: Instant) -> Verdict {
        self.away = None;
        if let Role::Consumer { cursor, .. } = &mut self.role {
            cursor.advance(delivery.sent);
        }
        if delivery.sent > 0 {
            self.sent_at = now;
        }
        match &delivery.stopped {
            Stopped::Whole => self.writable = true,
            Stopped::Full => {}
            Stopped::Failed(error) => return Verdict::Close(blame(error)),
        }
        Verdict::Again
    }

    /// The session ends: what is being sent for it is broken off. Closing alone would leave the thread's descriptor.
    pub(super) fn break_off(&self) {
        if self.away == Some(Away::Sending) {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

impl Reactor {
    /// A reader thread has done what it could for a session. It gets its turn behind what producers have sent.
    pub(super) fn take_back(&mut self, key: Key, delivery: &Delivery) {
        let now = self.cx.now;
        if let Some(session) = self.session(key) {
            let verdict = session.returned(delivery, now);
            self.apply(key, verdict);
        }
    }
}
