//! Creating and altering topics while the broker runs.

use serde_json::json;

use super::*;
use crate::model::limits::MIB;
use crate::storage::AlterError;
use crate::storage::sim_disk::Seeded;

fn named(name: &str) -> TopicOptions {
    TopicOptions::named(topic(name))
}

fn change(json: serde_json::Value) -> TopicChange {
    serde_json::from_value(json).unwrap()
}

fn with(disk: &SimDisk, options: Options, declared: &[TopicOptions]) -> Broker {
    let mut parts = Parts { options, ..parts(Arc::new(disk.clone())) };
    parts.declared = declared.to_vec();
    Broker::open(parts).unwrap()
}

#[test]
fn a_topic_is_created_as_asked_and_there_after_a_restart() {
    let disk = SimDisk::default();
    let broker = with(&disk, Options { default_partitions: 2, ..Options::default() }, &[]);
    let options: TopicOptions = serde_json::from_value(json!({
        "name": "a", "partitions": 3, "durability": "always", "retention_hours": 5,
        "max_segment_mb": 7, "max_payload_mb": 9
    }))
    .unwrap();
    let made = broker.create_topic(options.clone()).unwrap();
    assert_eq!((made.settings.clone(), made.declared, made.reserved), (options, false, false));
    let effective = EffectiveSettings {
        durability: Durability::Always,
        retention_hours: 5,
        retention_mb: 0,
        max_segment_mb: 7,
        max_payload_mb: 9,
        timestamp: storage::Timestamps::Create,
        cleanup: storage::Cleanup::Delete,
    };
    assert_eq!(made.effective, effective);
    let ids: Vec<_> = made.partitions.iter().map(|partition| partition.partition).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(broker.create_topic(named("b")).unwrap().partitions.len(), 2, "the default");
    let partition = broker.partition(&topic("a"), 2).unwrap();
    assert_eq!(u64::from(partition.max_payload_bytes()), 9 * MIB);
    append(&partition).unwrap();
    partition.flush_now().unwrap();
    let described = broker.describe_topic(&topic("a")).unwrap();
    let last = &described.partitions[2];
    assert_eq!((last.start_offset, last.end_offset, last.flushed_offset), (0, 1, 1));
    assert_eq!((last.segments, last.bytes, last.read_only), (1, 36, false));
    assert_eq!(open(&disk.kill()).describe_topic(&topic("a")).unwrap(), described);
    let names: Vec<_> = broker
        .topics()
        .into_iter()
        .map(|topic| (topic.name.to_string(), topic.partitions))
        .collect();
    let wanted = [("__consumer_offsets", 1), ("a", 3), ("b", 2)];
    assert_eq!(names, wanted.map(|(name, partitions)| (name.to_owned(), partitions)));
    assert!(broker.topics()[0].reserved && broker.topics()[1].bytes == 36);
}

#[test]
fn what_cannot_be_is_refused_with_the_setting_and_its_limits() {
    let disk = SimDisk::default();
    let options = Options { max_partitions: 6, max_topics: 2, ..Options::default() };
    let declared = TopicOptions { partitions: Some(2), ..named("declared") };
    let broker = with(&disk, options, &[declared]);
    let refused = |options: TopicOptions| broker.create_topic(options).unwrap_err().to_string();
    let zero = TopicOptions { partitions: Some(0), ..named("t") };
    assert_eq!(refused(zero), "partitions of topic t must be from 1 to 10000, not 0");
    let large = TopicOptions { max_payload_mb: Some(1025), ..named("t") };
    assert_eq!(refused(large), "max_payload_mb of topic t must be from 1 to 1024, not 1025");
    let small = TopicOptions { max_segment_mb: Some(0), ..named("t") };
    assert_eq!(refused(small), "max_segment_mb of topic t must be from 1 to 65536, not 0");
    let many = TopicOptions { partitions: Some(4), ..named("t") };
    assert!(matches!(
        broker.create_topic(many).unwrap_err(),
        TopicError::TooManyPartitions { wanted: 4, there: 3, max: 6 }
    ));
    assert!(refused(named("__t")).starts_with("__t is a name that the broker keeps for itself"));
    assert_eq!(refused(named("declared")), "topic declared exists already");
    broker.create_topic(named("t")).unwrap();
    assert!(matches!(
        broker.create_topic(named("u")).unwrap_err(),
        TopicError::TooManyTopics { there: 2, max: 2 }
    ));
    assert!(matches!(
        broker.partition(&topic("u"), 0).unwrap_err(),
        PartitionError::TooManyTopics { there: 2, max: 2 }
    ));

    let alter = |name: &str, json| broker.alter_topic(&topic(name), change(json)).unwrap_err();
    assert!(matches!(alter("u", json!({})), TopicError::Unknown(_)));
    assert!(matches!(alter("__consumer_offsets", json!({})), TopicError::Reserved(_)));
    assert!(matches!(alter("declared", json!({"retention_mb": 1})), TopicError::Declared(_)));
    assert!(matches!(
        alter("t", json!({"partitions": 0})),
        TopicError::OutOfRange { field: "partitions", value: 0, min: 1, max: 10_000, .. }
    ));
    assert!(matches!(
        alter("t", json!({"partitions": 5, "retention_mb": 3})),
        TopicError::TooManyPartitions { wanted: 4, there: 4, max: 6 }
    ));
    assert_eq!(broker.describe_topic(&topic("t")).unwrap().settings.retention_mb, None);
    broker.alter_topic(&topic("t"), change(json!({"partitions": 3}))).unwrap();
    assert!(matches!(
        alter("t", json!({"partitions": 2})),
        TopicError::FewerPartitions { there: 3, wanted: 2, .. }
    ));
    for wrong in [json!({"colour": 1}), json!({"partitions": -1}), json!({"durability": "often"})] {
        assert!(serde_json::from_value::<TopicChange>(wrong.clone()).is_err(), "{wrong}");
    }
    broker.close().unwrap();
    assert!(matches!(alter("t", json!({})), TopicError::Closed));
    assert!(matches!(broker.create_topic(named("v")).unwrap_err(), TopicError::Closed));
}

#[test]
fn settings_are_left_set_and_put_back_and_outlive_a_restart() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker.create_topic(TopicOptions { retention_mb: Some(4), ..named("t") }).unwrap();
    let altered = broker
        .alter_topic(&topic("t"), change(json!({"retention_hours": 0, "partitions": 3})))
        .unwrap();
    assert_eq!(
        (altered.settings.retention_hours, altered.settings.retention_mb),
        (Some(0), Some(4))
    );
    assert_eq!((altered.effective.retention_hours, altered.effective.retention_mb), (0, 4));
    assert_eq!((altered.settings.partitions, altered.partitions.len()), (Some(3), 3));
    append(&broker.partition(&topic("t"), 2).unwrap()).unwrap();
    let altered = broker
        .alter_topic(&topic("t"), change(json!({"retention_hours": null, "max_payload_mb": 2})))
        .unwrap();
    assert_eq!((altered.settings.retention_hours, altered.effective.retention_hours), (None, 168));
    for id in 0..3 {
        let partition = broker.partition(&topic("t"), id).unwrap();
        assert_eq!(u64::from(partition.max_payload_bytes()), 2 * MIB);
    }
    let again = open(&disk.kill()).describe_topic(&topic("t")).unwrap();
    assert_eq!(again.settings, altered.settings);
    assert_eq!(again.partitions[2].end_offset, 1);
}

/// Wherever the disk stops it: who is told that nothing was changed finds it so, now and after a restart.
#[test]
fn an_alteration_that_failed_is_not_in_force() {
    for left in 0..2 {
        let disk = SimDisk::default();
        let broker = open(&disk);
        broker.create_topic(TopicOptions { retention_mb: Some(4), ..named("t") }).unwrap();
        append(&broker.partition(&topic("t"), 0).unwrap()).unwrap();
        let before = broker.describe_topic(&topic("t")).unwrap();
        let asked = json!({"retention_mb": 1, "max_payload_mb": 2, "partitions": 3});
        // The directory is synced with the catalog, then with the new partitions.
        disk.faults(|faults| faults.names_left = Some(left));
        let refused = broker.alter_topic(&topic("t"), change(asked.clone())).unwrap_err();
        disk.faults(|faults| faults.names_left = None);
        assert!(matches!(refused, TopicError::Storage { .. }), "step {left}: {refused}");
        assert_eq!(broker.describe_topic(&topic("t")).unwrap(), before, "step {left}");
        let again = open(&disk.kill()).describe_topic(&topic("t")).unwrap();
        assert_eq!(again.effective, before.effective, "step {left}");
        assert_eq!(again.partitions[0], before.partitions[0], "step {left}");
        // And then it goes through.
        let after = broker.alter_topic(&topic("t"), change(asked)).unwrap();
        assert_eq!((after.partitions.len(), after.settings.retention_mb), (3, Some(1)));
        assert_eq!(
            open(&disk.kill()).describe_topic(&topic("t")).unwrap().settings,
            after.settings
        );
    }
}

#[test]
fn a_topic_with_missing_partitions_is_served_and_not_altered() {
    let disk = SimDisk::default();
    disk.create_dir(&Path::new(DATA).join("t_1")).unwrap();
    let broker = open(&disk);
    let refused = broker.alter_topic(&topic("t"), change(json!({"retention_mb": 1}))).unwrap_err();
    assert!(matches!(&refused, TopicError::Incomplete { missing, .. } if *missing == [0]));
    append(&broker.partition(&topic("t"), 1).unwrap()).unwrap();
}

#[test]
fn retention_and_the_size_of_segments_hold_from_now_on() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker.create_topic(TopicOptions { max_segment_mb: Some(3), ..named("t") }).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let half = vec![1; usize::try_from(MIB / 2).unwrap() - 100];
    let fill = |frames| {
        for _ in 0..frames {
            append_frame(&partition, b"", &half).unwrap();
        }
        partition.flush_now().unwrap();
    };
    let segments = || broker.describe_topic(&topic("t")).unwrap().partitions[0].segments;
    fill(6);
    assert_eq!(segments(), 1);
    // Smaller: the one that is full already ends.
    broker.alter_topic(&topic("t"), change(json!({"max_segment_mb": 1}))).unwrap();
    fill(4);
    assert_eq!(segments(), 3);
    // Larger: the next one is.
    broker.alter_topic(&topic("t"), change(json!({"max_segment_mb": 4}))).unwrap();
    fill(8);
    assert_eq!(segments(), 4);
    broker.alter_topic(&topic("t"), change(json!({"retention_mb": 1}))).unwrap();
    broker.retain(&|| false);
    assert!(partition.start_offset() >= 10, "{}", partition.start_offset());
    let (mut cursor, _) = partition.resume(partition.start_offset()).unwrap();
    assert!(matches!(partition.fetch(&mut cursor, 100), Fetch::Slice(_) | Fetch::Tail));
}

#[test]
fn durability_is_switched_both_ways() {
    let slow = SlowDisk::default();
    let broker = Broker::open(parts(Arc::new(slow.clone()))).unwrap();
    broker.create_topic(named("t")).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let before = append(&partition).unwrap();
    assert!(partition.settled().covers(before) && partition.flushed_offset() == 0);

    broker.alter_topic(&topic("t"), change(json!({"durability": "always"}))).unwrap();
    assert_eq!(partition.durability(), Durability::Always);
    assert_eq!(partition.flushed_offset(), 1, "what was shown is durable now");

    slow.close_in(&Path::new(DATA).join("t_0"));
    let run = append(&partition).unwrap();
    assert!(!partition.settled().covers(run));
    assert_eq!(partition.end_offset(), 1, "not shown yet");
    let (bell, wake) = bell();
    partition.park(&wake, WaiterId(1));
    partition.await_flush(&wake, WaiterId(2));
    broker.alter_topic(&topic("t"), change(json!({"durability": null}))).unwrap();
    assert!(partition.settled().covers(run));
    assert_eq!(partition.end_offset(), 2);
    wait_for("both to be woken", || bell.len() == 2);
    slow.open();
    wait_for("the flush", || partition.flushed_offset() == 2);
    let (mut cursor, _) = partition.resume(0).unwrap();
    assert!(matches!(partition.fetch(&mut cursor, 1000), Fetch::Slice(slice) if slice.len() == 72));
}

#[test]
fn after_a_failed_flush_durability_stays_as_it_is() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker
        .create_topic(TopicOptions { durability: Some(Durability::Always), ..named("t") })
        .unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    disk.faults(|faults| faults.sync_error = true);
    append(&partition).unwrap();
    wait_for("the failure", || partition.is_read_only());
    let refused =
        broker.alter_topic(&topic("t"), change(json!({"durability": "interval"}))).unwrap_err();
    assert!(matches!(refused, TopicError::ReadOnly(_)), "{refused}");
    assert_eq!(partition.end_offset(), 0, "what is not durable is not shown");
    broker.alter_topic(&topic("t"), change(json!({"retention_mb": 1}))).unwrap();

    // A flush that fails because of the change: the change holds.
    broker.create_topic(named("u")).unwrap();
    let partition = broker.partition(&topic("u"), 0).unwrap();
    append(&partition).unwrap();
    disk.faults(|faults| faults.sync_error = true);
    // The catalog is flushed first.
    let refused = broker.alter_topic(&topic("u"), change(json!({"durability": "always"})));
    let refused = refused.unwrap_err();
    assert!(matches!(refused, TopicError::Storage { .. }), "{refused}");
    assert_eq!(partition.durability(), Durability::Interval);
    disk.faults(|faults| faults.sync_error = true);
    let options = storage::LogOptions {
        segment_bytes: MIB,
        durability: Durability::Always,
        on_corruption: storage::OnCorruption::Disconnect,
        retention: storage::Retention::default(),
        timestamps: storage::Timestamps::Create,
        cleanup: storage::Cleanup::Delete,
    };
    let failed = partition.alter(options, 1).unwrap_err();
    assert!(matches!(failed, AlterError::Flush(_)), "{failed}");
    assert!(partition.is_read_only() && partition.durability() == Durability::Always);
    assert_eq!(broker.metrics().flush_errors.get(), 2);
}

/// Appends while the mode goes back and forth: nothing is lost, shown twice or left hanging.
#[test]
fn switching_under_load_loses_nothing() {
    let disk = SimDisk::default();
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.flush_interval_ms = 1;
    let broker = Broker::open(parts).unwrap();
    broker.create_topic(named("t")).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let payload = vec![7; 20_000];
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..500 {
                append_frame(&partition, b"", &payload).unwrap();
            }
        });
        let mut always = false;
        while !writer.is_finished() {
            always = !always;
            let durability = if always { "always" } else { "interval" };
            broker.alter_topic(&topic("t"), change(json!({"durability": durability}))).unwrap();
        }
    });
    broker.alter_topic(&topic("t"), change(json!({"durability": "interval"}))).unwrap();
    assert_eq!(partition.end_offset(), 500);
    broker.close().unwrap();
    let (mut cursor, _) = partition.resume(0).unwrap();
    let mut bytes = 0;
    while let Fetch::Slice(slice) = partition.fetch(&mut cursor, u64::MAX) {
        bytes += slice.len();
        cursor.advance(slice.len());
    }
    assert_eq!(bytes, 500 * 20_029);
    drop(partition);
    assert_eq!(open(&disk).partition(&topic("t"), 0).unwrap().end_offset(), 500);
}

/// The power goes after appends in both modes: what was acked in `always`, and what was shown when it began, is there.
#[test]
fn no_switch_weakens_what_was_promised() {
    for seed in 0..40 {
        let mut seeded = Seeded::new(seed);
        let disk = SimDisk::default();
        let broker = open(&disk);
        broker.create_topic(named("t")).unwrap();
        let partition = broker.partition(&topic("t"), 0).unwrap();
        let payload = vec![1; 200_000];
        let mut promised = 0;
        for _ in 0..30 {
            match seeded.below(4) {
                0 => {
                    let always = seeded.coin();
                    let durability = if always { "always" } else { "interval" };
                    let json = json!({"durability": durability});
                    broker.alter_topic(&topic("t"), change(json)).unwrap();
                    if always {
                        promised = promised.max(partition.end_offset());
                    }
                }
                1 => partition.flush_now().unwrap(),
                _ => {
                    let run = append_frame(&partition, b"", &payload).unwrap();
                    let always = partition.durability() == Durability::Always;
                    if always && partition.settled().covers(run) {
                        promised = promised.max(run.next);
                    }
                }
            }
            if partition.durability() == Durability::Always {
                promised = promised.max(partition.end_offset());
            }
        }
        let after = open(&disk.crash(&mut seeded));
        let there = after.partition(&topic("t"), 0).unwrap().end_offset();
        assert!(there >= promised, "seed {seed}: {there} of {promised}");
    }
}
