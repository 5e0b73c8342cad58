//! What is deleted, and when: each topic by its own limits, then all of them by the one they share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::broker::Broker;
use super::partition::Partition;
use crate::model::{Offset, limits};
use crate::storage::{self, Clock as _, Deleted, GradualClock};

pub(super) const HOUR_NS: u64 = 3600 * 1_000_000_000;

/// File that the broker's time is written to, in the data directory.
const TIME_FILE: &str = ".clock";

/// An age as the configuration has it; 0 is none.
pub(super) fn age_ns(hours: u32) -> Option<u64> {
    (hours > 0).then(|| u64::from(hours).saturating_mul(HOUR_NS))
}

/// A size as the configuration has it; 0 is none.
pub(super) fn bytes(mb: u32) -> Option<u64> {
    (mb > 0).then(|| u64::from(mb) * limits::MIB)
}

pub(super) fn time_file(data_dir: &Path) -> PathBuf {
    data_dir.join(TIME_FILE)
}

impl Broker {
    /// Deletes segments that are too old or too much, forgets offsets of idle groups, and writes the broker's time down. What
    /// cannot be deleted is logged, and tried again by the next pass. `stop` is asked before each partition, and ends the pass by
    /// `true`. Waits for the disk: not for a reactor.
    pub fn retain(&self, stop: &dyn Fn() -> bool) -> Deleted {
        let _in_span = tracing::debug_span!("retention").entered();
        let mut total = Deleted::default();
        for partition in self.partitions_in_turn() {
            if stop() {
                return total;
            }
            add(&mut total, &partition, partition.retain());
        }
        let limit = self.retention.total_bytes.load(Ordering::Relaxed);
        if limit > 0 {
            // Not in one statement: the partitions would be held to its end.
            let victims = beyond(limit, &self.partitions());
            for (partition, until) in victims {
                if stop() {
                    return total;
                }
                if let Some(partition) = partition.upgrade() {
                    add(&mut total, &partition, partition.delete_before(until));
                }
            }
        }
        self.save_time();
        self.expire_offsets();
        self.finish_deletions();
        total
    }

    /// The next start goes on from there.
    pub(super) fn save_time(&self) {
        let Limits { time, time_file, .. } = &self.retention;
        if let Err(error) = storage::save_time(self.disk(), time_file, time.now_ns()) {
            tracing::warn!(file = %time_file.display(), %error, "the broker's time is not written down");
        }
    }
}

/// What the broker holds to.
#[derive(Debug)]
pub(super) struct Limits {
    /// What all partitions may take together; 0 is no limit.
    pub(super) total_bytes: AtomicU64,
    /// The broker's time.
    pub(super) time: Arc<GradualClock>,
    pub(super) time_file: PathBuf,
}

fn add(total: &mut Deleted, partition: &Partition, deleted: io::Result<Deleted>) {
    match deleted {
        Ok(deleted) => {
            total.segments += deleted.segments;
            total.bytes += deleted.bytes;
        }
        Err(error) => {
            tracing::error!(partition = %partition.name(), %error, "segments cannot be deleted; they will be later");
        }
    }
}

/// Before which offset the segments of which partitions go, so that all together take no more than `limit` bytes. Topics that
/// are only compacted (those of the broker itself among them) count, and are not touched.
fn beyond(limit: u64, partitions: &[Arc<Partition>]) -> Vec<(Weak<Partition>, Offset)> {
    let sizes: Vec<_> = partitions.iter().map(|partition| partition.sizes()).collect();
    let mut total: u64 = sizes.iter().flatten().map(|size| size.bytes).sum();
    let mut counts = vec![0; partitions.len()];
    let mut oldest: BinaryHeap<_> = sizes
        .iter()
        .enumerate()
        .filter(|(number, sizes)| sizes.len() > 1 && partitions[*number].cleanup().deletes())
        .map(|(number, sizes)| Reverse((sizes[0].last_ns, number)))
        .collect();
    while total > limit
        && let Some(Reverse((_, number))) = oldest.pop()
    {
        let sizes = &sizes[number];
        total -= sizes[counts[number]].bytes;
        counts[number] += 1;
        // The last one is being written.
        if counts[number] + 1 < sizes.len() {
            oldest.push(Reverse((sizes[counts[number]].last_ns, number)));
        }
    }
    if total > limit {
        tracing::warn!(
            bytes = total,
            limit,
            "the segments being written take more than storage.max_total_mb; storage.max_segment_mb should be less"
        );
    }
    let counted = partitions.iter().zip(&sizes).zip(counts).filter(|&(_, count)| count > 0);
    let victims = counted
        .map(|((partition, sizes), count)| (Arc::downgrade(partition), sizes[count].base_offset));
    victims.collect()
}
