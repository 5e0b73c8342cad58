//! Another configuration while the broker runs.

use super::*;
use crate::model::limits::MIB;

fn configuration(change: impl FnOnce(&mut Reconfiguration)) -> Reconfiguration {
    let Parts { options, offsets, max_payload_mb, declared, storage, .. } =
        parts(Arc::new(SimDisk::default()));
    let mut new = Reconfiguration { options, offsets, max_payload_mb, declared, storage };
    change(&mut new);
    new
}

fn named(name: &str) -> TopicOptions {
    TopicOptions::named(topic(name))
}

#[test]
fn topics_follow_what_they_do_not_set_themselves() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker.create_topic(named("follows")).unwrap();
    let own = TopicOptions {
        retention_hours: Some(5),
        durability: Some(Durability::Interval),
        ..named("own")
    };
    broker.create_topic(own).unwrap();
    append(&broker.partition(&topic("follows"), 0).unwrap()).unwrap();
    let new = configuration(|new| {
        new.storage.retention_hours = 7;
        new.storage.durability = Durability::Always;
        new.max_payload_mb = 3;
        new.options.default_partitions = 4;
    });
    assert!(broker.reconfigure(&new).unwrap().is_empty());
    let effective = |name: &str| {
        let effective = broker.describe_topic(&topic(name)).unwrap().effective;
        (effective.retention_hours, effective.durability, effective.max_payload_mb)
    };
    assert_eq!(effective("follows"), (7, Durability::Always, 3));
    assert_eq!(effective("own"), (5, Durability::Interval, 3));
    let partition = broker.partition(&topic("follows"), 0).unwrap();
    assert_eq!(u64::from(partition.max_payload_bytes()), 3 * MIB);
    assert_eq!(partition.flushed_offset(), 1, "what was shown is durable");
    assert_eq!(broker.create_topic(named("later")).unwrap().partitions.len(), 4);
    // It is not what the topic says: the next start goes by its own configuration.
    let settings = open(&disk.kill()).describe_topic(&topic("follows")).unwrap();
    assert_eq!(
        (settings.settings.retention_hours, settings.effective.retention_hours),
        (None, 168)
    );
}

#[test]
fn an_error_changes_nothing() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker.create_topic(TopicOptions { partitions: Some(3), ..named("a") }).unwrap();
    let files = disk.files();
    let new = configuration(|new| {
        new.storage.retention_hours = 7;
        new.declared = vec![named("new"), TopicOptions { partitions: Some(2), ..named("a") }];
    });
    let error = broker.reconfigure(&new).unwrap_err();
    assert!(
        matches!(&error, BrokerError::FewerPartitions { there: 3, declared: 2, .. }),
        "{error}"
    );
    assert_eq!(broker.describe_topic(&topic("a")).unwrap().effective.retention_hours, 168);
    assert!(broker.describe_topic(&topic("new")).is_err());
    assert_eq!(disk.files(), files);
}

#[test]
fn one_topic_that_cannot_be_altered_keeps_no_other_from_it() {
    let disk = SimDisk::default();
    disk.create_dir(&Path::new(DATA).join("gap_1")).unwrap();
    let broker = open(&disk);
    let new = configuration(|new| {
        let gap = TopicOptions { partitions: Some(3), ..named("gap") };
        new.declared = vec![gap, TopicOptions { retention_mb: Some(2), ..named("new") }];
    });
    let failed = broker.reconfigure(&new).unwrap();
    assert!(matches!(&failed[..], [TopicError::Incomplete { missing, .. }] if *missing == [0]));
    let made = broker.describe_topic(&topic("new")).unwrap();
    assert_eq!((made.declared, made.effective.retention_mb), (true, 2));
    let refused = broker.alter_topic(&topic("new"), TopicChange::default()).unwrap_err();
    assert!(matches!(refused, TopicError::Declared(_)), "{refused}");
    // The gap stays one.
    let again = open(&disk.kill());
    assert_eq!(again.describe_topic(&topic("gap")).unwrap().partitions.len(), 1);
    assert_eq!(again.describe_topic(&topic("new")).unwrap().settings, made.settings);
}

#[test]
fn a_broker_that_is_closed_takes_nothing_over() {
    let broker = open(&SimDisk::default());
    broker.close().unwrap();
    let new = configuration(|new| new.declared = vec![named("new")]);
    assert!(matches!(broker.reconfigure(&new).unwrap()[..], [TopicError::Closed]));
}

#[test]
fn an_opening_ends_where_it_is_asked_to() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    broker.create_topic(TopicOptions { partitions: Some(3), ..named("a") }).unwrap();
    append(&broker.partition(&topic("a"), 2).unwrap()).unwrap();
    let disk = disk.kill();
    let progress = Arc::<OpenProgress>::default();
    progress.stop();
    let stopped = Parts { progress: Arc::clone(&progress), ..parts(Arc::new(disk.clone())) };
    assert!(Broker::open(stopped).is_err());
    assert_eq!(progress.get(), (0, 4));

    let progress = Arc::<OpenProgress>::default();
    let whole = Parts { progress: Arc::clone(&progress), ..parts(Arc::new(disk)) };
    let broker = Broker::open(whole).unwrap();
    assert_eq!(progress.get(), (4, 4));
    assert_eq!(broker.partition(&topic("a"), 2).unwrap().end_offset(), 1);
    // While it runs, the end is somebody else's to bring about.
    progress.stop();
    broker.create_topic(named("late")).unwrap();
}
