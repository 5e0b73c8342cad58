//! The flusher, and the end.

use super::*;
use crate::storage::sim_disk::Seeded;

#[test]
fn the_flusher_makes_dirty_partitions_durable_and_rests() {
    let disk = SimDisk::default();
    let broker = try_open(&disk, Options::default(), 1).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let flushes = || broker.metrics().flushes.get();
    // Each partition once when it is opened.
    wait_for("the first flushes", || flushes() == 2);
    for round in 1..20 {
        append(&partition).unwrap();
        wait_for("a flush after an append", || flushes() == 2 + round);
        let crashed = open(&disk.crash(&mut Seeded::new(round)));
        assert_eq!(crashed.partition(&topic("t"), 0).unwrap().end_offset(), round);
    }
    thread::sleep(Duration::from_millis(30));
    assert_eq!(flushes(), 2 + 19, "nothing to do, nothing done");
}

#[test]
fn closing_flushes_everything_and_refuses_more() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    let partitions: Vec<_> =
        ["a", "b", "c"].map(|name| broker.partition(&topic(name), 0).unwrap()).into();
    for partition in &partitions {
        append(partition).unwrap();
    }
    broker.commit(key("g", "a", 0), &partitions[0], 1).unwrap();
    broker.close().unwrap();
    for partition in &partitions {
        assert!(matches!(append(partition), Err(AppendError::Log(storage::AppendError::ReadOnly))));
    }
    assert!(broker.commit(key("g", "a", 0), &partitions[0], 0).is_err());
    let refused = broker.partition(&topic("new"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::Create(_)), "nobody would flush it");
    broker.close().unwrap();

    for seed in 0..20 {
        let crashed = open(&disk.crash(&mut Seeded::new(seed)));
        for name in ["a", "b", "c"] {
            assert_eq!(crashed.partition(&topic(name), 0).unwrap().end_offset(), 1);
        }
        assert_eq!(crashed.committed(&key("g", "a", 0)), Some(1));
    }
}

/// What an append was told is stored is flushed by the close, however the two meet.
#[test]
fn nothing_slips_in_between_the_last_flush_and_the_end() {
    for seed in 0..30 {
        let disk = SimDisk::default();
        let broker = open(&disk);
        let partition = broker.partition(&topic("t"), 0).unwrap();
        let stored = thread::scope(|scope| {
            let append_all = || (0..u64::MAX).take_while(|_| append(&partition).is_ok()).count();
            let appender = scope.spawn(append_all);
            wait_for("a first record", || partition.end_offset() > seed);
            broker.close().unwrap();
            appender.join().unwrap()
        });
        let crashed = open(&disk.crash(&mut Seeded::new(seed)));
        assert_eq!(crashed.partition(&topic("t"), 0).unwrap().end_offset(), stored as u64);
    }
}

#[test]
fn a_failed_flush_is_reported_once_and_by_the_end() {
    let disk = SimDisk::default();
    let broker = try_open(&disk, Options::default(), 1).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    wait_for("the first flushes", || broker.metrics().flushes.get() == 2);
    disk.faults(|faults| faults.sync_error = true);
    append(&partition).unwrap();
    wait_for("the failure", || partition.is_read_only());
    assert!(matches!(append(&partition), Err(AppendError::Log(storage::AppendError::ReadOnly))));
    let error = broker.close().unwrap_err();
    assert_eq!(error.failed, 1);
    assert_eq!(broker.metrics().flush_errors.get(), 1);
    assert_eq!(partition.end_offset(), 1, "still there to be read");
}

#[test]
fn a_postponed_flush_is_tried_again_without_an_append() {
    let disk = SimDisk::default();
    let broker = try_open(&disk, Options::default(), 1).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    disk.faults(|faults| faults.no_descriptors = true);
    // A roll: the directory has a new name in it.
    for _ in 0..2 {
        append_frame(&partition, b"", &vec![7; 700_000]).unwrap();
    }
    let flushes = broker.metrics().flushes.get();
    wait_for("some tries", || broker.metrics().flushes.get() > flushes + 3);
    disk.faults(|faults| faults.no_descriptors = false);
    let crashed = |seed| open(&disk.crash(&mut Seeded::new(seed)));
    let end = |broker: &Broker| broker.partition(&topic("t"), 0).unwrap().end_offset();
    wait_for("a flush", || (0..20).all(|seed| end(&crashed(seed)) == 2));
    assert_eq!(broker.metrics().flush_errors.get(), 0);
    append(&partition).unwrap();
}

/// Nobody appends any more: what retention has sealed gets its name all the same.
#[test]
fn a_postponed_flush_of_what_was_sealed_is_tried_again() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::new(HOUR)));
    let mut parts = parts(Arc::new(disk.clone()));
    parts.clock = Arc::clone(&clock) as Arc<dyn storage::Clock>;
    (parts.storage.flush_interval_ms, parts.storage.retention_hours) = (1, 1);
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    append(&partition).unwrap();
    wait_for("the record", || partition.flushed_offset() == 1);
    disk.faults(|faults| faults.no_descriptors = true);
    clock.pass(HOUR);
    broker.retain(&|| false);
    let provisional =
        || disk.files().iter().any(|file| file.to_string_lossy().contains(".wal.new"));
    wait_for("the seal", provisional);
    disk.faults(|faults| faults.no_descriptors = false);
    wait_for("the next flush", || !provisional());
}

/// Each flush of these waits at the gate, and what is dirty is as old as the flush interval is short.
fn behind(disk: &SlowDisk) -> (Broker, Arc<Partition>) {
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.flush_interval_ms = 5;
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    wait_for("the first flushes", || broker.metrics().flushes.get() == 2);
    (broker, partition)
}

#[test]
fn a_disk_that_does_not_keep_up_is_told_and_its_catching_up_too() {
    let disk = SlowDisk::default();
    let (_broker, partition) = behind(&disk);
    let (bell, wake) = bell();
    assert!(!partition.is_behind(Instant::now()));
    for _ in 0..3 {
        disk.close();
        let before = Instant::now();
        append(&partition).unwrap();
        assert!(!partition.is_behind(before), "not at once");
        wait_for("the flush to begin", || disk.syncing() == 1);
        wait_for("the record to become old", || partition.is_behind(Instant::now()));
        partition.await_flush(&wake, WaiterId(1));
        assert!(partition.is_behind(Instant::now()));
        assert!(bell.take().is_empty());
        disk.open();
        assert!(bell.wait());
        assert!(!partition.is_behind(Instant::now()));
    }
    // Younger records that the running flush does not cover count once it has ended.
    disk.close();
    append(&partition).unwrap();
    wait_for("the flush to begin", || disk.syncing() == 1);
    let second = Instant::now();
    append(&partition).unwrap();
    // The log, and then its checksums.
    disk.pass_one();
    wait_for("the first sync to end", || disk.passed());
    disk.pass_one();
    wait_for("the second flush", || {
        disk.passed() && disk.syncing() == 1 && partition.is_behind(Instant::now())
    });
    assert!(!partition.is_behind(second + Duration::from_millis(5)));
    disk.open();
    wait_for("the second flush to end", || !partition.is_behind(Instant::now()));
}

#[test]
fn a_power_cut_takes_two_flush_intervals_of_records_and_no_more() {
    let broker = Broker::open(parts(Arc::new(SimDisk::default()))).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let bound = 2 * Duration::from_millis(NEVER_MS.into());
    let before = Instant::now();
    append(&partition).unwrap();
    let after = Instant::now();
    assert!(!partition.is_behind(before + bound));
    assert!(partition.is_behind(after + bound + Duration::from_nanos(1)));
}

#[test]
fn a_failed_flush_leaves_nobody_waiting_for_a_slow_disk() {
    let disk = SlowDisk::default();
    let (broker, partition) = behind(&disk);
    let (bell, wake) = bell();
    disk.close();
    append(&partition).unwrap();
    wait_for("the flush to begin", || disk.syncing() == 1);
    wait_for("the record to become old", || partition.is_behind(Instant::now()));
    partition.await_flush(&wake, WaiterId(1));
    disk.disk.faults(|faults| faults.sync_error = true);
    disk.open();
    assert!(bell.wait());
    assert!(!partition.is_behind(Instant::now()) && partition.is_read_only());
    let problems = broker.health().problems;
    assert!(
        matches!(&problems[..], [Problem::ReadOnly { partitions }] if partitions[0] == *partition.name())
    );
}
