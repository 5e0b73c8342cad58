//! What is written down of topics, and what a start makes of it.

use std::io;

use super::*;
use crate::storage::sim_disk::{DiskOver, Seeded};

const CATALOG: &str = "/data/catalog.json";

fn with(disk: &SimDisk, declared: &[TopicOptions]) -> Result<Broker, BrokerError> {
    let mut parts = parts(Arc::new(disk.clone()));
    parts.declared = declared.to_vec();
    parts.options.default_partitions = 4;
    Broker::open(parts)
}

fn text(disk: &SimDisk) -> String {
    String::from_utf8(disk.read(Path::new(CATALOG)).unwrap()).unwrap()
}

fn partitions(broker: &Broker, name: &str) -> usize {
    let there = |id: &u32| broker.existing(&topic(name), *id).is_some_and(|found| found.is_ok());
    (0..100).filter(there).count()
}

#[test]
fn settings_outlive_their_declaration_and_change_with_it() {
    let disk = SimDisk::default();
    let always = TopicOptions {
        durability: Some(Durability::Always),
        retention_hours: Some(3),
        ..TopicOptions::named(topic("a"))
    };
    let is_always = |broker: &Broker| {
        broker.partition(&topic("a"), 0).unwrap().durability() == Durability::Always
    };
    assert!(is_always(&with(&disk, std::slice::from_ref(&always)).unwrap()));
    let disk = disk.kill();
    assert!(is_always(&with(&disk, &[]).unwrap()));
    let disk = disk.kill();
    let changed = TopicOptions { durability: None, ..always };
    assert!(!is_always(&with(&disk, &[changed]).unwrap()));
    assert!(!is_always(&with(&disk.kill(), &[]).unwrap()));
    assert!(text(&disk).contains("\"retention_hours\": 3"), "{}", text(&disk));
}

/// Whenever the power goes, all partitions of a topic are there afterwards, or none.
#[test]
fn a_topic_is_made_whole_or_not_at_all() {
    for left in 0..8 {
        let disk = SimDisk::default();
        let broker = with(&disk, &[]).unwrap();
        disk.faults(|faults| faults.names_left = Some(left));
        let made = broker.partition(&topic("a"), 0).is_ok();
        disk.faults(|faults| faults.names_left = None);
        let crashed = (0..20).map(|seed| disk.crash(&mut Seeded::new(seed)));
        for after in crashed.chain([disk.kill()]) {
            let broker = with(&after, &[]).unwrap();
            let there = partitions(&broker, "a");
            assert!(there == 4 || there == 0 && !made, "step {left}: {there}");
        }
        // The same process can try again.
        broker.partition(&topic("a"), 3).unwrap();
        assert_eq!(partitions(&broker, "a"), 4);
    }
}

#[test]
fn directories_without_an_entry_are_taken_over_and_missing_ones_made_anew() {
    let disk = SimDisk::default();
    for dir in ["old_0", "old_1", "gap_1"] {
        disk.create_dir(&Path::new(DATA).join(dir)).unwrap();
    }
    let broker = with(&disk, &[]).unwrap();
    assert_eq!((partitions(&broker, "old"), partitions(&broker, "gap")), (2, 1));
    assert!(text(&disk).contains("\"old\"") && !text(&disk).contains("gap"), "{}", text(&disk));
    assert!(!text(&disk).contains("__"), "the broker's own topics are not in it");
    // Only the catalog is left.
    let other = SimDisk::default();
    other.put(Path::new(CATALOG), text(&disk).as_bytes());
    let broker = with(&other, &[]).unwrap();
    assert_eq!((partitions(&broker, "old"), partitions(&broker, "gap")), (2, 0));
    // Without it the directories say it all.
    let disk = disk.kill();
    disk.remove(Path::new(CATALOG));
    assert_eq!(partitions(&with(&disk, &[]).unwrap(), "old"), 2);
}

#[test]
fn a_catalog_that_is_none_stops_the_start_and_says_how_to_go_on() {
    let disk = SimDisk::default();
    drop(with(&disk, &[TopicOptions::named(topic("a"))]).unwrap());
    let whole = text(&disk);
    for bad in [
        String::new(),
        "{".to_owned(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("\"version\": 1", "\"version\": 2"),
        whole.replace("\"partitions\": 4", "\"partitions\": 0"),
        whole.replace("\"partitions\": 4", "\"partitions\": 10001"),
        whole.replace("\"partitions\": 4", "\"partitions\": null"),
        whole.replace("\"name\": \"a\"", "\"name\": \"../a\""),
        whole.replace("\"name\": \"a\"", "\"name\": \"__a\""),
        whole.replace("\"name\": \"a\"", "\"name\": \"a\", \"colour\": 1"),
    ] {
        assert_ne!(bad, whole);
        let disk = disk.kill();
        disk.put(Path::new(CATALOG), bad.as_bytes());
        let error = with(&disk, &[]).unwrap_err();
        assert!(matches!(&error, BrokerError::Catalog { .. }), "{bad}: {error}");
        let said = error.to_string();
        assert!(said.starts_with(CATALOG) && said.contains("moved away"), "{said}");
        assert_eq!(text(&disk), bad, "it is left as it is");
    }
}

/// A disk without room for a directory, in the words of a file system or of its quota.
#[derive(Debug)]
struct Full(SimDisk, io::ErrorKind);

impl DiskOver for Full {
    fn disk(&self) -> &dyn Disk {
        &self.0
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Err(self.1.into())
    }
}

#[test]
fn a_full_disk_keeps_no_broker_from_starting() {
    let disk = SimDisk::default();
    let broker = with(&disk, &[]).unwrap();
    broker.partition(&topic("a"), 0).unwrap();
    drop(broker);
    for why in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let disk = disk.kill();
        disk.remove_dir(&Path::new(DATA).join("a_3")).unwrap();
        let broker = Broker::open(parts(Arc::new(Full(disk, why)))).unwrap();
        assert_eq!(partitions(&broker, "a"), 3, "{why}");
    }
}
