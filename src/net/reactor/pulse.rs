//! Whether the reactors turn: each is asked now and then, and answers in its next turn. One that nobody asks pays one
//! load for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::inbox::Inbox;

/// The questions to one reactor, and its answers.
#[derive(Debug)]
pub(super) struct Heartbeat {
    asked: AtomicU64,
    answered: AtomicU64,
    /// When the last question was asked.
    since: Mutex<Instant>,
}

impl Heartbeat {
    pub(super) fn new() -> Self {
        let since = Mutex::new(Instant::now());
        Self { asked: AtomicU64::new(0), answered: AtomicU64::new(0), since }
    }

    /// The reactor turns: what was asked is answered.
    pub(super) fn beat(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != self.answered.load(Ordering::Relaxed) {
            self.answered.store(asked, Ordering::Relaxed);
        }
    }

    /// Asks, unless a question is open already. `true` if the reactor is to be woken.
    fn ask(&self) -> bool {
        let mut since = self.since.lock();
        if !self.is_answered() {
            return false;
        }
        *since = Instant::now();
        self.asked.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn is_answered(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == self.answered.load(Ordering::Relaxed)
    }

    /// How long the question has been open; `None` if there is none.
    fn silence(&self) -> Option<Duration> {
        let since = self.since.lock();
        (!self.is_answered()).then(|| since.elapsed())
    }
}

/// Asks the reactors of a data plane whether they turn.
#[derive(Debug, Clone)]
pub struct Pulse {
    inboxes: Arc<[Arc<Inbox>]>,
}

impl Pulse {
    pub(super) fn of(inboxes: impl Iterator<Item = Arc<Inbox>>) -> Self {
        Self { inboxes: inboxes.collect() }
    }

    /// Has each reactor answer in its next turn, which comes at once if it is idle.
    pub fn ask(&self) {
        for inbox in &*self.inboxes {
            if inbox.heartbeat.ask() {
                inbox.rouse();
            }
        }
    }

    /// The reactor that has owed an answer for the longest time, and that time; `None` if all have answered.
    pub fn silence(&self) -> Option<(usize, Duration)> {
        let silent = |(number, inbox): (usize, &Arc<Inbox>)| {
            inbox.heartbeat.silence().map(|silence| (number, silence))
        };
        self.inboxes.iter().enumerate().filter_map(silent).max_by_key(|(_, silence)| *silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_open_until_the_reactor_turns() {
        let heartbeat = Heartbeat::new();
        assert_eq!(heartbeat.silence(), None);
        assert!(heartbeat.ask());
        assert!(!heartbeat.ask(), "one question at a time");
        assert!(heartbeat.silence().is_some());
        heartbeat.beat();
        assert_eq!(heartbeat.silence(), None);
        assert!(heartbeat.ask(), "and another one");
    }
}
