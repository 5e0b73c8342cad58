//! When each record of a fixed rate is due.

use std::time::{Duration, Instant};

/// A fixed rate from a start. Due times depend on nothing that happens meanwhile: a record that is sent late, because
/// those before it took long, was due all the same, and its latency counts from then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    start: Instant,
    per_second: u32,
}

impl Pace {
    pub(super) fn new(start: Instant, per_second: u32) -> Self {
        Self { start, per_second: per_second.max(1) }
    }

    /// When record `number`, counted from 0, is due: after the start.
    pub(super) fn after(&self, number: u64) -> Duration {
        let per_second = u64::from(self.per_second);
        let seconds = Duration::from_secs(number / per_second);
        // Below a second, so it fits.
        seconds + Duration::from_nanos(number % per_second * 1_000_000_000 / per_second)
    }

    /// Waits until the record is due; not at all if it is late.
    pub(super) fn wait_for(&self, number: u64) {
        let left = (self.start + self.after(number)).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
    }
}

/// Asks for wake-ups of this thread at the time that was said, not up to 50 µs after it.
pub(super) fn be_punctual() {
    #[cfg(target_os = "linux")]
    {
        // Without it latencies are longer, on both sides of a comparison.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_do_not_drift() {
        let pace = Pace::new(Instant::now(), 3);
        assert_eq!(pace.after(0), Duration::ZERO);
        assert_eq!(pace.after(1), Duration::from_nanos(333_333_333));
        assert_eq!(pace.after(3), Duration::from_secs(1));
        assert_eq!(pace.after(3_000_000), Duration::from_secs(1_000_000));
        let pace = Pace::new(Instant::now(), 5000);
        assert_eq!(pace.after(1), Duration::from_micros(200));
        assert_eq!(pace.after(123_456_789), Duration::from_micros(200 * 123_456_789));
    }

    #[test]
    fn what_is_late_is_not_waited_for() {
        let start = Instant::now();
        let pace = Pace::new(start, 1000);
        pace.wait_for(20);
        assert!(start.elapsed() >= Duration::from_millis(20));
        // The past, by far: nothing shifts later due times.
        let late = Pace { start, per_second: 1_000_000 };
        late.wait_for(10);
        assert_eq!(late.after(1_000_000), Duration::from_secs(1));
    }
}
