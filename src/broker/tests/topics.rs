//! Which topics there are, and who may create them: faults 10, 18 and 19.

use std::sync::Barrier;
use std::thread;

use super::*;
use crate::storage::Disk;

fn with(options: Options) -> Broker {
    try_open(&SimDisk::default(), options, NEVER_MS).unwrap()
}

#[test]
fn a_topic_is_created_on_demand_with_the_configured_partitions() {
    let broker = with(Options { default_partitions: 3, ..Options::default() });
    assert!(broker.existing(&topic("t"), 0).is_none());
    assert_eq!(broker.topic_count(), 0, "the broker's own does not count");
    let partition = broker.partition(&topic("t"), 2).unwrap();
    assert_eq!(partition.name().to_string(), "t/2");
    assert_eq!(broker.topic_count(), 1);
    let again = broker.existing(&topic("t"), 2).unwrap().unwrap();
    assert!(Arc::ptr_eq(&partition, &again));
    let ordinals: Vec<_> =
        (0..3).map(|id| broker.partition(&topic("t"), id).unwrap().ordinal()).collect();
    assert_eq!(ordinals, [1, 2, 3]);
}

#[test]
fn an_unknown_partition_creates_nothing() {
    let broker = with(Options { default_partitions: 3, ..Options::default() });
    for _ in 0..2 {
        let refused = broker.partition(&topic("t"), 3).unwrap_err();
        assert!(matches!(refused, PartitionError::UnknownPartition { partition: 3, .. }));
    }
    assert_eq!(broker.topic_count(), 0);
    broker.partition(&topic("t"), 0).unwrap();
    let refused = broker.partition(&topic("t"), 3).unwrap_err();
    assert!(matches!(refused, PartitionError::UnknownPartition { .. }));
}

#[test]
fn creation_can_be_switched_off() {
    let disk = SimDisk::default();
    open(&disk).partition(&topic("old"), 0).unwrap();
    let options = Options { auto_create: false, ..Options::default() };
    let broker = try_open(&disk.kill(), options, NEVER_MS).unwrap();
    let refused = broker.partition(&topic("new"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::UnknownTopic(name) if name == topic("new")));
    broker.partition(&topic("old"), 0).unwrap();
}

#[test]
fn reserved_topics_are_not_created() {
    let broker = with(Options::default());
    let refused = broker.partition(&topic("__mine"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::Reserved(_)));
    assert_eq!(broker.topic_count(), 0);
}

/// Nobody who is refused waits until others have created, altered or deleted a topic, which may take the disk long.
#[test]
fn a_refusal_waits_for_no_disk() {
    let slow = SlowDisk::default();
    let mut parts = parts(Arc::new(slow.clone()));
    parts.options.default_partitions = 1;
    parts.storage.durability = Durability::Always;
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    slow.close_in(&Path::new(DATA).join("t_0"));
    append(&partition).unwrap();
    wait_for("the flush that hangs", || slow.syncing() == 1);
    thread::scope(|scope| {
        let deleting = scope.spawn(|| broker.delete_topic(&topic("t")));
        wait_for("the deletion to begin", || partition.is_deleted());
        let refused = broker.partition(&topic("__mine"), 0).unwrap_err();
        assert!(matches!(refused, PartitionError::Reserved(_)));
        let refused = broker.partition(&topic("u"), 1).unwrap_err();
        assert!(matches!(refused, PartitionError::UnknownPartition { .. }));
        assert_eq!(slow.syncing(), 1, "the deletion waits still");
        slow.open();
        deleting.join().unwrap().unwrap();
    });
}

#[test]
fn the_limit_holds_for_all_topics_together() {
    let options = Options { default_partitions: 2, max_partitions: 5, ..Options::default() };
    let disk = SimDisk::default();
    let broker = try_open(&disk, options.clone(), NEVER_MS).unwrap();
    broker.partition(&topic("a"), 0).unwrap();
    broker.partition(&topic("b"), 0).unwrap();
    let refused = broker.partition(&topic("c"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::LimitReached { partitions: 2, max: 5 }));
    broker.partition(&topic("a"), 1).unwrap();

    // A lower limit later on takes nothing away.
    let options = Options { max_partitions: 1, ..options };
    let broker = try_open(&disk.kill(), options, NEVER_MS).unwrap();
    append(&broker.partition(&topic("b"), 1).unwrap()).unwrap();
    assert!(broker.partition(&topic("c"), 0).is_err());
}

#[test]
fn a_creation_that_fails_does_not_count() {
    let options = Options { default_partitions: 2, max_partitions: 3, ..Options::default() };
    let disk = SimDisk::default();
    let broker = try_open(&disk, options, NEVER_MS).unwrap();
    // The first of the two partitions gets its log, the second does not.
    disk.faults(|faults| faults.no_create = Some("t_1/"));
    for _ in 0..5 {
        let refused = broker.partition(&topic("t"), 0).unwrap_err();
        assert!(matches!(refused, PartitionError::Create(_)));
        assert_eq!(broker.topic_count(), 0);
    }
    disk.faults(|faults| faults.no_create = None);
    append(&broker.partition(&topic("t"), 1).unwrap()).unwrap();
}

/// A directory on the disk is opened at the next start, so that one would run out as well.
#[test]
fn without_descriptors_to_spare_a_topic_leaves_no_trace() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    append(&broker.partition(&topic("old"), 0).unwrap()).unwrap();
    disk.faults(|faults| faults.no_descriptors = true);
    let refused = broker.partition(&topic("new"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::Create(_)));
    append(&broker.partition(&topic("old"), 0).unwrap()).unwrap();
    let entries = disk.list(Path::new(DATA)).unwrap();
    assert!(entries.iter().all(|entry| entry.name != "new_0"), "{entries:?}");
    disk.faults(|faults| faults.no_descriptors = false);
    broker.partition(&topic("new"), 0).unwrap();
}

#[test]
fn many_threads_create_one_topic() {
    for _ in 0..50 {
        let broker = with(Options { default_partitions: 2, ..Options::default() });
        let barrier = Barrier::new(8);
        let found: Vec<_> = thread::scope(|scope| {
            let create = || {
                barrier.wait();
                let partition = broker.partition(&topic("t"), 1).unwrap();
                append(&partition).unwrap();
                partition
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|partition| Arc::ptr_eq(partition, &found[0])));
        assert_eq!(found[0].end_offset(), 8);
        assert_eq!(broker.topic_count(), 1);
        // The next topic's partitions follow: nothing was counted twice.
        assert_eq!(broker.partition(&topic("u"), 0).unwrap().ordinal(), 3);
    }
}

#[test]
fn strangers_are_left_alone_and_gaps_are_served() {
    let disk = SimDisk::default();
    for dir in ["lost+found", "no-number", "t_01", "t_1", "t_3", "a_1_0", ".snapshots"] {
        disk.create_dir(&Path::new(DATA).join(dir)).unwrap();
    }
    disk.put(&Path::new(DATA).join("notes.json"), b"{}");
    disk.put(&file("lost+found", "00000000000000000000.wal"), b"not ours");
    let broker = open(&disk);
    assert_eq!(broker.topic_count(), 2);
    for there in [1, 3] {
        append(&broker.partition(&topic("t"), there).unwrap()).unwrap();
    }
    for missing in [0, 2, 4] {
        let refused = broker.partition(&topic("t"), missing).unwrap_err();
        assert!(matches!(refused, PartitionError::UnknownPartition { .. }));
    }
    append(&broker.partition(&topic("a_1"), 0).unwrap()).unwrap();
    let stranger = disk.read(&file("lost+found", "00000000000000000000.wal")).unwrap();
    assert_eq!(stranger, b"not ours");
}
