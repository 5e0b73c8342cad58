//! How long and how often to try again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// When to try again, and when to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pause before the first repetition; it doubles with each one that fails.
    pub initial_backoff: Duration,
    /// Longest pause.
    pub max_backoff: Duration,
    /// Time after its first failure until an operation is given up. It is looked at when an attempt fails, so an
    /// operation always has at least one attempt, and one that waits for an answer is not cut off.
    pub max_elapsed: Duration,
}

impl Default for RetryPolicy {
    /// 50 ms, doubling up to 2 s, for 30 s.
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            max_elapsed: Duration::from_secs(30),
        }
    }
}

/// The pauses between attempts that fail in a row.
#[derive(Debug)]
pub(super) struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(policy: &RetryPolicy) -> Self {
        Self { initial: policy.initial_backoff, max: policy.max_backoff, failures: 0 }
    }

    /// An attempt succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// An attempt failed: how long to wait before the next one. Between half the pause and the whole, at random, so
    /// that clients which lost the same broker do not come back all at once.
    pub(super) fn next_pause(&mut self) -> Duration {
        let factor = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let half = self.initial.saturating_mul(factor).min(self.max) / 2;
        half + half.mul_f64(random_fraction())
    }
}

/// A number from 0 up to 1. The standard library's hash keys are the only randomness it offers; jitter needs no more.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 32;
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over() {
        let policy = RetryPolicy {
            initial_backoff: Duration::from_millis(10),
            max_backoff: Duration::from_millis(70),
            max_elapsed: Duration::ZERO,
        };
        let mut backoff = Backoff::new(&policy);
        for full in [10, 20, 40, 70, 70] {
            let pause = backoff.next_pause();
            let full = Duration::from_millis(full);
            assert!(full / 2 <= pause && pause <= full, "{pause:?} of {full:?}");
        }
        for _ in 0..100 {
            assert!(backoff.next_pause() <= policy.max_backoff);
        }
        backoff.reset();
        assert!(backoff.next_pause() <= policy.initial_backoff);
    }
}
