//! Deleting topics: faults 3 and 19.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::storage::sim_disk::Seeded;

fn with(disk: &SimDisk) -> Broker {
    try_open(disk, Options { default_partitions: 3, ..Options::default() }, NEVER_MS).unwrap()
}

/// A topic with a record in each of its three partitions, and a group that has committed all of them.
fn fill(broker: &Broker, name: &str) {
    for id in 0..3 {
        let partition = broker.partition(&topic(name), id).unwrap();
        append(&partition).unwrap();
        broker.commit(key("g", name, id), &partition, 1).unwrap();
    }
}

fn committed(broker: &Broker, name: &str) -> Vec<Option<u64>> {
    (0..3).map(|id| broker.committed(&key("g", name, id))).collect()
}

fn ends(broker: &Broker, name: &str) -> Vec<u64> {
    broker.describe_topic(&topic(name)).map_or_else(
        |_| Vec::new(),
        |topic| topic.partitions.iter().map(|partition| partition.end_offset).collect(),
    )
}

/// Directories with a name of this beginning.
fn dirs(disk: &SimDisk, prefix: &str) -> usize {
    let entries = disk.list(Path::new(DATA)).unwrap();
    entries.iter().filter(|entry| entry.is_dir && entry.name.starts_with(prefix)).count()
}

#[test]
fn a_deleted_topic_is_gone_and_its_name_begins_anew() {
    let disk = SimDisk::default();
    let broker = with(&disk);
    fill(&broker, "t");
    fill(&broker, "other");
    let old = broker.partition(&topic("t"), 1).unwrap();
    broker.delete_topic(&topic("t")).unwrap();
    assert!(old.is_deleted());
    assert!(matches!(append(&old).unwrap_err(), AppendError::Deleted));
    let late = broker.commit(key("g", "t", 1), &old, 1).unwrap_err();
    assert!(matches!(late, CommitError::Deleted));
    assert!(broker.existing(&topic("t"), 0).is_none());
    assert!(matches!(broker.describe_topic(&topic("t")), Err(TopicError::Unknown(_))));
    assert!(matches!(broker.delete_topic(&topic("t")), Err(TopicError::Unknown(_))));
    assert_eq!(committed(&broker, "t"), [None; 3]);
    assert_eq!(broker.topic_count(), 1);

    // At once, on demand.
    let new = broker.partition(&topic("t"), 1).unwrap();
    assert_eq!((new.start_offset(), new.end_offset()), (0, 0));
    assert_ne!(new.ordinal(), old.ordinal(), "the flusher tells them apart");
    append(&new).unwrap();
    append(&new).unwrap();
    assert!(
        broker.commit(key("g", "t", 1), &old, 0).is_err(),
        "the old one takes no commits still"
    );
    assert_eq!(committed(&broker, "t"), [None; 3]);
    assert_eq!((dirs(&disk, "t_"), dirs(&disk, ".deleted-t_")), (3, 3));
    assert_eq!(broker.remove_deleted(&|| false).unwrap(), 3);
    assert_eq!((dirs(&disk, "t_"), dirs(&disk, ".deleted")), (3, 0));

    let broker = with(&disk.kill());
    assert_eq!((ends(&broker, "t"), ends(&broker, "other")), (vec![0, 2, 0], vec![1, 1, 1]));
    assert_eq!(
        (committed(&broker, "t"), committed(&broker, "other")),
        (vec![None; 3], vec![Some(1); 3])
    );
    assert_eq!(broker.metrics().offsets_malformed.get(), 0, "what is forgotten is not malformed");
}

#[test]
fn the_brokers_own_topics_stay() {
    let broker = with(&SimDisk::default());
    let refused = broker.delete_topic(&topic("__consumer_offsets")).unwrap_err();
    assert!(matches!(refused, TopicError::Reserved(_)));
    append(&offsets_log(&broker)).unwrap();
}

#[test]
fn a_declared_topic_comes_back_empty() {
    let disk = SimDisk::default();
    let open = |disk: &SimDisk| {
        let mut parts = parts(Arc::new(disk.clone()));
        parts.declared =
            vec![TopicOptions { partitions: Some(3), ..TopicOptions::named(topic("t")) }];
        Broker::open(parts).unwrap()
    };
    let broker = open(&disk);
    fill(&broker, "t");
    broker.delete_topic(&topic("t")).unwrap();
    assert_eq!(broker.topic_count(), 0);
    let broker = open(&disk.kill());
    assert_eq!((ends(&broker, "t"), committed(&broker, "t")), (vec![0; 3], vec![None; 3]));
}

/// Readers and producers are woken, and what was acked by nobody is acked by nobody.
#[test]
fn whoever_waits_is_told() {
    let slow = SlowDisk::default();
    let mut parts = parts(Arc::new(slow.clone()));
    parts.storage.durability = Durability::Always;
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    append(&partition).unwrap();
    wait_for("the flush", || partition.end_offset() == 1);
    let (mut cursor, _) = partition.resume(0).unwrap();
    let Fetch::Slice(slice) = partition.fetch(&mut cursor, 10) else { panic!() };
    cursor.advance(slice.len());

    slow.close_in(&Path::new(DATA).join("t_0"));
    let run = append(&partition).unwrap();
    wait_for("the flush that hangs", || slow.syncing() == 1);
    let (bell, wake) = bell();
    partition.park(&wake, WaiterId(1));
    partition.await_flush(&wake, WaiterId(2));
    broker.watch_deletions(&wake, WaiterId(3));
    thread::scope(|scope| {
        let deleting = scope.spawn(|| broker.delete_topic(&topic("t")));
        wait_for("the deletion to begin", || partition.is_deleted());
        // It waits for the disk; nobody else waits for it.
        assert!(broker.existing(&topic("t"), 0).is_none());
        assert_eq!(slow.syncing(), 1, "it waits still");
        slow.open();
        deleting.join().unwrap().unwrap();
    });
    assert!(bell.len() >= 3, "{}", bell.len());
    let settled = partition.settled();
    assert!(settled.failed || settled.covers(run));
    // A reader in the middle of a frame gets the rest of its segment.
    let Fetch::Slice(slice) = partition.fetch(&mut cursor, 1000) else { panic!() };
    cursor.advance(slice.len());
    assert!(matches!(partition.fetch(&mut cursor, 1000), Fetch::Deleted));
    assert!(cursor.tail_offset().is_some(), "it stands between two frames");
    assert_eq!(broker.metrics().flush_errors.get(), 0, "a deleted partition is no failed one");
    assert!(broker.health().problems.is_empty());
}

/// Passes of retention, scrubs and flushes that began before the deletion do nothing to the topic that comes after it.
#[test]
fn nothing_of_the_old_topic_touches_the_new_one() {
    for seed in 0..8 {
        let disk = SimDisk::default();
        let mut parts = parts(Arc::new(disk.clone()));
        parts.storage.retention_mb = 1;
        parts.storage.flush_interval_ms = 1;
        let broker = Broker::open(parts).unwrap();
        let payload = vec![1; 900_000];
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let maintain = || {
                while !done.load(Ordering::Relaxed) {
                    broker.retain(&|| false);
                    broker.scrub(&mut |_| true).unwrap();
                }
            };
            scope.spawn(maintain);
            for round in 0..3 {
                let partition = broker.partition(&topic("t"), 0).unwrap();
                assert_eq!((partition.start_offset(), partition.end_offset()), (0, 0));
                for _ in 0..3 + (seed + round) % 3 {
                    append_frame(&partition, b"", &payload).unwrap();
                }
                if round < 2 {
                    broker.delete_topic(&topic("t")).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let partition = broker.partition(&topic("t"), 0).unwrap();
        let (start, end) = (partition.start_offset(), partition.end_offset());
        broker.close().unwrap();
        let again = with(&disk);
        let partition = again.partition(&topic("t"), 0).unwrap();
        assert_eq!((partition.start_offset(), partition.end_offset()), (start, end), "seed {seed}");
        assert_eq!(again.metrics().torn_bytes.get(), 0);
        assert_eq!(again.metrics().offset_gaps.get(), 0);
    }
}

/// Whenever the disk refuses to go on, and whenever the power goes then, all of the topic is there afterwards with all that
/// was committed, or nothing of it.
#[test]
fn a_topic_is_deleted_whole_or_not_at_all() {
    let mut outcomes = [0, 0];
    for left in 0..12 {
        let disk = SimDisk::default();
        let broker = with(&disk);
        fill(&broker, "t");
        fill(&broker, "other");
        for partition in broker.partitions() {
            partition.flush_now().unwrap();
        }
        disk.faults(|faults| faults.names_left = Some(left));
        let deleted = broker.delete_topic(&topic("t"));
        disk.faults(|faults| faults.names_left = None);
        let crashed = (0..20).map(|seed| disk.crash(&mut Seeded::new(seed)));
        for after in crashed.chain([disk.kill()]) {
            let broker = with(&after);
            let there = !ends(&broker, "t").is_empty();
            outcomes[usize::from(there)] += 1;
            if there {
                assert!(
                    !matches!(deleted, Ok(()) | Err(TopicError::Unfinished { .. })),
                    "step {left}"
                );
                assert_eq!(
                    (ends(&broker, "t"), committed(&broker, "t")),
                    (vec![1; 3], vec![Some(1); 3])
                );
            } else {
                assert_eq!((committed(&broker, "t"), dirs(&after, "t_")), (vec![None; 3], 0));
                let new = broker.partition(&topic("t"), 0).unwrap();
                assert_eq!(new.end_offset(), 0);
                append(&new).unwrap();
                broker.remove_deleted(&|| false).unwrap();
                let again = with(&after.kill());
                assert_eq!((ends(&again, "t"), dirs(&after, ".deleted")), (vec![1, 0, 0], 0));
            }
            assert_eq!(
                (ends(&broker, "other"), committed(&broker, "other")),
                (vec![1; 3], vec![Some(1); 3])
            );
        }
        // The same process goes on.
        match deleted {
            Ok(()) => {}
            Err(TopicError::Unfinished { .. }) => {
                broker.retain(&|| false);
                assert_eq!(dirs(&disk, "t_"), 0, "step {left}");
            }
            Err(TopicError::Storage { .. }) => {
                append(&broker.partition(&topic("t"), 2).unwrap()).unwrap();
                assert_eq!(ends(&with(&disk.kill()), "t"), [1, 1, 2], "step {left}");
                broker.delete_topic(&topic("t")).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(committed(&broker, "t"), [None; 3]);
        assert_eq!(
            broker.create_topic(TopicOptions::named(topic("t"))).unwrap().partitions.len(),
            3
        );
        assert_eq!(ends(&broker, "t"), [0; 3]);
    }
    assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
}

/// What is left of a deletion stands in the way of a new topic of the same name, and of nothing else.
#[test]
fn an_unfinished_deletion_keeps_its_name() {
    let disk = SimDisk::default();
    let broker = with(&disk);
    fill(&broker, "t");
    // The catalog is written, and nothing after it.
    disk.faults(|faults| faults.names_left = Some(1));
    let unfinished = broker.delete_topic(&topic("t")).unwrap_err();
    assert!(matches!(unfinished, TopicError::Unfinished { .. }), "{unfinished}");
    let refused = broker.partition(&topic("t"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::Unfinished { .. }), "{refused}");
    let refused = broker.create_topic(TopicOptions::named(topic("t"))).unwrap_err();
    assert!(matches!(refused, TopicError::Unfinished { .. }), "{refused}");
    disk.faults(|faults| faults.names_left = None);
    broker.partition(&topic("u"), 0).unwrap();
    assert_eq!(ends(&with(&disk.kill()), "t"), [0; 0]);
    assert_eq!(broker.partition(&topic("t"), 0).unwrap().end_offset(), 0);
    assert_eq!(committed(&broker, "t"), [None; 3]);
}

/// One directory that cannot be removed keeps none of the others, and a stop waits for one alone.
#[test]
fn directories_are_removed_one_by_one() {
    let disk = SimDisk::default();
    let broker = with(&disk);
    fill(&broker, "t");
    broker.delete_topic(&topic("t")).unwrap();
    let asked = AtomicBool::new(false);
    assert_eq!(broker.remove_deleted(&|| asked.swap(true, Ordering::Relaxed)).unwrap(), 1);
    assert_eq!(dirs(&disk, ".deleted"), 2);
    disk.faults(|faults| faults.no_remove = Some(".deleted-t_1"));
    assert_eq!(broker.remove_deleted(&|| false).unwrap(), 1);
    assert_eq!(dirs(&disk, ".deleted-t_1"), 1);
    disk.faults(|faults| faults.no_remove = None);
    assert_eq!(broker.remove_deleted(&|| false).unwrap(), 1);
    assert_eq!(dirs(&disk, ".deleted"), 0);
}

/// What stands in the way of a deletion stands in the way of no start.
#[test]
fn a_start_goes_on_past_what_cannot_be_put_aside() {
    let disk = SimDisk::default();
    let broker = with(&disk);
    fill(&broker, "t");
    fill(&broker, "other");
    disk.faults(|faults| faults.names_left = Some(1));
    let unfinished = broker.delete_topic(&topic("t")).unwrap_err();
    assert!(matches!(unfinished, TopicError::Unfinished { .. }), "{unfinished}");
    drop(broker);
    let disk = disk.kill();
    disk.faults(|faults| faults.no_rename = true);
    let mut parts = parts(Arc::new(disk.clone()));
    parts.options.default_partitions = 3;
    parts.declared = vec![TopicOptions::named(topic("t"))];
    let broker = Broker::open(parts).unwrap();
    assert_eq!((ends(&broker, "t"), ends(&broker, "other")), (vec![], vec![1; 3]));
    let refused = broker.partition(&topic("t"), 0).unwrap_err();
    assert!(matches!(refused, PartitionError::Unfinished { .. }), "{refused}");
    disk.faults(|faults| faults.no_rename = false);
    broker.retain(&|| false);
    assert_eq!((dirs(&disk, "t_"), dirs(&disk, ".deleted-t_")), (0, 3));
    assert_eq!(broker.partition(&topic("t"), 0).unwrap().end_offset(), 0);
}

#[test]
fn deleting_makes_room_for_others() {
    let options = Options { max_topics: 2, max_partitions: 3, ..Options::default() };
    let broker = try_open(&SimDisk::default(), options, NEVER_MS).unwrap();
    for _ in 0..50 {
        broker.partition(&topic("a"), 0).unwrap();
        broker.partition(&topic("b"), 0).unwrap();
        assert!(broker.partition(&topic("c"), 0).is_err());
        broker.delete_topic(&topic("a")).unwrap();
        broker.partition(&topic("c"), 0).unwrap();
        broker.delete_topic(&topic("c")).unwrap();
    }
}

/// Row 19: many topics are asked for, few are made.
#[test]
fn no_more_topics_than_may_be() {
    let options = Options { max_topics: 100, ..Options::default() };
    let disk = SimDisk::default();
    let broker = try_open(&disk, options, NEVER_MS).unwrap();
    let mut made = 0;
    for number in 0..20_000 {
        match broker.partition(&topic(&format!("t{number}")), 0) {
            Ok(_) => made += 1,
            Err(PartitionError::TooManyTopics { there: 100, max: 100 }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((made, broker.topic_count()), (100, 100));
    append(&broker.partition(&topic("t99"), 0).unwrap()).unwrap();
    assert_eq!(dirs(&disk, "t"), 100);
}
