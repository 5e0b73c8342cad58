//! The memory for frames that are being received, shared by all connections.
//!
//! Frames that fit a reactor's buffer do not need it. A larger one is collected in memory of its own, taken from here
//! before its first byte is kept; a connection that gets none is not read until its turn has come. So what clients
//! claim and send cannot make the broker grow beyond the configured sum.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::broker::{WaiterId, Wake};
use crate::metrics::Metrics;

type Waiter = (Arc<dyn Wake>, WaiterId);

/// The shared sum. Who waits is served in order: nobody passes the first in the queue.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Somebody waits: readable without the lock.
    contended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    waiting: VecDeque<Waiter>,
}

/// A part of the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64, metrics: Arc<Metrics>) -> Arc<Self> {
        let (state, contended) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { limit, metrics, state, contended })
    }

    /// Whether somebody waits.
    pub(super) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, or queues the waiter (once), who is woken when it is first and something was given back. One frame
    /// is always allowed, even one larger than the limit: it would wait for ever otherwise.
    pub(super) fn take_or_wait(
        self: &Arc<Self>,
        bytes: u64,
        wake: &Arc<dyn Wake>,
        waiter: WaiterId,
    ) -> Option<Lease> {
        let mut state = self.state.lock();
        let place = state.waiting.iter().position(|queued| is(queued, wake, waiter));
        let first = place == Some(0) || state.waiting.is_empty();
        let fits = state.used == 0 || state.used.saturating_add(bytes) <= self.limit;
        if !first || !fits {
            if place.is_none() {
                state.waiting.push_back((Arc::clone(wake), waiter));
            }
            self.contended.store(true, Ordering::Relaxed);
            return None;
        }
        state.used = state.used.saturating_add(bytes);
        self.count(&state);
        if place.is_some() {
            state.waiting.pop_front();
        }
        self.wake_first(state);
        Some(Lease { budget: Arc::clone(self), bytes })
    }

    /// Takes a waiter that is gone out of the queue.
    pub(super) fn forget(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        let mut state = self.state.lock();
        state.waiting.retain(|queued| !is(queued, wake, waiter));
        self.wake_first(state);
    }

    fn count(&self, state: &State) {
        self.metrics.receive_memory.set(i64::try_from(state.used).unwrap_or(i64::MAX));
    }

    /// Lets the first in the queue try again, if there is one.
    fn wake_first(&self, state: parking_lot::MutexGuard<'_, State>) {
        let first = state.waiting.front().cloned();
        self.contended.store(first.is_some(), Ordering::Relaxed);
        drop(state);
        if let Some((wake, waiter)) = first {
            wake.wake(waiter);
        }
    }
}

fn is((wake, id): &Waiter, other: &Arc<dyn Wake>, waiter: WaiterId) -> bool {
    *id == waiter && Arc::ptr_eq(wake, other)
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.used -= self.bytes;
        self.budget.count(&state);
        self.budget.wake_first(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Woken(Mutex<Vec<u64>>);

    impl Wake for Woken {
        fn wake(&self, waiter: WaiterId) {
            self.0.lock().push(waiter.0);
        }
    }

    fn woken() -> (Arc<Woken>, Arc<dyn Wake>) {
        let woken = Arc::new(Woken::default());
        (Arc::clone(&woken), woken)
    }

    #[test]
    fn over_the_limit_waits_until_something_is_given_back() {
        let (woken, wake) = woken();
        let budget = Budget::new(100, Arc::default());
        let huge = budget.take_or_wait(1000, &wake, WaiterId(1)).expect("one is always allowed");
        assert!(budget.take_or_wait(1, &wake, WaiterId(2)).is_none());
        assert!(budget.is_contended());
        drop(huge);
        assert_eq!(*woken.0.lock(), [2]);
        let first = budget.take_or_wait(60, &wake, WaiterId(2)).unwrap();
        assert!(!budget.is_contended());
        let second = budget.take_or_wait(40, &wake, WaiterId(4)).unwrap();
        assert!(budget.take_or_wait(1, &wake, WaiterId(5)).is_none());
        drop((first, second));
        assert_eq!(woken.0.lock().last(), Some(&5));
        assert_eq!((budget.state.lock().used, budget.metrics.receive_memory.get()), (0, 0));
    }

    #[test]
    fn nobody_passes_the_first_in_the_queue() {
        let (woken, wake) = woken();
        let budget = Budget::new(100, Arc::default());
        let held = budget.take_or_wait(60, &wake, WaiterId(1)).unwrap();
        assert!(budget.take_or_wait(90, &wake, WaiterId(2)).is_none());
        assert!(budget.take_or_wait(10, &wake, WaiterId(3)).is_none(), "it would fit, but waits");
        assert!(budget.take_or_wait(10, &wake, WaiterId(3)).is_none(), "and is queued once");
        drop(held);
        let large = budget.take_or_wait(90, &wake, WaiterId(2)).unwrap();
        assert_eq!(woken.0.lock().last(), Some(&3), "the next one may fit beside it");
        drop(budget.take_or_wait(10, &wake, WaiterId(3)).unwrap());
        drop(large);
        assert!(budget.state.lock().waiting.is_empty());
    }

    #[test]
    fn who_is_gone_does_not_hold_up_the_queue() {
        let (woken, wake) = woken();
        let budget = Budget::new(100, Arc::default());
        let held = budget.take_or_wait(60, &wake, WaiterId(1)).unwrap();
        assert!(budget.take_or_wait(90, &wake, WaiterId(2)).is_none());
        assert!(budget.take_or_wait(10, &wake, WaiterId(3)).is_none());
        budget.forget(&wake, WaiterId(2));
        assert_eq!(woken.0.lock().last(), Some(&3));
        assert!(budget.take_or_wait(10, &wake, WaiterId(3)).is_some());
        drop(held);
    }
}
