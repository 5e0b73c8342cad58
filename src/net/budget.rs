//! The memory for frames that are being received, shared by all connections.
//!
//! Frames that fit a reactor's buffer do not need it. A larger one is collected in memory of its own, taken from here
//! before its first byte is kept; a connection that gets none is not read until another gives some back. So what
//! clients claim and send cannot make the broker grow beyond the configured sum.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::broker::{WaiterId, Wake};

/// The shared sum.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    waiting: VecDeque<(Arc<dyn Wake>, WaiterId)>,
}

/// A part of the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Takes `bytes`, or queues the waiter, who is woken when it is worth trying again. One frame is always allowed,
    /// even one larger than the limit: it would wait for ever otherwise.
    pub(super) fn take_or_wait(
        self: &Arc<Self>,
        bytes: u64,
        wake: &Arc<dyn Wake>,
        waiter: WaiterId,
    ) -> Option<Lease> {
        let mut state = self.state.lock();
        if state.used > 0 && state.used.saturating_add(bytes) > self.limit {
            state.waiting.push_back((Arc::clone(wake), waiter));
            return None;
        }
        state.used = state.used.saturating_add(bytes);
        Some(Lease { budget: Arc::clone(self), bytes })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.budget.state.lock();
            state.used -= self.bytes;
            std::mem::take(&mut state.waiting)
        };
        // All of them: who is woken in vain queues up again, in the same order.
        for (wake, waiter) in waiting {
            wake.wake(waiter);
        }
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

    #[test]
    fn over_the_limit_waits_until_something_is_given_back() {
        let woken = Arc::new(Woken::default());
        let wake: Arc<dyn Wake> = woken.clone();
        let budget = Budget::new(100);
        let huge = budget.take_or_wait(1000, &wake, WaiterId(1)).expect("one is always allowed");
        assert!(budget.take_or_wait(1, &wake, WaiterId(2)).is_none());
        drop(huge);
        assert_eq!(*woken.0.lock(), [2]);
        let first = budget.take_or_wait(60, &wake, WaiterId(3)).unwrap();
        let second = budget.take_or_wait(40, &wake, WaiterId(4)).unwrap();
        assert!(budget.take_or_wait(1, &wake, WaiterId(5)).is_none());
        drop((first, second));
        assert_eq!(*woken.0.lock(), [2, 5]);
        assert_eq!(budget.state.lock().used, 0);
    }
}
