//! Reactors: one thread each, with its own poll and its own connections.
//!
//! A connection begins on whichever reactor is next. A producer moves to the reactor of its partition, so that a
//! partition's appends do not contend; a consumer stays where it is. Registration is edge-triggered: each session
//! remembers what its socket is ready for, and is driven until it is not or its turn is over.

mod acceptor;
mod commits;
mod context;
mod control;
mod courier;
mod delegate;
mod gather;
mod inbox;
mod pace;
mod plane;
mod pulse;
mod receive;
mod review;
mod roster;
mod send;
mod session;
mod sweep;
mod transport;
mod waiting;
mod worker;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use self::context::Context;
use self::inbox::{Key, Mail, Message};
use self::session::{Ending, LINGER_TIME, Role, Session, Verdict};
use self::transport::Transport;
use super::admission::{Seat, TooManyConnections};
use super::connection::Connection;
use super::sys;
use crate::metrics::{CloseReason, TlsFailure};
use crate::model::limits;

pub use self::plane::{DataPlane, ListenError, Listener, StopReport};
pub use self::pulse::Pulse;
pub use self::roster::{ConnectionId, ConnectionInfo, Connections, InvalidConnectionId, Listed};
#[doc(hidden)]
pub use self::transport::Endpoint;

const WAKER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;

/// Writes of what one session brings before others get their turn.
const FLUSHES_PER_TURN: usize = 4;

/// Turns of a producer at the end: more than its socket holds, if it sends no more.
const FINISH_TURNS: usize = 64;

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "a token holds a key");

/// One reactor.
struct Reactor {
    poll: Poll,
    sessions: Slab<Session>,
    generation: u32,
    /// Sessions that can go on but have had their turn.
    again: VecDeque<Key>,
    /// When all connections were looked through last.
    swept: Instant,
    /// When to end, with whatever is still open.
    stop_at: Option<Instant>,
    inboxes: Vec<std::sync::Arc<inbox::Inbox>>,
    /// Sessions whose acks could not be sent; kept for its memory.
    failed: Vec<Key>,
    cx: Context,
}

impl Reactor {
    /// Runs until it is told to stop; returns the connections it had to break off.
    fn run(mut self) -> usize {
        self.cx.inbox.own();
        let mut events = Events::with_capacity(EVENTS);
        let mut mail = Mail::default();
        // When what is under way began.
        let mut turn = Instant::now();
        loop {
            self.cx.inbox.heartbeat.beat();
            self.read_mail(&mut mail);
            self.take_turns();
            self.flush_gathered();
            if self.is_done() {
                return self.sessions.len();
            }
            let now = Instant::now();
            self.cx.metrics.reactor_turn_duration.observe(now - turn);
            if let Err(error) = self.poll.poll(&mut events, self.timeout(now))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(reactor = self.cx.reactor, %error, "waiting for events failed");
            }
            turn = Instant::now();
            self.cx.now = turn;
            for event in &events {
                self.event(event);
            }
            self.end_pauses();
            self.expire_handshakes();
            self.expire_stalls();
            self.expire_lingers();
            self.send_heartbeats();
            self.sweep();
        }
    }

    fn is_done(&self) -> bool {
        let is_empty = || self.sessions.is_empty() && self.cx.inbox.is_empty();
        self.cx.stopping && (self.is_late() || is_empty())
    }

    /// Whether the time to end is over.
    fn is_late(&self) -> bool {
        self.stop_at.is_some_and(|at| Instant::now() >= at)
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        if !self.again.is_empty() || !self.cx.inbox.is_empty() {
            return Some(Duration::ZERO);
        }
        let first = self.cx.deadlines.first().map(|(at, _)| *at);
        let stall = self.cx.stalls.front().map(|(at, ..)| *at);
        let linger = self.cx.lingers.front().map(|(at, _)| *at);
        let beat = self.cx.heartbeats.first().map(|(at, _)| *at);
        let pause = self.cx.pauses.first().map(|(at, _)| *at);
        let times = [first, stall, linger, beat, pause, self.sweep_at(), self.stop_at];
        let next = times.into_iter().flatten().min();
        next.map(|at| at.saturating_duration_since(now))
    }

    fn event(&mut self, event: &Event) {
        if event.token() == WAKER {
            return;
        }
        let key = Key(event.token().0 as u64);
        if let Some(session) = self.session(key) {
            // Errors and hang-ups show when reading.
            session.hung_up |= event.is_read_closed() || event.is_error();
            session.readable |= event.is_readable() || session.hung_up;
            if event.is_writable() || event.is_error() {
                session.writable = true;
                session.blocked_since = None;
            }
            if event.is_error() && session.is_opening() && session.closing.is_none() {
                // It is not read meanwhile: nothing else shows that it is gone.
                return self.close(key, None);
            }
            // One that waits for its turn gets no extra one.
            if !session.queued {
                self.drive(key);
                self.trim_handshakes();
            }
        }
    }

    fn session(&mut self, key: Key) -> Option<&mut Session> {
        self.sessions.get_mut(key.slot()).filter(|session| session.key == key)
    }

    fn read_mail(&mut self, mail: &mut Mail) {
        self.cx.inbox.take(mail);
        for message in mail.messages.drain(..) {
            match message {
                Message::Accepted(stream, peer, seat, unwanted) => {
                    self.accepted(stream, peer, seat, unwanted);
                }
                Message::Bounds(bounds, quotas) => {
                    (self.cx.bounds, self.cx.quotas) = (bounds, quotas);
                    let Self { sessions, cx, .. } = self;
                    sessions.iter_mut().for_each(|(_, session)| session.take_quota(cx));
                }
                Message::Moved(session) => self.insert(*session),
                Message::Opened(key, result) => {
                    if let Some(session) =
                        self.sessions.get_mut(key.slot()).filter(|s| s.key == key)
                    {
                        let (admitted, opened) = *result;
                        session.admitted = session.admitted.take().or(admitted);
                        let verdict = session.opened(opened, &mut self.cx);
                        self.apply(key, verdict);
                    }
                }
                Message::Warmed(key) => {
                    if let Some(session) = self.session(key) {
                        session.away = None;
                        self.drive(key);
                    }
                }
                Message::Review => self.review(),
                Message::Sent(key, delivery) => self.take_back(key, &delivery),
                Message::List(max, to) => {
                    // Whoever has asked may have given up.
                    let _ = to.send(self.list(max));
                }
                Message::Close(key, to) => {
                    let _ = to.send(self.close_wanted(key));
                }
                Message::Stop(at) => self.stop(at),
            }
        }
        for waiter in mail.wakes.drain(..) {
            if waiter == inbox::DELETIONS {
                self.drive_deleted();
                continue;
            }
            let key = Key(waiter.0);
            if let Some(session) = self.session(key) {
                session.woken();
                self.drive(key);
            }
        }
        for waiter in mail.memory.drain(..) {
            let key = Key(waiter.0);
            if let Some(session) = self.session(key) {
                session.memory();
                self.drive(key);
            }
        }
    }

    /// A topic was deleted: those who have to do with it are told.
    fn drive_deleted(&mut self) {
        let is_deleted =
            |session: &Session| session.partition().is_some_and(|partition| partition.is_deleted());
        let sessions = self.sessions.iter().map(|(_, session)| session);
        let keys: Vec<Key> =
            sessions.filter(|session| is_deleted(session)).map(|session| session.key).collect();
        for key in keys {
            self.drive(key);
            let session = self.sessions.get_mut(key.slot()).filter(|session| session.key == key);
            if let Some(session) = session {
                // One that takes nothing would keep a file of the topic for ever.
                session.linger(&mut self.cx);
            }
        }
    }

    /// Gives each session that can go on one turn.
    fn take_turns(&mut self) {
        for _ in 0..self.again.len() {
            let Some(key) = self.again.pop_front() else { return };
            let Some(session) = self.session(key) else { continue };
            session.queued = false;
            if matches!(session.role, Role::Consumer { .. }) {
                // It has much to send. What producers have sent does not wait for that.
                self.flush_gathered();
            }
            self.drive(key);
        }
    }

    fn accepted(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        seat: Seat,
        unwanted: Option<TooManyConnections>,
    ) {
        if let Err(error) = sys::configure(&stream, &self.cx.bounds) {
            // The peer may be gone already; reading will tell.
            tracing::debug!(%peer, %error, "socket options not set");
        }
        self.cx.metrics.connections.inc();
        let tls = self.cx.tls.as_ref().map(|tls| (tls.mode(), tls.config()));
        let stream = Transport::new(stream, tls);
        let mut session = Session::new(stream, peer, Connection::new(self.cx.bounds.frames));
        (session.seat, session.unwanted) = (Some(seat), unwanted);
        self.insert(session);
    }

    /// Takes a new session, or one from another reactor.
    fn insert(&mut self, mut session: Session) {
        self.generation = self.generation.wrapping_add(1);
        let entry = self.sessions.vacant_entry();
        let key = Key::new(entry.key(), self.generation);
        session.key = key;
        // Readiness from before the registration is told again.
        session.readable = true;
        session.writable = true;
        session.queued = false;
        self.cx.pauses.extend(session.paused.map(|until| (until, key.0)));
        let token = delegate::token(key);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if session.connection.in_handshake() {
            let deadline = Instant::now() + self.cx.bounds.handshake;
            session.deadline = Some(deadline);
            self.cx.deadlines.insert((deadline, key.0));
        }
        let registered =
            self.poll.registry().register(session.stream.socket_mut(), token, interest);
        session.review_if_stale(&mut self.cx);
        entry.insert(session);
        self.cx.pending_max = context::pending_max(self.sessions.len());
        if let Err(error) = registered {
            tracing::warn!(%error, "connection not registered");
            return self.close(key, None);
        }
        self.drive(key);
        self.trim_handshakes();
        if self.cx.stopping {
            self.finish(key);
        }
    }

    fn drive(&mut self, key: Key) {
        for _ in 0..FLUSHES_PER_TURN {
            let Some(session) = self.sessions.get_mut(key.slot()).filter(|s| s.key == key) else {
                return;
            };
            match session.drive(&mut self.cx) {
                Verdict::Flush => self.flush_gathered(),
                Verdict::Close(reason) if !self.cx.gather.is_empty() => {
                    // It may have gathered frames: they are answered first.
                    session.closing.get_or_insert(Ending(reason));
                    self.flush_gathered();
                }
                verdict => return self.apply(key, verdict),
            }
        }
        self.queue(key);
    }

    /// Writes what was gathered and sends the acks that are due.
    fn flush_gathered(&mut self) {
        let Self { sessions, cx, failed, again, .. } = self;
        let Context { gather, wake, spares, now, appended_at, .. } = cx;
        let span = gather.span(|key| {
            sessions
                .get(key.slot())
                .filter(|session| session.key == key)
                .map(|session| &session.span)
        });
        let appended = gather.flush(&span, |key, acks, outcome| {
            let session = sessions.get_mut(key.slot()).filter(|s| s.key == key);
            let Some(session) = session else { return };
            if session.acknowledge(acks, outcome, wake, spares).is_err() {
                failed.push(key);
            } else if session.closing.is_some() && !std::mem::replace(&mut session.queued, true) {
                // It was refused, and is to be told: nothing else may come that gives it a turn.
                again.push_back(key);
            }
        });
        if appended {
            *now = Instant::now();
            *appended_at = Some(*now);
        }
        while let Some(key) = self.failed.pop() {
            self.close(key, None);
        }
    }

    fn apply(&mut self, key: Key, verdict: Verdict) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Again | Verdict::Flush => self.queue(key),
            Verdict::Close(reason) => self.close(key, reason),
            Verdict::Move(reactor) => self.hand_over(key, reactor),
        }
    }

    fn queue(&mut self, key: Key) {
        if let Some(session) = self.session(key)
            && !std::mem::replace(&mut session.queued, true)
        {
            self.again.push_back(key);
        }
    }

    fn close(&mut self, key: Key, reason: Option<CloseReason>) {
        if self.session(key).is_none() {
            return;
        }
        let mut session = self.sessions.remove(key.slot());
        session.leave(&mut self.cx);
        session.stream.say_end();
        self.count_tls_failure(&session, reason);
        self.cx.metrics.ended(session.role.counted());
        let peer = session.peer;
        let _in_span = session.span.enter();
        if let Some(reason) = reason {
            if reason == CloseReason::WriteTimeout {
                sys::forget_unsent(session.stream.socket());
            }
            self.cx.metrics.closed.inc(reason);
            let (label, detail) = (reason.label(), &session.detail);
            // What peers do all day is for whoever looks for it; the rest is for the operator, within limits.
            let quiet = match reason {
                CloseReason::Truncated
                | CloseReason::HandshakeTimeout
                // Told already, for those who audit it.
                | CloseReason::Unauthenticated
                | CloseReason::Unauthorized => true,
                // Clients ask for one that is not there: version 1.1 answers how many there are.
                CloseReason::UnknownPartition => session.connection.speaks_1_1(),
                _ => false,
            };
            if quiet || !self.cx.warnings.allow() {
                tracing::debug!(%peer, reason = label, detail, "connection closed by the broker");
            } else {
                tracing::warn!(%peer, reason = label, detail, "connection closed by the broker");
            }
        } else {
            tracing::debug!(%peer, "connection ended");
        }
    }

    /// Counts a TLS handshake that came to nothing.
    fn count_tls_failure(&self, session: &Session, reason: Option<CloseReason>) {
        let failure = session.stream.failure().map(|failure| failure.kind);
        let kind = match (failure, reason) {
            (Some(TlsFailure::Plaintext), _) => TlsFailure::Plaintext,
            _ if !session.stream.in_handshake() => return,
            (Some(kind), _) => kind,
            (None, Some(CloseReason::HandshakeTimeout)) => TlsFailure::Timeout,
            (None, _) => TlsFailure::Disconnected,
        };
        self.cx.metrics.tls_handshake_failures.inc(kind);
    }

    fn hand_over(&mut self, key: Key, reactor: usize) {
        let mut session = self.sessions.remove(key.slot());
        if let Some(until) = session.paused {
            self.cx.pauses.remove(&(until, key.0));
        }
        let deregistered = self.poll.registry().deregister(session.stream.socket_mut());
        match (deregistered, self.inboxes.get(reactor)) {
            (Ok(()), Some(inbox)) => inbox.send(Message::Moved(Box::new(session))),
            _ => self.cx.metrics.ended(session.role.counted()),
        }
    }

    fn expire_handshakes(&mut self) {
        let now = self.cx.now;
        while let Some(&(at, key)) = self.cx.deadlines.first() {
            if at > now {
                break;
            }
            self.cx.deadlines.pop_first();
            self.give_up_handshake(Key(key));
        }
    }

    /// Gives up those that have sent a part, as far as they are too many. Not later: a turn can bring very many.
    fn trim_handshakes(&mut self) {
        while self.cx.partial_handshakes.len() > limits::PARTIAL_HANDSHAKES_MAX {
            let Some((_, key)) = self.cx.partial_handshakes.pop_first() else { return };
            self.give_up_handshake(Key(key));
        }
    }

    fn give_up_handshake(&mut self, key: Key) {
        // One that is being ended is among the lingers.
        let in_handshake =
            |session: &mut Session| session.connection.in_handshake() && session.closing.is_none();
        if self.session(key).is_some_and(in_handshake) {
            self.close(key, Some(CloseReason::HandshakeTimeout));
        }
    }

    /// Takes memory from those who hold it without using it, where others wait for it.
    fn expire_stalls(&mut self) {
        let now = self.cx.now;
        while let Some(&(at, key, before)) = self.cx.stalls.front() {
            if at > now {
                break;
            }
            self.cx.stalls.pop_front();
            let contended = self.cx.budget.is_contended();
            let Some(session) = self.session(key) else { continue };
            let progress = session.progress;
            // One that is held by the disk, or by its quota, cannot help it.
            let held = session.held || session.paused.is_some();
            if session.large.is_none() {
                session.watched = false;
            } else if contended && !held && progress < before + receive::STALL_BYTES {
                self.close(key, Some(CloseReason::Stalled));
            } else {
                self.cx.stalls.push_back((now + receive::STALL_TIME, key, progress));
            }
        }
    }

    /// Ends those who do not take their last answers, or anything of a deleted topic.
    fn expire_lingers(&mut self) {
        let now = self.cx.now;
        while let Some((_, key)) = self.cx.lingers.pop_front_if(|(at, _)| *at <= now) {
            let Some(session) = self.session(key) else { continue };
            let deleted = session.partition().is_some_and(|partition| partition.is_deleted());
            match session.closing {
                None if deleted && session.sent_at + LINGER_TIME > now => {
                    self.cx.lingers.push_back((now + LINGER_TIME, key));
                }
                None if deleted => self.close(key, Some(CloseReason::TopicDeleted)),
                Some(Ending(reason)) if session.draining || session.is_sending() => {
                    self.close(key, reason);
                }
                // It has taken what it was sent. The rest waits for the disk.
                _ => session.lingers = false,
            }
        }
    }

    /// Tells idle consumers that all is well.
    fn send_heartbeats(&mut self) {
        while let Some(&(at, key)) = self.cx.heartbeats.first() {
            if at > self.cx.now {
                break;
            }
            self.cx.heartbeats.pop_first();
            let key = Key(key);
            let session = self.sessions.get_mut(key.slot()).filter(|session| session.key == key);
            if let Some(Err(verdict)) = session.map(|session| session.beat(&mut self.cx)) {
                self.apply(key, verdict);
            }
        }
    }

    /// Begins to end.
    fn stop(&mut self, at: Instant) {
        self.cx.stopping = true;
        self.stop_at = Some(at);
        let keys: Vec<Key> = self.sessions.iter().map(|(_, session)| session.key).collect();
        for key in keys {
            self.finish(key);
        }
    }

    /// Takes what a producer has sent, and closes the session once its answers are out.
    fn finish(&mut self, key: Key) {
        for _ in 0..FINISH_TURNS {
            let is_late = self.is_late();
            let Some(session) = self.session(key) else { return };
            let waits = session.is_sending() || session.held;
            if waits || !matches!(session.role, Role::Producer(_)) {
                break;
            }
            if is_late {
                // Those that send as fast as they are read do not hold up the end: it is broken off.
                return;
            }
            // Whether or not it was told: the socket says when it is empty.
            session.readable = true;
            self.drive(key);
            self.flush_gathered();
            if self.session(key).is_some_and(|session| !session.readable) {
                break;
            }
        }
        let session = self.sessions.get_mut(key.slot()).filter(|session| session.key == key);
        let Some(session) = session else { return };
        session.say_goodbye(&mut self.cx);
        match (session.owes_nothing(), session.farewell.is_empty()) {
            (true, true) => self.close(key, None),
            (owes_nothing, _) => {
                session.closing.get_or_insert(Ending(None));
                if owes_nothing {
                    self.drive(key);
                }
            }
        }
    }
}
