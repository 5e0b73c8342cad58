//! Topics whose records count as stored once they are on the disk.

use std::thread;
use std::time::Duration;

use super::*;
use crate::storage::sim_disk::Seeded;

/// A broker on a slow disk, everything in it `always`, with the topic `t`.
fn slow(partitions: u32) -> (SlowDisk, Broker, Vec<Arc<Partition>>) {
    let disk = SlowDisk::default();
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.durability = Durability::Always;
    parts.options.default_partitions = partitions;
    let broker = Broker::open(parts).unwrap();
    let opened = (0..partitions).map(|id| broker.partition(&topic("t"), id).unwrap()).collect();
    // Each of them is looked at once when it is opened; the offsets topic, an interval later.
    let looked_at = u64::from(partitions);
    wait_for("the first flushes", || broker.metrics().flushes.get() == looked_at);
    (disk, broker, opened)
}

fn is_stored(partition: &Partition, run: Appended) -> bool {
    partition.settled().covers(run)
}

#[test]
fn nothing_is_acked_or_shown_before_it_is_on_the_disk() {
    let (disk, _broker, partitions) = slow(1);
    let partition = &partitions[0];
    let ((reader, reader_wake), (producer, producer_wake)) = (bell(), bell());
    let (mut cursor, _) = partition.resume(0).unwrap();
    for round in 0..20 {
        disk.close();
        let run = append(partition).unwrap();
        partition.park(&reader_wake, WaiterId(1));
        partition.await_flush(&producer_wake, WaiterId(2));
        assert!(!is_stored(partition, run));
        assert_eq!(partition.end_offset(), round, "not to be committed either");
        assert!(matches!(partition.fetch(&mut cursor, 1 << 20), Fetch::Tail));
        wait_for("the flush to begin", || disk.syncing() == 1);
        assert!(!is_stored(partition, run));
        assert!(reader.take().is_empty() && producer.take().is_empty());
        disk.open();
        assert!(producer.wait() && reader.wait());
        assert!(is_stored(partition, run));
        assert_eq!(partition.end_offset(), round + 1);
        let Fetch::Slice(slice) = partition.fetch(&mut cursor, 1 << 20) else {
            panic!("no record")
        };
        cursor.advance(slice.len());
        let crashed = open(&disk.disk.crash(&mut Seeded::new(round)));
        assert_eq!(crashed.partition(&topic("t"), 0).unwrap().end_offset(), round + 1);
    }
}

#[test]
fn what_is_appended_during_a_flush_shares_the_next_one() {
    let (disk, _broker, partitions) = slow(1);
    let partition = &partitions[0];
    disk.close();
    let before = disk.disk.syncs();
    append(partition).unwrap();
    wait_for("the flush to begin", || disk.syncing() == 1);
    let runs: Vec<_> = (0..500).map(|_| append(partition).unwrap()).collect();
    disk.open();
    wait_for("the last one", || is_stored(partition, runs[499]));
    assert_eq!(
        disk.disk.syncs() - before,
        2 * 2,
        "a log and its checksums, once for the first, once for all others"
    );
}

#[test]
fn appenders_that_wait_for_each_ack_share_flushes() {
    const THREADS: usize = 16;
    const APPENDS: usize = 50;
    let (disk, _broker, partitions) = slow(1);
    let partition = &partitions[0];
    disk.pause(Duration::from_millis(1));
    let before = disk.disk.syncs();
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            scope.spawn(move || {
                let (bell, wake) = bell();
                for _ in 0..APPENDS {
                    let run = append(partition).unwrap();
                    while !is_stored(partition, run) {
                        partition.await_flush(&wake, WaiterId(number));
                        if is_stored(partition, run) {
                            partition.forget_flush(&wake, WaiterId(number));
                            bell.take();
                        } else {
                            assert!(bell.wait(), "a wake-up was lost");
                        }
                    }
                }
            });
        }
    });
    let (syncs, appends) = (disk.disk.syncs() - before, THREADS * APPENDS);
    // Each flush is two syncs.
    assert!(syncs / 2 * 4 < appends, "{syncs} syncs for {appends} appends");
    assert!(!disk.met(), "a partition is flushed by one thread at a time");
}

#[test]
fn one_partitions_slow_disk_does_not_hold_up_the_others() {
    let (disk, _broker, partitions) = slow(4);
    disk.close();
    for partition in &partitions {
        append(partition).unwrap();
    }
    wait_for("four flushes at once", || disk.syncing() == 4);
    for partition in &partitions {
        append(partition).unwrap();
    }
    disk.open();
    wait_for("all", || partitions.iter().all(|partition| partition.end_offset() == 2));
    assert!(!disk.met());
}

/// More partitions than there are threads are dirty all the time: those of the other mode have their turn all the same.
#[test]
fn partitions_that_are_always_dirty_do_not_keep_the_others_from_the_disk() {
    let disk = SlowDisk::default();
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.flush_interval_ms = 20;
    parts.declared = [("t", Durability::Always), ("other", Durability::Interval)]
        .map(|(name, durability)| TopicOptions {
            partitions: Some(if name == "t" { 12 } else { 1 }),
            durability: Some(durability),
            ..TopicOptions::named(topic(name))
        })
        .into();
    let broker = Broker::open(parts).unwrap();
    let busy: Vec<_> = (0..12).map(|id| broker.partition(&topic("t"), id).unwrap()).collect();
    let other = broker.partition(&topic("other"), 0).unwrap();
    disk.pause(Duration::from_millis(2));
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for partition in &busy {
                    append(partition).unwrap();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (bell, wake) = bell();
        for _ in 0..5 {
            append(&other).unwrap();
            other.await_flush(&wake, WaiterId(1));
            assert!(bell.wait(), "it never has its turn");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_failed_flush_answers_everybody() {
    let (disk, broker, partitions) = slow(2);
    let [partition, other] = &partitions[..] else { panic!() };
    let stored = append(partition).unwrap();
    wait_for("the first record", || is_stored(partition, stored));
    disk.close();
    let (producer, wake) = bell();
    let (reader, reader_wake) = bell();
    partition.park(&reader_wake, WaiterId(9));
    let runs: Vec<_> = (0..3)
        .map(|waiter| {
            let run = append(partition).unwrap();
            partition.await_flush(&wake, WaiterId(waiter));
            if waiter == 0 {
                wait_for("the flush to begin", || disk.syncing() == 1);
            }
            run
        })
        .collect();
    disk.disk.faults(|faults| faults.sync_error = true);
    disk.open();
    wait_for("all to be woken", || producer.len() == 3);
    let settled = partition.settled();
    assert_eq!(settled, Settled { until: 1, failed: true });
    assert!(settled.covers(stored) && !runs.iter().any(|&run| settled.covers(run)));
    assert!(reader.take().is_empty(), "nothing is shown");
    assert_eq!(partition.end_offset(), 1);
    let refused = append(partition).unwrap_err();
    assert!(matches!(refused, AppendError::Log(storage::AppendError::ReadOnly)));

    let run = append(other).unwrap();
    wait_for("the other partition", || is_stored(other, run));
    let name = partition.name().clone();
    assert_eq!(broker.health().problems, [Problem::ReadOnly { partitions: vec![name] }]);
}

#[test]
fn a_postponed_flush_keeps_everybody_waiting() {
    let disk = SlowDisk::default();
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.durability = Durability::Always;
    parts.storage.flush_interval_ms = 1;
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let run = append(&partition).unwrap();
    wait_for("the first record", || is_stored(&partition, run));
    // The next segment needs its directory flushed, which takes a descriptor.
    disk.disk.faults(|faults| faults.no_descriptors = true);
    let mut last = run;
    for _ in 0..5 {
        last = append_frame(&partition, b"", &vec![7; 600_000]).unwrap();
    }
    let flushes = broker.metrics().flushes.get();
    wait_for("some tries", || broker.metrics().flushes.get() > flushes + 3);
    assert!(!is_stored(&partition, last) && !partition.settled().failed);
    disk.disk.faults(|faults| faults.no_descriptors = false);
    wait_for("the last one", || is_stored(&partition, last));
    assert_eq!(broker.metrics().flush_errors.get(), 0);
}

/// A power cut at any time takes nothing that was settled, in segments that roll, whatever the disk keeps of the rest.
#[test]
fn no_power_cut_takes_what_was_settled() {
    for seed in 0..30 {
        let (disk, _broker, partitions) = slow(1);
        let partition = &partitions[0];
        let mut seeded = Seeded::new(seed);
        for _ in 0..12 {
            let payload = vec![7; 1 + seeded.below(400_000)];
            let run = append_frame(partition, b"", &payload).unwrap();
            if seeded.coin() {
                wait_for("the record", || is_stored(partition, run));
            }
            // In this order: the power goes after they were settled.
            let settled = partition.settled().until;
            let crashed = open(&disk.disk.crash(&mut seeded));
            let found = crashed.partition(&topic("t"), 0).unwrap().end_offset();
            assert!(found >= settled, "seed {seed}: {found} left of {settled}");
        }
    }
}

/// The log rolls twice while one flush makes sealed segments durable: that flush has not seen the last of them.
#[test]
fn a_flush_settles_no_segment_that_was_sealed_behind_its_back() {
    let (disk, _broker, partitions) = slow(1);
    let partition = &partitions[0];
    let roll = || append_frame(partition, b"", &vec![7; 1 << 20]).unwrap();
    roll();
    disk.close();
    for _ in 0..2 {
        roll();
        wait_for("a flush to begin", || disk.syncing() == 1);
    }
    for _ in 0..2 {
        disk.pass_one();
        wait_for("the next sync", || disk.syncing() == 1);
        roll();
    }
    for _ in 0..10 {
        let settled = partition.settled().until;
        for seed in 0..20 {
            let crashed = open(&disk.disk.crash(&mut Seeded::new(seed)));
            let found = crashed.partition(&topic("t"), 0).unwrap().end_offset();
            assert!(found >= settled, "{found} left of {settled}");
        }
        disk.pass_one();
        thread::sleep(Duration::from_millis(5));
    }
    disk.open();
}
