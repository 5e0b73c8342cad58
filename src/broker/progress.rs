//! How far the opening of a broker is, for those who wait for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts partitions that are opened, and takes the wish that no more are.
#[derive(Debug, Default)]
pub struct OpenProgress {
    all: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
    over: AtomicBool,
}

impl OpenProgress {
    /// Partitions that are open, and all of them; 0 of 0 before they were counted.
    pub fn get(&self) -> (usize, usize) {
        let all = self.all.load(Ordering::Acquire);
        (self.done.load(Ordering::Acquire).min(all), all)
    }

    /// Ends the opening before the next partition. What was opened is as after a crash: nothing is lost.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether it was ended.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the next partition is not to be opened. One that is created later, while the broker runs, is.
    pub(super) fn ends(&self) -> bool {
        self.is_stopped() && !self.over.load(Ordering::Acquire)
    }

    /// The broker is open.
    pub(super) fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(super) fn expect(&self, all: usize) {
        self.all.store(all, Ordering::Release);
    }

    pub(super) fn add(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }
}
