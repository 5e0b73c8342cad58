//! Little disk space: the second half of fault 8.

use super::*;
use crate::model::limits::MIB;

fn on(disk: &SimDisk, min_free_mb: u32) -> (Broker, Arc<Partition>) {
    let mut parts = parts(Arc::new(disk.clone()));
    parts.storage.min_free_mb = min_free_mb;
    let broker = Broker::open(parts).unwrap();
    let partition = broker.partition(&topic("t"), 0).unwrap();
    (broker, partition)
}

fn set_free(disk: &SimDisk, bytes: u64) {
    disk.faults(|faults| faults.free = Some(bytes));
}

#[test]
fn records_stop_before_the_disk_is_full_and_commits_do_not() {
    let disk = SimDisk::default();
    set_free(&disk, 10 * MIB);
    let (broker, partition) = on(&disk, 10);
    let metrics = broker.metrics();
    append(&partition).unwrap();
    assert_eq!((broker.health(), metrics.disk_space_low.get()), (Health::default(), 0));

    set_free(&disk, 10 * MIB - 1);
    append(&partition).unwrap();
    broker.check_space();
    for _ in 0..3 {
        assert!(matches!(append(&partition), Err(AppendError::LowSpace)));
        broker.check_space();
    }
    assert_eq!(metrics.frames_not_stored.get(), 3);
    assert_eq!(metrics.disk_space_low.get(), 1);
    assert_eq!(metrics.disk_free_bytes.get(), i64::try_from(10 * MIB - 1).unwrap());
    assert_eq!(broker.health().problems, [Problem::LowSpace { min_bytes: 10 * MIB }]);
    assert_eq!(broker.commit(key("g", "t", 0), &partition, 1).unwrap(), 1);
    assert_eq!(partition.end_offset(), 2, "all there is can be read");

    set_free(&disk, 10 * MIB);
    broker.check_space();
    assert_eq!(append(&partition).unwrap().first, 2);
    assert_eq!((broker.health(), metrics.disk_space_low.get()), (Health::default(), 0));
}

#[test]
fn a_start_with_little_space_refuses_from_the_first_record_on() {
    let disk = SimDisk::default();
    set_free(&disk, 0);
    let (broker, partition) = on(&disk, 1);
    assert!(matches!(append(&partition), Err(AppendError::LowSpace)));
    assert!(!broker.health().problems.is_empty());
    drop((broker, partition));
    let (broker, partition) = on(&disk.kill(), 0);
    append(&partition).unwrap();
    assert_eq!(broker.health(), Health::default(), "switched off");
}

/// For as long as it is there, and no longer.
#[test]
fn damage_that_was_found_is_part_of_the_health() {
    let disk = SimDisk::default();
    let open = |disk: &SimDisk| {
        let mut parts = parts(Arc::new(disk.clone()));
        parts.storage.retention_mb = 1;
        Broker::open(parts).unwrap()
    };
    let broker = open(&disk);
    let partition = broker.partition(&topic("t"), 0).unwrap();
    for _ in 0..4 {
        append_frame(&partition, b"", &vec![1; 900_000]).unwrap();
    }
    broker.close().unwrap();
    let disk = disk.kill();
    let damage = |base: usize| {
        let path = Path::new(DATA).join(format!("t_0/{base:020}.wal"));
        let mut bytes = disk.read(&path).unwrap();
        bytes[1000] ^= 1;
        disk.put(&path, &bytes);
    };
    damage(0);
    damage(2);
    let broker = open(&disk);
    broker.scrub(&mut |_| true).unwrap();
    let problems = broker.health().problems;
    assert_eq!(problems, [Problem::Damaged { segments: 2 }]);
    assert_eq!(problems[0].to_string(), "damage was found in 2 segments");
    broker.retain(&|| false);
    assert_eq!(broker.health().problems, [Problem::Damaged { segments: 1 }]);
    broker.delete_topic(&topic("t")).unwrap();
    assert_eq!(broker.health(), Health::default());
    assert_eq!(broker.metrics().segments_damaged.get(), 2);
}
