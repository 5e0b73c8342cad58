//! What the broker compacts, and what it says when that fails.

use super::*;
use crate::model::limits::MIB;
use crate::storage::{Cleanup, Clock};

const HOUR: u64 = 3600 * 1_000_000_000;

/// A broker with topics that are kept in each way, on a disk that outlives it, with a clock.
struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    broker: Broker,
}

impl World {
    fn new(change: impl Fn(&mut Parts)) -> Self {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::new(HOUR)));
        let broker = Self::open(&disk, &clock, &change);
        Self { disk, clock, broker }
    }

    fn open(disk: &SimDisk, clock: &Arc<ManualClock>, change: &impl Fn(&mut Parts)) -> Broker {
        let mut parts = parts(Arc::new(disk.clone()));
        parts.clock = Arc::clone(clock) as Arc<dyn Clock>;
        let kept = |name, cleanup| TopicOptions {
            cleanup: Some(cleanup),
            ..TopicOptions::named(topic(name))
        };
        parts.declared = vec![kept("compact", Cleanup::Compact), kept("both", Cleanup::Both)];
        change(&mut parts);
        Broker::open(parts).unwrap()
    }

    fn partition(&self, name: &str) -> Arc<Partition> {
        self.broker.partition(&topic(name), 0).unwrap()
    }

    /// Two segments of 1 MiB with one key, and a third one.
    fn fill(&self, name: &str) {
        let payload = vec![1; usize::try_from(MIB).unwrap() / 4 - 100];
        let partition = self.partition(name);
        for _ in 0..9 {
            append_frame(&partition, b"key", &payload).unwrap();
        }
        partition.flush_now().unwrap();
    }

    fn compact(&self) -> Compacted {
        self.broker.compact(&mut |_| true).unwrap()
    }
}

fn group(name: &str) -> OffsetKey {
    let partition = TopicPartition { topic: topic("compact"), partition: 0 };
    OffsetKey { group: GroupName::parse(name).unwrap(), partition }
}

#[test]
fn topics_are_compacted_if_they_ask_for_it() {
    let world = World::new(|_| {});
    for name in ["compact", "both", "other"] {
        world.fill(name);
    }
    let done = world.compact();
    assert_eq!((done.passes, done.frames_removed), (2, 14));
    let metrics = world.broker.metrics();
    assert_eq!((metrics.compactions.get(), metrics.compaction_failures.get()), (2, 0));
    assert_eq!(metrics.compaction_last_success_s.get(), 3600);
    assert_eq!(metrics.compaction_frames_removed.get(), 14);
    assert!(metrics.compaction_bytes_read.get() > MIB / 2);
    assert_eq!(world.compact(), Compacted::default());
    assert_eq!(metrics.compactions.get(), 2, "a look is no pass");
}

#[test]
fn committed_offsets_are_compacted_however_slowly_they_come() {
    let world = World::new(|_| {});
    let partition = world.partition("compact");
    for offset in 0..100 {
        append_frame(&partition, b"k", b"v").unwrap();
        world.broker.commit(group("billing"), &partition, offset).unwrap();
        world.broker.commit(group("shipping"), &partition, offset / 2).unwrap();
    }
    assert_eq!(world.compact(), Compacted::default());
    world.clock.pass(168 * HOUR);
    let done = world.compact();
    assert_eq!((done.passes, done.frames_removed), (2, 99 + 198));
    let again = World::open(&world.disk.kill(), &world.clock, &|_| {});
    assert_eq!(again.committed(&group("billing")), Some(99));
    assert_eq!(again.committed(&group("shipping")), Some(49));
    assert_eq!(again.metrics().offset_gaps.get(), 0);
}

#[test]
fn what_is_only_compacted_is_not_deleted() {
    let old = |parts: &mut Parts| {
        parts.storage.retention_hours = 1;
        parts.storage.max_total_mb = 1;
    };
    let world = World::new(old);
    for name in ["compact", "both"] {
        world.fill(name);
    }
    world.clock.pass(2 * HOUR);
    assert!(world.broker.retain(&|| false).segments > 0);
    assert_eq!(world.partition("compact").start_offset(), 0);
    assert_eq!(world.partition("both").start_offset(), 9);
}

#[test]
fn what_fails_is_a_problem_until_it_succeeds() {
    let world = World::new(|parts| parts.compaction.interval_sec = 0);
    world.fill("compact");
    world.disk.faults(|faults| faults.changes_left = Some(3));
    assert_eq!(world.compact(), Compacted::default());
    let partitions = vec![TopicPartition { topic: topic("compact"), partition: 0 }];
    assert_eq!(world.broker.health().problems, [Problem::Compaction { partitions }]);
    let said = world.broker.health().problems[0].to_string();
    assert_eq!(said, "compaction fails, and is tried again: compact/0");
    world.disk.faults(|faults| faults.changes_left = None);
    assert_eq!(world.compact().passes, 1);
    assert_eq!(world.broker.health().problems, []);
    assert_eq!(world.broker.metrics().compaction_failures.get(), 1);
}

#[test]
fn what_fails_is_not_tried_at_once_and_holds_up_nobody() {
    let world = World::new(|parts| parts.compaction.interval_sec = 1000);
    for name in ["compact", "both"] {
        world.fill(name);
    }
    let path = Path::new(DATA).join("compact_0/00000000000000000000.wal.tmp");
    // A name that cannot be created.
    world.disk.faults(|faults| faults.no_create = Some("compact_0/00000000000000000000.wal.tmp"));
    assert_eq!(world.compact().passes, 1);
    world.disk.faults(|faults| faults.no_create = None);
    assert_eq!(world.compact(), Compacted::default());
    assert_eq!(world.broker.metrics().compaction_failures.get(), 1);
    assert_eq!(world.disk.read(&path), None);
}

#[test]
fn compaction_ends_when_it_is_told_to() {
    let world = World::new(|_| {});
    world.fill("compact");
    assert_eq!(world.broker.compact(&mut |_| false), Err(CompactionStopped));
    assert_eq!(world.broker.metrics().compaction_failures.get(), 0);
    assert_eq!(world.broker.health().problems, []);
}

#[test]
fn how_a_topic_is_kept_is_remembered() {
    let world = World::new(|_| {});
    world.fill("compact");
    let again = World::open(&world.disk.kill(), &world.clock, &|parts| parts.declared.clear());
    assert_eq!(again.compact(&mut |_| true).unwrap().frames_removed, 7);
}

/// Else the disk space of a topic comes back hours after it was deleted.
#[test]
fn a_pass_holds_no_files_of_what_comes_later() {
    let world = World::new(|_| {});
    world.fill("compact");
    let plain: Vec<_> = (0..20).map(|number| format!("plain{number}")).collect();
    let held: Vec<_> = plain.iter().map(|name| Arc::downgrade(&world.partition(name))).collect();
    let mut left = plain.iter();
    let mut delete_all = |_| {
        left.by_ref().for_each(|name| world.broker.delete_topic(&topic(name)).unwrap());
        wait_for("the files", || held.iter().all(|partition| partition.strong_count() == 0));
        true
    };
    assert_eq!(world.broker.compact(&mut delete_all).unwrap().passes, 1);
    assert_eq!(world.broker.topic_count(), 2);
}
