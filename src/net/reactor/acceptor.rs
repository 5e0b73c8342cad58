//! Accepting connections, and going on to do so when descriptors run out.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::inbox::{Inbox, Message};
use crate::metrics::Metrics;
use crate::net::admission::{Admission, Entry, TooManyConnections};
use crate::net::status;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// Pause after accepting failed for want of something: without it, a listener that stays ready would spin.
const BACK_OFF: Duration = Duration::from_millis(50);

/// What has not happened for so long is over. Less would not do: at a limit each connection that ends makes room for another.
const QUIET: Duration = Duration::from_mins(1);

/// The thread that accepts; it hands connections to the reactors in turn.
#[derive(Debug)]
pub(super) struct Acceptor {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Acceptor {
    pub(super) fn start(
        mut listener: TcpListener,
        reactors: Vec<Arc<Inbox>>,
        admission: Arc<Admission>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut accepting = Accepting {
            poll,
            listener,
            reactors,
            admission,
            metrics,
            next: 0,
            reserve: reserve(),
            refusing: Spell::default(),
            turning_away: Spell::default(),
            stop: Arc::clone(&stop),
        };
        let thread =
            thread::Builder::new().name("acceptor".to_owned()).spawn(move || accepting.run())?;
        Ok(Self { stop, waker, thread })
    }

    /// Stops accepting and closes the listener.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor could not be woken");
            return;
        }
        let _ = self.thread.join();
    }
}

/// When something that goes on for a while has happened last.
#[derive(Debug, Default)]
struct Spell(Option<Instant>);

impl Spell {
    /// It happens now: whether it does again after a quiet time.
    fn begins(&mut self, now: Instant) -> bool {
        let last = self.0.replace(now);
        last.is_none_or(|last| now.saturating_duration_since(last) >= QUIET)
    }
}

struct Accepting {
    poll: Poll,
    listener: TcpListener,
    reactors: Vec<Arc<Inbox>>,
    admission: Arc<Admission>,
    metrics: Arc<Metrics>,
    next: usize,
    /// A descriptor to give up when there are none left, so that a waiting peer can be turned away.
    reserve: Option<File>,
    /// It is out of something: said once, not for each peer.
    refusing: Spell,
    /// Connections are closed at once: the same.
    turning_away: Spell,
    stop: Arc<AtomicBool>,
}

impl Accepting {
    fn run(&mut self) {
        let mut events = Events::with_capacity(4);
        while !self.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Ok(()) => self.accept_all(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "waiting for connections failed");
                    thread::sleep(BACK_OFF);
                }
            }
        }
    }

    /// Accepts until nobody waits: readiness is told once.
    fn accept_all(&mut self) {
        while !self.stop.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok((stream, peer)) => self.hand_over(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_want(&error) => self.back_off(&error),
                // Of the connection that was being accepted, and of nobody else.
                Err(error) => tracing::debug!(%error, "a connection was not accepted"),
            }
        }
    }

    fn hand_over(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.metrics.accepted.inc();
        let (seat, unwanted) = match self.admission.enter(peer.ip()) {
            Entry::Admitted(seat) => (seat, None),
            Entry::Refused(seat, error) => (seat, Some(error)),
            Entry::TurnedAway(error) => return self.turn_away(peer, error),
        };
        if let Some(reactor) = self.reactors.get(self.next) {
            reactor.send(Message::Accepted(stream, peer, seat, unwanted));
        }
        self.next = (self.next + 1) % self.reactors.len().max(1);
    }

    /// One too many, while as many as may be are being told that they are.
    fn turn_away(&mut self, peer: SocketAddr, error: TooManyConnections) {
        self.metrics.closed.inc(status::reason_of_admission(error));
        if self.turning_away.begins(Instant::now()) {
            tracing::warn!(%peer, %error, "connections are closed at once from now on");
        } else {
            tracing::debug!(%peer, %error, "connection closed at once");
        }
    }

    /// Out of descriptors or memory: turns one waiting peer away, so that it does not hang, and pauses.
    fn back_off(&mut self, error: &io::Error) {
        self.metrics.accept_errors.inc();
        if self.refusing.begins(Instant::now()) {
            tracing::warn!(%error, "cannot accept connections for now");
        }
        if self.reserve.take().is_some() {
            drop(self.listener.accept());
        }
        thread::sleep(BACK_OFF);
        self.reserve = reserve();
    }
}

/// Errors that say that the process or the machine is out of something. Others are the connection's own.
fn is_want(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    errno.is_some_and(|errno| wants.contains(&errno))
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_said_once() {
        let (mut spell, start) = (Spell::default(), Instant::now());
        // For two hours, and once more.
        let times = (0..7200).chain([7259]).map(|second| start + Duration::from_secs(second));
        assert_eq!(times.filter(|now| spell.begins(*now)).count(), 2);
    }
}
