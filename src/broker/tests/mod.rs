//! Tests of the broker as a whole.

mod altering;
mod always;
mod bell;
mod catalog;
mod commits;
mod compaction;
mod declared;
mod deleting;
mod expiry;
mod flushing;
mod groups;
mod model;
mod retention;
mod slow_disk;
mod space;
mod topics;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use self::bell::bell;
use self::slow_disk::SlowDisk;
use super::*;
use crate::metrics::Metrics;
use crate::model::{GroupName, PartitionId, TopicName, TopicPartition};
use crate::record::{FrameBuilder, FrameLimits, Run};
use crate::storage::sim_disk::SimDisk;
use crate::storage::{self, Disk, Durability, ManualClock};

/// Data directory of the broker under test.
const DATA: &str = "/data";

/// Flushed at the end only, unless a test asks for more.
const NEVER_MS: u32 = 3_600_000;

/// A broker on this disk with defaults that suit tests.
fn parts(disk: Arc<dyn Disk>) -> Parts {
    Parts {
        options: Options::default(),
        offsets: OffsetsOptions::default(),
        max_payload_mb: 50,
        declared: Vec::new(),
        storage: storage::Options {
            data_dir: DATA.into(),
            max_segment_mb: 1,
            flush_interval_ms: NEVER_MS,
            ..storage::Options::default()
        },
        compaction: storage::CompactionOptions::default(),
        disk,
        clock: Arc::new(ManualClock::new(7)),
        metrics: Arc::new(Metrics::default()),
    }
}

fn try_open(disk: &SimDisk, options: Options, flush_ms: u32) -> Result<Broker, BrokerError> {
    let mut parts = Parts { options, ..parts(Arc::new(disk.clone())) };
    parts.storage.flush_interval_ms = flush_ms;
    Broker::open(parts)
}

fn open(disk: &SimDisk) -> Broker {
    try_open(disk, Options::default(), NEVER_MS).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn key(group: &str, name: &str, partition: PartitionId) -> OffsetKey {
    let partition = TopicPartition { topic: topic(name), partition };
    OffsetKey { group: GroupName::parse(group).unwrap(), partition }
}

fn append_frame(
    partition: &Arc<Partition>,
    key: &[u8],
    payload: &[u8],
) -> Result<Appended, AppendError> {
    let mut bytes = Vec::new();
    FrameBuilder::new(7).key(key).write(payload, &mut bytes).unwrap();
    partition.append(&mut Run::parse(&mut bytes, &FrameLimits::STORED).unwrap())
}

fn append(partition: &Arc<Partition>) -> Result<Appended, AppendError> {
    append_frame(partition, b"", b"payload")
}

fn offsets_log(broker: &Broker) -> Arc<Partition> {
    broker.existing(&topic("__consumer_offsets"), 0).unwrap().unwrap()
}

fn file(dir: &str, name: &str) -> std::path::PathBuf {
    Path::new(DATA).join(dir).join(name)
}

/// Waits for something that comes soon; the limit only keeps a failure from hanging.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_mins(1), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}
