//! Sending much to a consumer by another thread, in place of the reactor.
//!
//! `sendfile` takes the caller's time: it waits for the disk where the page cache lacks what is to be sent, it copies, and over
//! loopback it does the receiver's work as well. So what a consumer is sent that catches up is given away, if it is cold, or if
//! the reactor has producers: their acks wait neither for the disk nor for the copy. A consumer at the tail is served by the
//! reactor, and so is one that reads what is cached while nobody produces.
//!
//! A slice that is given away has been limited already, by the published end, by damage and by where the consumer ends. Until it
//! is taken back its cursor stands before it and nothing else is sent on its socket, so all that is known of frames' boundaries
//! holds as it does when the reactor sends. Nor is the reactor told meanwhile that the socket is writable: for an ack, being woken
//! too often is as bad as being busy.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::Reactor;
use super::context::Context;
use super::inbox::{Inbox, Key};
use super::send::Sent;
use super::session::{Role, Session, Verdict};
use crate::broker::Partition;
use crate::metrics::{CloseReason, Metrics};
use crate::net::sys::send_file;
use crate::storage::file_slice::FileSlice;

/// A consumer that has so many bytes of its segment before it catches up: more than two of the largest runs that are
/// appended at once.
pub(super) const BULK_MIN: u64 = 512 * 1024;

/// Bytes that are given away at once. The reactor is woken once for each of them: rarely, beside what producers ask for.
pub(super) const PARCEL_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of one parcel that are sent before others of the thread get their turn.
const BYTES_PER_TURN: u64 = 1024 * 1024;

/// Bytes that one `sendfile` is asked for: what the system moves at once. Between two of them the thread may lose the
/// processor to a reactor, whatever the system does within a call.
const PIECE: u64 = 64 * 1024;

/// Bytes that the disk is to be ahead of the socket.
const AHEAD: u64 = 2 * 1024 * 1024;

/// What another thread does for a session.
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
    /// What is left of it.
    slice: FileSlice,
    sent: u64,
    /// Bytes from here on that the disk was asked for; `None` if they are in the page cache.
    ahead: Option<u64>,
    /// A descriptor of its own: that of a session which is closed meanwhile may become another connection's.
    socket: TcpStream,
    partition: Arc<Partition>,
    key: Key,
    inbox: Arc<Inbox>,
}

/// How far a parcel has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// It can go on.
    Turn,
    /// The socket takes no more now.
    Full,
    /// All of it was sent.
    Whole,
    Failed(io::Error),
}

/// What became of a parcel.
#[derive(Debug)]
pub(super) struct Delivery {
    sent: u64,
    progress: Progress,
}

/// A second descriptor of the socket. Fails if the process has as many as it may have.
pub(super) fn duplicate(socket: &TcpStream) -> io::Result<TcpStream> {
    let descriptor = socket.as_fd().try_clone_to_owned()?;
    Ok(TcpStream::from_std(descriptor.into()))
}

impl Parcel {
    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends until all is sent, the socket is full, or the turn is over. May wait for the disk. What is sent is counted here: the
    /// session may be gone.
    pub(super) fn send(&mut self, metrics: &Metrics) -> Progress {
        self.read_ahead();
        let mut left = BYTES_PER_TURN;
        while left > 0 {
            if self.slice.is_empty() {
                return Progress::Whole;
            }
            match send_file(&self.socket, &self.slice.first(PIECE)) {
                Ok(bytes) => {
                    let bytes = bytes as u64;
                    self.slice.advance(bytes);
                    self.sent += bytes;
                    self.ahead = self.ahead.map(|ahead| ahead.saturating_sub(bytes));
                    left = left.saturating_sub(bytes);
                    metrics.bytes_out.add(bytes);
                    self.partition.traffic().bytes_out.add(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Full,
                Err(error) => return Progress::Failed(error),
            }
        }
        Progress::Turn
    }

    /// Has the disk work while the socket does.
    fn read_ahead(&mut self) {
        let Some(ahead) = self.ahead.filter(|ahead| *ahead < BYTES_PER_TURN) else { return };
        let mut next = self.slice.clone();
        next.advance(ahead);
        let next = next.first(AHEAD);
        if !next.is_empty() {
            next.read_ahead();
            self.ahead = Some(ahead + next.len());
        }
    }

    /// Closes the descriptor; who is to be told, and what.
    pub(super) fn end(self, progress: Progress) -> (Key, Arc<Inbox>, Delivery) {
        (self.key, self.inbox, Delivery { sent: self.sent, progress })
    }
}

impl Session {
    /// Gives the slice to a thread that sends it.
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
        let parcel = Parcel {
            slice,
            sent: 0,
            ahead: cold.then_some(0),
            socket,
            partition: Arc::clone(partition),
            key: self.key,
            inbox: Arc::clone(&cx.inbox),
        };
        if let Err(error) = self.watch(&cx.registry, Interest::READABLE) {
            // Too many wake-ups, and nothing worse.
            tracing::debug!(%error, "a socket that another thread sends on is still watched");
        }
        self.away = Some(Away::Sending);
        // Read ahead is not read: what the socket does not take is looked at again.
        self.warm = 0;
        cx.post.give(parcel);
        Sent::Blocked
    }

    /// Goes on behind what was sent for it.
    fn returned(&mut self, delivery: &Delivery, cx: &Context) -> Verdict {
        self.away = None;
        if let Role::Consumer { cursor, .. } = &mut self.role {
            cursor.advance(delivery.sent);
        }
        if delivery.sent > 0 {
            self.sent_at = cx.now;
        } else if self.is_stuck(cx.now, &cx.bounds) {
            return Verdict::Close(Some(CloseReason::WriteTimeout));
        }
        // What is writable by now is told again.
        self.writable = matches!(delivery.progress, Progress::Whole | Progress::Turn);
        if self.watch(&cx.registry, Interest::READABLE | Interest::WRITABLE).is_err() {
            return Verdict::Close(None);
        }
        match &delivery.progress {
            // It was broken off, by an end that has its own reason.
            Progress::Failed(_) if self.closing.is_some() => Verdict::Again,
            Progress::Failed(error) => Verdict::Close(self.blame(error)),
            _ => Verdict::Again,
        }
    }

    fn watch(&mut self, registry: &Registry, interest: Interest) -> io::Result<()> {
        registry.reregister(self.stream.socket_mut(), token(self.key), interest)
    }

    /// The session ends: what is being sent for it is broken off. Closing alone would leave the other descriptor.
    pub(super) fn break_off(&mut self, cx: &Context) {
        if self.away == Some(Away::Sending) {
            let socket = self.stream.socket_mut();
            let _ = socket.shutdown(Shutdown::Write);
            let _ = cx.registry.deregister(socket);
        }
    }
}

/// The token of a session in its reactor's poll.
pub(super) fn token(key: Key) -> Token {
    Token(usize::try_from(key.0).unwrap_or(usize::MAX))
}

impl Reactor {
    /// Another thread has done what it could for a session. It gets its turn behind what producers have sent.
    pub(super) fn take_back(&mut self, key: Key, delivery: &Delivery) {
        let session = self.sessions.get_mut(key.slot()).filter(|session| session.key == key);
        if let Some(session) = session {
            let verdict = session.returned(delivery, &self.cx);
            self.apply(key, verdict);
        }
    }
}
