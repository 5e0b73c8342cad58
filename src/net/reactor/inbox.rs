//! What other threads tell a reactor.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use mio::Waker;
use mio::net::TcpStream;
use parking_lot::Mutex;

use super::delegate::Delivery;
use super::pulse::Heartbeat;
use super::roster::ConnectionInfo;
use super::session::Session;
use crate::broker::{WaiterId, Wake};
use crate::net::admission::{Seat, TooManyConnections};
use crate::net::admit::Admitted;
use crate::net::bounds::Bounds;
use crate::net::open::Opened;
use crate::net::quota::Quotas;

thread_local! {
    /// The reactor that this thread is, if it is one.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Names a connection of a reactor: its slot in the low half, the slot's generation in the high half, so that what is
/// meant for a closed connection never reaches its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(pub(super) u64);

impl Key {
    pub(super) fn new(slot: usize, generation: u32) -> Self {
        debug_assert!(u32::try_from(slot).is_ok());
        Self(u64::from(generation) << 32 | slot as u64 & u64::from(u32::MAX))
    }

    pub(super) fn slot(self) -> usize {
        usize::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(usize::MAX)
    }
}

/// Who is woken when a topic was deleted: whoever has to do with it. No session's key is as large.
pub(super) const DELETIONS: WaiterId = WaiterId(u64::MAX);

/// Something a reactor is told.
#[derive(Debug)]
pub(super) enum Message {
    /// A new connection, and why it is one too many, if it is.
    Accepted(TcpStream, SocketAddr, Seat, Option<TooManyConnections>),
    /// From now on this holds for connections.
    Bounds(Bounds, Arc<Quotas>),
    /// A producer whose partition belongs to this reactor.
    Moved(Box<Session>),
    /// A worker has done what a handshake asked for, of somebody who was let in.
    Opened(Key, Box<(Option<Admitted>, Opened)>),
    /// Other rules are in effect: end those who would not be let in now.
    Review,
    /// What a consumer is to be sent next is in the page cache now.
    Warmed(Key),
    /// What became of what another thread was to send to a consumer.
    Sent(Key, Delivery),
    /// Tell of so many connections at most, and whether these are all.
    List(usize, Sender<(Vec<ConnectionInfo>, bool)>),
    /// Close a connection; tell whether it was there.
    Close(Key, Sender<bool>),
    /// Finish what was received, then end; at the latest at this time.
    Stop(Instant),
}

#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) messages: Vec<Message>,
    /// Sessions for which something has happened in their partition.
    pub(super) wakes: Vec<WaiterId>,
    /// Sessions that may get memory now.
    pub(super) memory: Vec<WaiterId>,
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.wakes.is_empty() && self.memory.is_empty()
    }
}

/// The way into a reactor from other threads. The first message wakes it; those that come before it looks do not.
#[derive(Debug)]
pub(super) struct Inbox {
    reactor: usize,
    mail: Mutex<Mail>,
    waker: Waker,
    /// Whether its reactor turns.
    pub(super) heartbeat: Heartbeat,
}

impl Inbox {
    pub(super) fn new(reactor: usize, waker: Waker) -> Arc<Self> {
        Arc::new(Self { reactor, mail: Mutex::default(), waker, heartbeat: Heartbeat::new() })
    }

    /// Says that the calling thread is this inbox's reactor.
    pub(super) fn own(&self) {
        CURRENT.set(Some(self.reactor));
    }

    pub(super) fn send(&self, message: Message) {
        self.put(|mail| mail.messages.push(message));
    }

    fn put(&self, add: impl FnOnce(&mut Mail)) {
        let was_empty = {
            let mut mail = self.mail.lock();
            let was_empty = mail.is_empty();
            add(&mut mail);
            was_empty
        };
        // A reactor looks into its own inbox before it sleeps.
        if was_empty && CURRENT.get() != Some(self.reactor) {
            self.rouse();
        }
    }

    /// Has the reactor turn at once if it sleeps.
    pub(super) fn rouse(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(reactor = self.reactor, %error, "a reactor could not be woken");
        }
    }

    /// Takes the mail, leaving the empty `mail` in its place.
    pub(super) fn take(&self, mail: &mut Mail) {
        debug_assert!(mail.is_empty());
        std::mem::swap(&mut *self.mail.lock(), mail);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mail.lock().is_empty()
    }
}

impl Wake for Inbox {
    fn wake(&self, waiter: WaiterId) {
        self.put(|mail| mail.wakes.push(waiter));
    }
}

/// The inbox as what the memory budget knows of it: a session can wait for memory and for its partition at once, and must
/// know which of them it was woken by.
#[derive(Debug)]
pub(super) struct MemoryWake(pub(super) Arc<Inbox>);

impl Wake for MemoryWake {
    fn wake(&self, waiter: WaiterId) {
        self.0.put(|mail| mail.memory.push(waiter));
    }
}
