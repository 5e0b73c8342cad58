//! Which consumers are connected, as far as they belong to a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::offsets::{OffsetKey, OffsetTable};
use crate::storage::{Clock as _, GradualClock};

/// Consumers by their group and partition. Grows with the connections there are, and with nothing else.
#[derive(Debug)]
pub(super) struct Connected {
    counts: Mutex<BTreeMap<OffsetKey, usize>>,
    table: Arc<OffsetTable>,
    time: Arc<GradualClock>,
}

/// A consumer of a group that is connected, until this is dropped.
#[derive(Debug)]
pub struct Member {
    connected: Arc<Connected>,
    key: OffsetKey,
}

impl Member {
    /// Its group and partition.
    pub fn key(&self) -> &OffsetKey {
        &self.key
    }
}

impl Connected {
    pub(super) fn new(table: Arc<OffsetTable>, time: Arc<GradualClock>) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), table, time })
    }

    pub(super) fn join(self: &Arc<Self>, key: OffsetKey) -> Member {
        *self.counts.lock().entry(key.clone()).or_insert(0) += 1;
        Member { connected: Arc::clone(self), key }
    }

    /// How many there are, by what they read.
    pub(super) fn counts(&self) -> BTreeMap<OffsetKey, usize> {
        self.counts.lock().clone()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Connected { counts, table, time } = &*self.connected;
        let mut counts = counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
        drop(counts);
        // Its group is not forgotten as long after that as after a commit.
        table.touch(&self.key, time.now_ns());
    }
}
