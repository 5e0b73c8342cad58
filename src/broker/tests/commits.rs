//! Where groups resume, and what else may stand in the offsets topic: fault 26.

use super::*;
use crate::record::wire;
use crate::storage::sim_disk::Seeded;

/// A broker whose topic `t` has `records` records.
fn with_records(disk: &SimDisk, records: u64) -> (Broker, Arc<Partition>) {
    let broker = open(disk);
    let partition = broker.partition(&topic("t"), 0).unwrap();
    for _ in 0..records {
        append(&partition).unwrap();
    }
    (broker, partition)
}

#[test]
fn commits_are_there_after_a_restart_however_it_came() {
    let disk = SimDisk::default();
    let (broker, partition) = with_records(&disk, 10);
    for offset in [3, 0, 7] {
        assert_eq!(broker.commit(key("a", "t", 0), &partition, offset).unwrap(), offset);
    }
    broker.commit(key("b", "t", 0), &partition, 0).unwrap();
    assert_eq!(broker.metrics().commits.get(), 4);
    let check = |broker: &Broker| {
        assert_eq!(broker.committed(&key("a", "t", 0)), Some(7));
        assert_eq!(broker.committed(&key("b", "t", 0)), Some(0));
        assert_eq!(broker.committed(&key("c", "t", 0)), None);
        assert_eq!(broker.committed_count(), 2);
    };
    check(&broker);
    check(&open(&disk.kill()));
    broker.close().unwrap();
    check(&open(&disk));
    check(&open(&disk.crash(&mut Seeded::new(1))));
}

#[test]
fn a_commit_beyond_the_end_is_clamped() {
    let disk = SimDisk::default();
    let (broker, partition) = with_records(&disk, 10);
    assert_eq!(broker.commit(key("g", "t", 0), &partition, 10).unwrap(), 10);
    assert_eq!(broker.metrics().commits_clamped.get(), 0);
    for beyond in [11, u64::MAX - 1] {
        assert_eq!(broker.commit(key("g", "t", 0), &partition, beyond).unwrap(), 10);
    }
    assert_eq!(broker.metrics().commits_clamped.get(), 2);
    // The one value that means the end.
    assert_eq!(broker.commit(key("g", "t", 0), &partition, u64::MAX).unwrap(), 10);
    assert_eq!(broker.metrics().commits_clamped.get(), 2);
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(10));
    assert_eq!(open(&disk.kill()).committed(&key("g", "t", 0)), Some(10));
}

/// A power cut may leave the commit and take the records: their offsets come again, and must not be skipped then.
#[test]
fn a_restored_commit_beyond_the_end_is_clamped_for_good() {
    let disk = SimDisk::default();
    let (broker, partition) = with_records(&disk, 4);
    broker.commit(key("g", "t", 0), &partition, 4).unwrap();
    broker.commit(key("kept", "t", 0), &partition, 2).unwrap();
    drop((broker, partition));
    let disk = disk.kill();
    let wal = file("t_0", "00000000000000000000.wal");
    let half = disk.read(&wal).unwrap().len() / 2;
    disk.put(&wal, &disk.read(&wal).unwrap()[..half]);
    // They would say that records are missing.
    disk.remove(&file("t_0", "00000000000000000000.sum"));

    let broker = open(&disk);
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(2));
    assert_eq!(broker.metrics().commits_clamped.get(), 1);
    let partition = broker.partition(&topic("t"), 0).unwrap();
    for _ in 0..5 {
        append(&partition).unwrap();
    }
    for restarted in [open(&disk.kill()), open(&disk.crash(&mut Seeded::new(3)))] {
        assert_eq!(restarted.committed(&key("g", "t", 0)), Some(2));
        assert_eq!(restarted.committed(&key("kept", "t", 0)), Some(2));
    }
}

/// Rounds of appends and commits, each ended by a power cut or a killed process.
#[test]
fn no_crash_lets_a_group_skip_records() {
    for seed in 0..150 {
        let mut seeded = Seeded::new(seed);
        let mut disk = SimDisk::default();
        // The furthest that the group may be found at.
        let mut furthest = 0;
        for round in 0..6 {
            let broker = open(&disk);
            let partition = broker.partition(&topic("t"), 0).unwrap();
            let committed = broker.committed(&key("g", "t", 0)).unwrap_or(0);
            assert!(committed <= partition.end_offset(), "seed {seed}, round {round}");
            assert!(
                committed <= furthest,
                "seed {seed}, round {round}: what came since is skipped"
            );
            furthest = committed;
            for _ in 0..seeded.below(6) {
                append(&partition).unwrap();
                if seeded.below(4) == 0 {
                    partition.flush_now().unwrap();
                }
                if seeded.below(3) == 0 {
                    furthest = partition.end_offset();
                    broker.commit(key("g", "t", 0), &partition, furthest).unwrap();
                }
                if seeded.below(4) == 0 {
                    offsets_log(&broker).flush_now().unwrap();
                }
            }
            disk = if seeded.below(4) == 0 { disk.kill() } else { disk.crash(&mut seeded) };
        }
    }
}

#[test]
fn entries_that_say_nothing_are_skipped_and_counted() {
    let disk = SimDisk::default();
    let (broker, partition) = with_records(&disk, 10);
    let log = offsets_log(&broker);
    let mut malformed = 0;
    let mut offset = 0;
    let huge = vec![b'h'; (1 << 20) + 100];
    let cases: [(&[u8], &[u8]); 8] = [
        (b"", b"x"),
        (b"wrong key", &[0; 8]),
        (b"g:t:0:more", &[0; 8]),
        (b"g:../t:0", &[0; 8]),
        (b"g:t:0", &[0; 7]),
        (b"g:t:0", &huge),
        (&huge, b""),
        (b"\xff\xfe", &huge[..(1 << 20) - 29]),
    ];
    for (name, payload) in cases {
        append_frame(&log, name, payload).unwrap();
        malformed += 1;
        offset += 1;
        broker.commit(key("g", "t", 0), &partition, offset).unwrap();
    }
    // Two in a row, and as the last of all.
    append_frame(&log, b"", &huge).unwrap();
    append_frame(&log, b"", &huge).unwrap();
    let disk = disk.kill();
    let broker = open(&disk);
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(offset));
    assert_eq!(broker.committed_count(), 1);
    assert_eq!(broker.metrics().offsets_malformed.get(), malformed + 2);
    let partition = broker.partition(&topic("t"), 0).unwrap();
    broker.commit(key("g", "t", 0), &partition, 10).unwrap();
    assert_eq!(open(&disk.kill()).committed(&key("g", "t", 0)), Some(10));
}

#[test]
fn entries_of_the_original_are_read() {
    let disk = SimDisk::default();
    let (mut wal, mut idx) = (Vec::new(), Vec::new());
    for offset in 0..60u64 {
        idx.extend(wire::u64_bytes(offset));
        idx.extend(wire::u64_bytes(wal.len() as u64));
        let name = format!("group-{}:my_topic:{}", offset % 3, offset % 2);
        FrameBuilder::new(7)
            .key(name.as_bytes())
            .offset(offset)
            .write(&wire::u64_bytes(100 + offset), &mut wal)
            .unwrap();
    }
    disk.put(&file("__consumer_offsets_0", "00000000000000000000.wal"), &wal);
    disk.put(&file("__consumer_offsets_0", "00000000000000000000.idx"), &idx);
    crate::storage::Disk::create_dir(&disk, &Path::new(DATA).join("__consumer_offsets_0")).unwrap();
    let broker = open(&disk);
    assert_eq!(broker.committed_count(), 6);
    for last in 54..60u64 {
        let partition = PartitionId::from(last % 2 == 1);
        let key = key(&format!("group-{}", last % 3), "my_topic", partition);
        assert_eq!(broker.committed(&key), Some(100 + last));
    }
    assert_eq!(broker.metrics().indexes_rebuilt.get(), 0);
}

#[test]
fn a_commit_that_is_not_written_does_not_count() {
    let disk = SimDisk::default();
    let (broker, partition) = with_records(&disk, 10);
    broker.commit(key("g", "t", 0), &partition, 3).unwrap();
    disk.faults(|faults| faults.space = Some(10));
    assert!(broker.commit(key("g", "t", 0), &partition, 5).is_err());
    assert!(broker.commit(key("new", "t", 0), &partition, 5).is_err());
    assert_eq!(broker.committed(&key("g", "t", 0)), Some(3));
    assert_eq!(broker.committed_count(), 1);
    disk.faults(|faults| faults.space = None);
    broker.commit(key("g", "t", 0), &partition, 5).unwrap();
    assert_eq!(open(&disk.kill()).committed(&key("g", "t", 0)), Some(5));
}
