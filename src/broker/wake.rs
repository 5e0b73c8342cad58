//! Waking those who wait for something in a partition: readers for records, producers for a flush.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use parking_lot::Mutex;

/// Names one who waits to whoever wakes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaiterId(pub u64);

/// Implemented by those who wait (a reactor), called by those who append and flush.
pub trait Wake: Debug + Send + Sync {
    /// What the waiter waits for may have happened. Called once for each time it parked; must not block.
    fn wake(&self, waiter: WaiterId);
}

#[derive(Debug)]
struct Waiter {
    wake: Arc<dyn Wake>,
    id: WaiterId,
}

/// Those who wait for the same in one partition. Each costs an entry here and nothing else.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    list: Mutex<Vec<Waiter>>,
    /// Whether the list may have entries: lets an append skip the lock.
    any: AtomicBool,
}

impl Waiters {
    /// Adds a waiter. The caller must look once more *afterwards*: what happened before is not told.
    pub(super) fn park(&self, wake: &Arc<dyn Wake>, id: WaiterId) {
        let mut list = self.list.lock();
        list.push(Waiter { wake: Arc::clone(wake), id });
        self.any.store(true, Ordering::Relaxed);
        drop(list);
        // Pairs with the fence in `wake_all`: either whoever wakes sees the flag, or the caller sees what happened.
        fence(Ordering::SeqCst);
    }

    /// Removes a waiter, if it is still there.
    pub(super) fn unpark(&self, wake: &Arc<dyn Wake>, id: WaiterId) {
        self.list.lock().retain(|waiter| waiter.id != id || !Arc::ptr_eq(&waiter.wake, wake));
    }

    /// Wakes all waiters and forgets them. Called after what they wait for is published.
    pub(super) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut list = self.list.lock();
        self.any.store(false, Ordering::Relaxed);
        for waiter in list.drain(..) {
            waiter.wake.wake(waiter.id);
        }
    }

    /// How many wait now.
    pub(super) fn len(&self) -> usize {
        self.list.lock().len()
    }
}
