//! The wall clock and the steady clock, as a trait so that tests can set them.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the wall time. Time-outs do not use it: they follow the monotonic clock.
pub trait Clock: Debug + Send + Sync {
    /// Nanoseconds since the Unix epoch.
    fn now_ns(&self) -> u64;
    /// Nanoseconds since some moment, whatever the wall clock is set to.
    fn steady_ns(&self) -> u64;
    /// What the machine's clock says, in nanoseconds since the Unix epoch, where [`Clock::now_ns`] is another time.
    fn wall_ns(&self) -> u64 {
        self.now_ns()
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    }

    fn steady_ns(&self) -> u64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands where it was set.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl ManualClock {
    /// A clock at `ns` nanoseconds since the Unix epoch.
    pub fn new(ns: u64) -> Self {
        Self { wall: AtomicU64::new(ns), steady: AtomicU64::new(0) }
    }

    /// Sets the wall clock, forwards or back. No time passes by that.
    pub fn set(&self, ns: u64) {
        self.wall.store(ns, Ordering::Relaxed);
    }

    /// Lets time pass.
    pub fn pass(&self, ns: u64) {
        self.wall.fetch_add(ns, Ordering::Relaxed);
        self.steady.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.wall.load(Ordering::Relaxed)
    }

    fn steady_ns(&self) -> u64 {
        self.steady.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_counts_from_its_first_use() {
        // Not from the epoch, as what moves with the wall clock does.
        assert!(SystemClock.steady_ns() < SystemClock.now_ns() / 2);
    }
}
