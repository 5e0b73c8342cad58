//! Topics that the configuration declares.

use super::*;

fn declare(name: &str, partitions: Option<u32>, durability: Option<Durability>) -> TopicOptions {
    TopicOptions { partitions, durability, ..TopicOptions::named(topic(name)) }
}

fn with(disk: &SimDisk, declared: &[TopicOptions]) -> Result<Broker, BrokerError> {
    let mut parts = parts(Arc::new(disk.clone()));
    parts.declared = declared.to_vec();
    parts.options.default_partitions = 2;
    parts.options.max_partitions = 12;
    Broker::open(parts)
}

fn partitions(broker: &Broker, name: &str) -> u32 {
    let there = |id: &u32| broker.existing(&topic(name), *id).is_some_and(|found| found.is_ok());
    u32::try_from((0..100).take_while(there).count()).unwrap()
}

#[test]
fn declared_topics_are_there_from_the_start_and_grow() {
    let disk = SimDisk::default();
    let broker = with(&disk, &[declare("a", Some(3), None), declare("b", None, None)]).unwrap();
    assert_eq!((partitions(&broker, "a"), partitions(&broker, "b")), (3, 2));
    append(&broker.partition(&topic("a"), 2).unwrap()).unwrap();

    let disk = disk.kill();
    let broker = with(&disk, &[declare("a", Some(5), None), declare("b", None, None)]).unwrap();
    assert_eq!((partitions(&broker, "a"), partitions(&broker, "b")), (5, 2));
    assert_eq!(broker.partition(&topic("a"), 2).unwrap().end_offset(), 1);
    append(&broker.partition(&topic("a"), 4).unwrap()).unwrap();
    // What is not declared any more stays.
    let broker = with(&disk.kill(), &[]).unwrap();
    assert_eq!((partitions(&broker, "a"), partitions(&broker, "b")), (5, 2));
}

#[test]
fn fewer_partitions_than_there_are_stop_the_start_before_anything_is_touched() {
    let disk = SimDisk::default();
    drop(with(&disk, &[declare("a", Some(3), None)]).unwrap());
    let disk = disk.kill();
    let files = disk.files();
    let error =
        with(&disk, &[declare("new", None, None), declare("a", Some(2), None)]).unwrap_err();
    assert!(
        matches!(&error, BrokerError::FewerPartitions { there: 3, declared: 2, .. }),
        "{error}"
    );
    assert!(error.to_string().ends_with("declare at least 3"), "{error}");
    assert_eq!(disk.files(), files);
    with(&disk, &[declare("a", Some(3), None)]).unwrap();
}

#[test]
fn declared_topics_count_towards_the_limit() {
    let disk = SimDisk::default();
    let error = with(&disk, &[declare("a", Some(13), None)]).unwrap_err();
    assert!(matches!(
        &error,
        BrokerError::Declared {
            source: PartitionError::LimitReached { partitions: 13, max: 12 },
            ..
        }
    ));
    // The broker's own is one of them.
    with(&disk, &[declare("a", Some(11), None)]).unwrap();
}

/// Partitions that are missing in between may be on another disk: an empty one in their place would hide that.
#[test]
fn a_gap_is_not_filled() {
    let disk = SimDisk::default();
    for dir in ["a_1", "a_3"] {
        disk.create_dir(&Path::new(DATA).join(dir)).unwrap();
    }
    let broker = with(&disk, &[declare("a", Some(5), None)]).unwrap();
    for (id, there) in [(0, false), (1, true), (2, false), (3, true), (4, true), (5, false)] {
        assert_eq!(broker.existing(&topic("a"), id).unwrap().is_ok(), there, "{id}");
    }
    // The count is that of the numbers, missing ones included.
    let error = with(&disk, &[declare("a", Some(4), None)]).unwrap_err();
    assert!(matches!(&error, BrokerError::FewerPartitions { there: 5, .. }), "{error}");
}

#[test]
fn each_topic_has_its_own_durability() {
    let declared = [
        declare("careful", None, Some(Durability::Always)),
        declare("quick", None, Some(Durability::Interval)),
        declare("plain", None, None),
    ];
    for global in [Durability::Interval, Durability::Always] {
        let slow = SlowDisk::default();
        let mut parts = parts(Arc::new(slow.clone()));
        parts.declared = declared.to_vec();
        parts.storage.durability = global;
        let broker = Broker::open(parts).unwrap();
        slow.close();
        // The offsets topic in every mode, too: a lost commit repeats records, no more.
        for (name, always) in [
            ("careful", true),
            ("quick", false),
            ("plain", global == Durability::Always),
            ("on-demand", global == Durability::Always),
            ("__consumer_offsets", false),
        ] {
            if name == "on-demand" {
                slow.open();
                broker.partition(&topic(name), 0).unwrap();
                slow.close();
            }
            let partition = broker.existing(&topic(name), 0).unwrap().unwrap();
            let run = append(&partition).unwrap();
            assert_eq!(partition.settled().covers(run), !always, "{name}, {global:?}");
            assert_eq!(partition.end_offset(), u64::from(!always), "{name}, {global:?}");
        }
        slow.open();
    }
}
