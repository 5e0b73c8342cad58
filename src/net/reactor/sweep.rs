//! A look through all connections now and then, for those who have been silent or have taken nothing for too long.
//!
//! These times are long and need not be exact. So nobody has a timer, what a connection does costs no more than noting
//! when, and other limits hold for connections that are there already.

use std::time::{Duration, Instant};

use super::Reactor;
use super::inbox::Key;
use super::session::{Role, Session};
use crate::metrics::CloseReason;
use crate::net::bounds::Bounds;

/// What a look has found.
enum Found {
    /// Silent for too long.
    Idle,
    /// Has taken nothing for too long, as far as is known.
    Stuck,
}

impl Reactor {
    /// When the next look is due.
    pub(super) fn sweep_at(&self) -> Option<Instant> {
        let every = self.cx.bounds.look_every().filter(|_| !self.sessions.is_empty())?;
        Some(self.swept + every)
    }

    /// Looks through the connections, if it is time.
    pub(super) fn sweep(&mut self) {
        let now = self.cx.now;
        if self.sweep_at().is_none_or(|at| at > now) {
            return;
        }
        self.swept = now;
        let Self { sessions, cx, .. } = self;
        let found = |session: &mut Session| Some((session.key, session.look(now, &cx.bounds)?));
        let found: Vec<(Key, Found)> =
            sessions.iter_mut().filter_map(|(_, session)| found(session)).collect();
        for (key, found) in found {
            match found {
                Found::Idle => self.close(key, Some(CloseReason::IdleTimeout)),
                Found::Stuck => self.try_stuck(key),
            }
        }
    }

    /// Readiness is told only once a good part of a socket's buffer is free: whether it takes anything shows when it is
    /// given something.
    fn try_stuck(&mut self, key: Key) {
        let Some(session) = self.session(key) else { return };
        let before = session.taken();
        session.writable = true;
        self.drive(key);
        let Some(session) = self.session(key) else { return };
        if session.away.is_some() {
            // What it takes shows when that is back.
            return;
        }
        if session.is_blocked() && session.taken() == before {
            return self.close(key, Some(CloseReason::WriteTimeout));
        }
        session.blocked_since = None;
    }
}

impl Session {
    fn look(&mut self, now: Instant, bounds: &Bounds) -> Option<Found> {
        if self.pending.is_empty() {
            // What it needed once it may never need again.
            self.pending = Vec::new();
        }
        // One that is ending has its own time for that.
        if self.lingers || self.closing.is_some() || self.away.is_some() {
            return None;
        }
        if !self.is_blocked() {
            self.blocked_since = None;
            let idle = self.may_be_idle() && is_over(self.active_at, now, bounds.idle);
            return idle.then_some(Found::Idle);
        }
        self.blocked_since.get_or_insert(now);
        self.is_stuck(now, bounds).then_some(Found::Stuck)
    }

    /// Whether it has taken nothing for too long, as far as is known.
    pub(super) fn is_stuck(&self, now: Instant, bounds: &Bounds) -> bool {
        self.blocked_since.is_some_and(|since| is_over(since.max(self.sent_at), now, bounds.write))
    }

    /// Whether it has something for its socket, which takes nothing as far as is known.
    fn is_blocked(&self) -> bool {
        let has_more = matches!(self.role, Role::Consumer { .. }) || self.is_sending();
        !self.writable && has_more
    }

    /// Changes whenever the socket takes something.
    fn taken(&self) -> (Instant, u64, usize, usize) {
        (self.sent_at, self.stream.flushed(), self.out_at, self.out.len())
    }

    /// Whether its silence is its own: a consumer is to be silent, and others may be waiting for the broker.
    fn may_be_idle(&self) -> bool {
        let works = matches!(self.role, Role::Producer(_) | Role::Committer(..));
        works
            && self.owes_nothing()
            && !self.held
            && !self.awaits_memory
            && !self.queued
            && self.paused.is_none()
    }
}

fn is_over(since: Instant, now: Instant, time: Option<Duration>) -> bool {
    time.is_some_and(|time| now.saturating_duration_since(since) >= time)
}
