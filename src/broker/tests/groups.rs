//! Where groups stand, and putting them somewhere else.

use serde_json::json;

use super::*;

fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

fn reset(json: serde_json::Value) -> GroupReset {
    serde_json::from_value(json).unwrap()
}

/// Topic `t` with two partitions of ten and of four records, with their numbers as timestamps.
fn filled(disk: &SimDisk) -> Broker {
    let broker = try_open(disk, Options { default_partitions: 2, ..Options::default() }, NEVER_MS);
    let broker = broker.unwrap();
    for (id, count) in [(0, 10), (1, 4)] {
        let partition = broker.partition(&topic("t"), id).unwrap();
        for timestamp in 0..count {
            let mut bytes = Vec::new();
            FrameBuilder::new(timestamp).write(b"p", &mut bytes).unwrap();
            partition.append(&mut Run::parse(&mut bytes, &FrameLimits::STORED).unwrap()).unwrap();
        }
    }
    broker
}

#[test]
fn groups_are_described_with_their_lag() {
    let disk = SimDisk::default();
    let broker = filled(&disk);
    assert!(broker.groups().is_empty());
    assert!(matches!(broker.describe_group(&group("g")), Err(GroupError::Unknown(_))));
    let first = broker.partition(&topic("t"), 0).unwrap();
    broker.commit(key("g", "t", 0), &first, 0).unwrap();
    broker.commit(key("h", "t", 0), &first, 7).unwrap();
    let member = broker.join(key("g", "t", 1));
    let other = broker.join(key("idle", "t", 1));
    let list = broker.groups();
    let brief: Vec<_> = list
        .iter()
        .map(|group| (group.name.as_str(), group.consumers, group.partitions, group.lag))
        .collect();
    assert_eq!(brief, [("g", 1, 1, 10), ("h", 0, 1, 3), ("idle", 1, 0, 0)]);
    assert_eq!((list[0].last_commit_ns, list[2].last_commit_ns), (Some(7), None));
    let described = broker.describe_group(&group("g")).unwrap();
    assert_eq!(described.consumers, 1);
    let [zero, one] = &described.offsets[..] else { panic!("{described:?}") };
    assert_eq!((zero.committed, zero.lag, zero.consumers), (Some(0), Some(10), 0));
    assert_eq!(
        (zero.start_offset, zero.end_offset, zero.last_commit_ns),
        (Some(0), Some(10), Some(7))
    );
    // Nothing committed is not 0 committed.
    assert_eq!((one.committed, one.lag, one.consumers, one.end_offset), (None, None, 1, Some(4)));
    drop((member, other));
    assert_eq!(broker.describe_group(&group("g")).unwrap().offsets.len(), 1);
    assert!(matches!(broker.describe_group(&group("idle")), Err(GroupError::Unknown(_))));

    // Restored with their times; an offset of a partition that is not there has no lag.
    let log = offsets_log(&broker);
    append_frame(&log, b"h:gone:5", &[0, 0, 0, 0, 0, 0, 0, 9]).unwrap();
    let again = open(&disk.kill());
    assert_eq!(again.groups()[0].last_commit_ns, Some(7));
    let gone = &again.describe_group(&group("h")).unwrap().offsets[0];
    assert_eq!((gone.topic.as_str(), gone.committed, gone.lag), ("gone", Some(9), None));
    assert_eq!((gone.start_offset, gone.end_offset), (None, None));
}

#[test]
fn a_group_is_reset_to_every_kind_of_place() {
    let disk = SimDisk::default();
    let broker = filled(&disk);
    let steps = |json| {
        let steps = broker.reset_group(&group("g"), &reset(json)).unwrap();
        let steps = steps.into_iter().map(|step| (step.partition, step.from, step.to));
        steps.collect::<Vec<_>>()
    };
    assert_eq!(steps(json!({"topic": "t", "to": "latest"})), [(0, None, 10), (1, None, 4)]);
    assert_eq!(steps(json!({"topic": "t", "to": "earliest"})), [(0, Some(10), 0), (1, Some(4), 0)]);
    let only = json!({"topic": "t", "partitions": [0], "to": {"offset": 6}});
    assert_eq!(steps(only), [(0, Some(0), 6)]);
    let timed = json!({"topic": "t", "to": {"timestamp_ns": 3}});
    assert_eq!(steps(timed), [(0, Some(6), 3), (1, Some(0), 3)]);
    let dry = json!({"topic": "t", "to": {"timestamp_ns": 100}, "dry_run": true});
    assert_eq!(steps(dry), [(0, Some(3), 10), (1, Some(3), 4)]);
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(3), "nothing was changed");
    assert_eq!(open(&disk.kill()).committed(&key("g", "t", 1)), Some(3));
}

#[test]
fn a_reset_that_cannot_be_changes_nothing() {
    let broker = filled(&SimDisk::default());
    let first = broker.partition(&topic("t"), 0).unwrap();
    broker.commit(key("g", "t", 0), &first, 2).unwrap();
    let refused = |json| broker.reset_group(&group("g"), &reset(json)).unwrap_err();
    let error = refused(json!({"topic": "t", "to": {"offset": 7}}));
    assert_eq!(error.to_string(), "offset 7 is outside partition t/1, which goes from 0 to 4");
    assert!(matches!(
        refused(json!({"topic": "t", "partitions": [0, 2], "to": "latest"})),
        GroupError::UnknownPartition { partition: 2, .. }
    ));
    assert!(matches!(refused(json!({"topic": "u", "to": "latest"})), GroupError::UnknownTopic(_)));
    let member = broker.join(key("g", "t", 0));
    assert!(matches!(
        refused(json!({"topic": "t", "to": "latest"})),
        GroupError::InUse { consumers: 1, .. }
    ));
    assert!(matches!(broker.delete_group(&group("g")), Err(GroupError::InUse { .. })));
    let elsewhere = reset(json!({"topic": "t", "partitions": [1], "to": "latest"}));
    broker.reset_group(&group("g"), &elsewhere).unwrap();
    drop(member);
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(2));
    for wrong in [
        json!({"topic": "t"}),
        json!({"topic": "../t", "to": "latest"}),
        json!({"topic": "t", "to": "middle"}),
        json!({"topic": "t", "to": {"offset": -1}}),
        json!({"topic": "t", "to": "latest", "force": true}),
    ] {
        assert!(serde_json::from_value::<GroupReset>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_deleted_group_has_committed_nothing() {
    let disk = SimDisk::default();
    let broker = filled(&disk);
    for id in 0..2 {
        let partition = broker.partition(&topic("t"), id).unwrap();
        broker.commit(key("g", "t", id), &partition, 0).unwrap();
        broker.commit(key("h", "t", id), &partition, 1).unwrap();
    }
    broker.delete_group(&group("g")).unwrap();
    assert!(matches!(broker.delete_group(&group("g")), Err(GroupError::Unknown(_))));
    let check = |broker: &Broker| {
        assert_eq!(broker.committed(&key("g", "t", 0)), None);
        assert_eq!(broker.committed(&key("h", "t", 1)), Some(1));
        assert_eq!(broker.committed_count(), 2);
        assert_eq!(broker.metrics().offsets_malformed.get(), 0);
    };
    check(&broker);
    let again = open(&disk.kill());
    check(&again);
    let partition = again.partition(&topic("t"), 0).unwrap();
    again.commit(key("g", "t", 0), &partition, 4).unwrap();
}
