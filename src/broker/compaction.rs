//! Compaction of all partitions that ask for it: when each is looked at, and what happens to those that fail.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::broker::Broker;
use super::error::CompactionStopped;
use super::partition::Partition;
use crate::model::TopicPartition;
use crate::storage::{Compacted, CompactionOptions, CompactionRules};

/// Longest time until a partition whose compaction has failed is tried again.
const BACK_OFF_MAX: Duration = Duration::from_hours(1);

/// What the broker goes by.
#[derive(Debug)]
pub(super) struct Compaction {
    rules: CompactionRules,
    /// Time until what has failed is tried again, the first time.
    back_off: Duration,
}

impl Compaction {
    pub(super) fn new(options: &CompactionOptions) -> Self {
        let back_off = Duration::from_secs(u64::from(options.interval_sec));
        Self { rules: options.into(), back_off }
    }
}

/// How compaction of one partition went so far.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<Failed>);

#[derive(Debug, Default)]
struct Failed {
    /// Attempts since the last one that succeeded.
    times: u32,
    not_before: Option<Instant>,
}

impl Attempts {
    fn are_due(&self, now: Instant) -> bool {
        self.0.lock().not_before.is_none_or(|at| at <= now)
    }

    fn succeed(&self) {
        *self.0.lock() = Failed::default();
    }

    /// Twice as long each time.
    fn fail(&self, now: Instant, back_off: Duration) -> Duration {
        let mut failed = self.0.lock();
        let wait = back_off.saturating_mul(1 << failed.times.min(20)).min(BACK_OFF_MAX);
        failed.times += 1;
        failed.not_before = Some(now + wait);
        wait
    }

    pub(super) fn are_failing(&self) -> bool {
        self.0.lock().times > 0
    }
}

impl Broker {
    /// Makes a pass over each partition whose topic is compacted and that is due. Reads and writes the disk, as slowly as
    /// `pause` wants: it is told how many bytes are next, and ends it by `false`, which is the error. What fails is logged,
    /// counted, and tried again later. Not for a reactor.
    pub fn compact(
        &self,
        pause: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Compacted, CompactionStopped> {
        let mut total = Compacted::default();
        for partition in self.partitions_in_turn() {
            let compacts = partition.cleanup().compacts() && !partition.is_read_only();
            if !compacts || !partition.compaction().are_due(Instant::now()) {
                continue;
            }
            match partition.compact(&self.compaction.rules, pause) {
                Ok(done) => self.compacted(&partition, done, &mut total),
                // It ends by that.
                Err(_) if partition.is_deleted() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(CompactionStopped);
                }
                Err(error) => self.compaction_failed(&partition, &error),
            }
        }
        Ok(total)
    }

    fn compacted(&self, partition: &Partition, done: Compacted, total: &mut Compacted) {
        partition.compaction().succeed();
        if done.passes == 0 {
            return;
        }
        let metrics = self.metrics();
        metrics.compactions.inc();
        let now_s = self.opener.env.clock.now_ns() / 1_000_000_000;
        metrics.compaction_last_success_s.set(i64::try_from(now_s).unwrap_or(i64::MAX));
        tracing::info!(
            partition = %partition.name(), bytes_read = done.bytes_read,
            bytes_removed = done.bytes_removed, frames_removed = done.frames_removed,
            segments_merged = done.segments_merged, segments_damaged = done.damaged,
            "compacted"
        );
        total.passes += done.passes;
        total.bytes_read += done.bytes_read;
        total.bytes_removed += done.bytes_removed;
        total.frames_removed += done.frames_removed;
        total.segments_merged += done.segments_merged;
        total.damaged += done.damaged;
    }

    fn compaction_failed(&self, partition: &Partition, error: &io::Error) {
        self.metrics().compaction_failures.inc();
        let wait = partition.compaction().fail(Instant::now(), self.compaction.back_off);
        tracing::error!(
            partition = %partition.name(), %error, retry_in_s = wait.as_secs(),
            "compaction failed; the log is as it was, and it is tried again"
        );
    }

    /// Partitions whose last compaction has failed, sorted.
    pub(super) fn failing_compactions(&self) -> Vec<TopicPartition> {
        let failing = |partition: &Arc<Partition>| partition.compaction().are_failing();
        let mut names: Vec<_> = self
            .partitions()
            .iter()
            .filter(|partition| failing(partition))
            .map(|partition| partition.name().clone())
            .collect();
        names.sort_unstable();
        names
    }
}
