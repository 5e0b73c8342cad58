//! Somebody who waits, and remembers being woken.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::broker::{WaiterId, Wake};

/// Notes which waiters were woken.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<Vec<u64>>,
    changed: Condvar,
}

/// A bell, and the same as what a partition knows of it.
pub(super) fn bell() -> (Arc<Bell>, Arc<dyn Wake>) {
    let bell = Arc::<Bell>::default();
    (Arc::clone(&bell), bell)
}

impl Wake for Bell {
    fn wake(&self, waiter: WaiterId) {
        self.rung.lock().push(waiter.0);
        self.changed.notify_all();
    }
}

impl Bell {
    /// Those that were woken since the last look.
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.rung.lock())
    }

    /// How many were woken since the last look.
    pub(super) fn len(&self) -> usize {
        self.rung.lock().len()
    }

    /// Waits for one ring; `false` if none comes in a time that a wake-up never takes.
    pub(super) fn wait(&self) -> bool {
        let mut rung = self.rung.lock();
        while rung.is_empty() {
            if self.changed.wait_for(&mut rung, Duration::from_mins(1)).timed_out() {
                return false;
            }
        }
        assert_eq!(rung.len(), 1, "once for each time it parked");
        rung.clear();
        true
    }
}
