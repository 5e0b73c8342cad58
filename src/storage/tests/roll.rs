//! From one segment to the next, on disks that refuse and in power cuts.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::sim_disk::{DiskOver, Seeded, SimDisk};
use super::*;

#[test]
fn a_failed_roll_leaves_the_log_as_it_was_and_works_later() {
    for refused in [".wal", ".idx"] {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        let mut bytes = append(&log, record(&[1; 200])).unwrap();
        disk.faults(|faults| faults.no_create = Some(refused));
        for size in [200, 1, 200, 1] {
            // What is small would fit the old segment. It must wait too: the next segment's file may be there
            // already, and is named after the offset that its first record gets.
            assert!(matches!(append(&log, record(&vec![2; size])), Err(AppendError::Io(_))));
            assert_log_is(&log, &bytes);
        }
        let killed = open(&disk.kill(), 300);
        assert_log_is(&killed.log, &bytes);
        let mut longer = bytes.clone();
        longer.extend(append(&killed.log, record(b"restarted")).unwrap());
        assert_log_is(&killed.log, &longer);

        disk.faults(|faults| faults.no_create = None);
        bytes.extend(append(&log, record(&[3; 1])).unwrap());
        bytes.extend(append(&log, record(&[3; 200])).unwrap());
        assert_log_is(&log, &bytes);
        assert_log_is(&open(&disk.kill(), 300).log, &bytes);
    }
}

#[test]
fn a_leftover_of_an_earlier_roll_is_emptied() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 300);
    let mut bytes = append(&log, record(&[1; 200])).unwrap();
    disk.put(&path(1, segment::PROVISIONAL), b"never acked");
    disk.put(&path(1, "idx"), &[7; 64]);
    bytes.extend(append(&log, record(&[2; 200])).unwrap());
    assert_log_is(&log, &bytes);
    let again = open(&disk.kill(), 300);
    assert_log_is(&again.log, &bytes);
    assert_eq!(again.metrics.torn_bytes.get(), 0);
}

#[test]
fn a_segment_whose_predecessor_cannot_be_flushed_keeps_its_provisional_name() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 300);
    let mut bytes = append(&log, record(&[1; 200])).unwrap();
    disk.faults(|faults| faults.sync_error = true);
    bytes.extend(append(&log, record(&[2; 200])).unwrap());
    assert!(log.flush().is_err());
    assert!(log.is_read_only());
    assert!(matches!(append(&log, record(&[2; 200])), Err(AppendError::ReadOnly)));
    assert!(log.flush().is_err());
    assert_eq!(read_from(&log, 0), (Vec::new(), End::Tail));
    assert_eq!(names(&disk, ".wal"), [path(0, segment::WAL)]);
    assert_eq!(names(&disk, ".new"), [path(1, segment::PROVISIONAL)]);
    // Memory would still have it, and the disk has not.
    let again = open(&disk.kill(), 300);
    assert_log_is(&again.log, &[]);
    assert_eq!(again.metrics.torn_bytes.get(), bytes.len() as u64);
}

#[test]
fn flushing_and_restarting_give_segments_their_names() {
    for flush in [true, false] {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        let bytes: Vec<u8> =
            (0..4u8).flat_map(|n| append(&log, record(&[n; 200])).unwrap()).collect();
        assert_eq!(names(&disk, ".new").len(), 3);
        if flush {
            log.flush().unwrap();
            assert_eq!(names(&disk, ".new").len(), 0);
        }
        let disk = disk.kill();
        let again = open(&disk, 300);
        assert_log_is(&again.log, &bytes);
        assert_eq!(names(&disk, ".new").len(), 0);
        assert_eq!(bases(&disk), [0, 1, 2, 3]);
        assert_eq!(again.metrics.torn_bytes.get(), 0);
    }
}

/// What a power cut can leave: the end of the first segment is gone, the second is there. Also gives the second one.
fn provisional_behind_a_hole() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 300);
    let bytes = append(&log, record(&[1; 200])).unwrap();
    append(&log, record(&[2; 200])).unwrap();
    let lost = disk.read(&path(1, segment::PROVISIONAL)).unwrap();
    let disk = disk.kill();
    disk.put(&path(0, segment::WAL), &bytes[..100]);
    (disk, lost)
}

#[test]
fn a_provisional_segment_behind_a_hole_is_set_aside() {
    let (disk, lost) = provisional_behind_a_hole();
    let again = open(&disk, 300);
    assert_eq!(again.log.end_offset(), 0);
    assert_eq!(again.metrics.torn_bytes.get(), 100 + lost.len() as u64);
    assert_eq!(names(&disk, ".new").len(), 0);
    assert_eq!(disk.read(&path(1, "torn-1")), Some(lost));
    let bytes = append(&again.log, record(b"goes on")).unwrap();
    assert_log_is(&open(&disk.kill(), 300).log, &bytes);
}

/// A directory that is full takes no name that needs a block. A start does without, and the flusher makes up for it.
#[test]
fn segments_get_their_names_when_there_is_space_again() {
    for durability in [Durability::Interval, Durability::Always] {
        let options = LogOptions { durability, ..options(300) };
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        let mut bytes: Vec<u8> =
            (0..4u8).flat_map(|n| append(&log, record(&[n; 200])).unwrap()).collect();
        let disk = disk.kill();
        disk.faults(|faults| faults.no_rename = true);
        let Opened { log, metrics } = open_with(&disk, Path::new(DIR), options);
        assert_log_is(&log, &bytes);
        for seed in 0..20 {
            assert_log_is(&open(&disk.crash(&mut Seeded::new(seed)), 300).log, &bytes);
        }
        for n in 4..7u8 {
            let stored = append(&log, record(&[n; 200])).unwrap();
            assert!(matches!(log.flush(), Err(FlushError::Postponed(_))));
            assert_eq!(log.flushed_offset(), 0, "not all of it has its name");
            if durability == Durability::Interval {
                bytes.extend(stored);
            }
            assert_log_is(&log, &bytes);
            assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
        }
        assert_eq!(names(&disk, ".wal"), [path(0, segment::WAL)]);
        assert_eq!(names(&disk, ".new").len(), 6);
        assert!(read_from(&open(&disk.kill(), 300).log, 0).0.starts_with(&bytes));

        disk.faults(|faults| faults.no_rename = false);
        log.flush().unwrap();
        assert_eq!((names(&disk, ".wal").len(), names(&disk, ".new").len()), (7, 0));
        assert_eq!((log.end_offset(), log.flushed_offset()), (7, 7));
        let (all, end) = read_from(&log, 0);
        assert!(end == End::Tail && all.starts_with(&bytes) && frames_of(&all).len() == 7);
        for seed in 0..20 {
            assert_log_is(&open(&disk.crash(&mut Seeded::new(seed)), 300).log, &all);
        }
        assert_eq!((metrics.torn_bytes.get(), metrics.segments_damaged.get()), (0, 0));
    }
}

/// What does not follow on the log is kept, and not written over by the next segment of its name.
#[test]
fn a_segment_that_cannot_be_set_aside_makes_the_log_read_only() {
    let (disk, lost) = provisional_behind_a_hole();
    disk.faults(|faults| faults.no_rename = true);
    let Opened { log, .. } = open(&disk, 300);
    assert!(matches!(append(&log, record(b"x")), Err(AppendError::ReadOnly)));
    assert_eq!(disk.read(&path(1, segment::PROVISIONAL)), Some(lost.clone()));
    disk.faults(|faults| faults.no_rename = false);
    append(&open(&disk, 300).log, record(b"goes on")).unwrap();
    assert_eq!(disk.read(&path(1, "torn-1")), Some(lost));
}

fn names(disk: &SimDisk, ending: &str) -> Vec<PathBuf> {
    let files = disk.files().into_iter();
    files.filter(|file| file.to_str().is_some_and(|name| name.ends_with(ending))).collect()
}

/// Otherwise the second segment might survive a power cut that the end of the first did not.
#[test]
fn a_power_cut_after_a_roll_loses_a_suffix_only() {
    for seed in 0..100 {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        log.flush().unwrap();
        let bytes: Vec<u8> =
            (0..5u8).flat_map(|n| append(&log, record(&[n; 120])).unwrap()).collect();
        let crashed = open(&disk.crash(&mut Seeded::new(seed)), 300);
        let (found, end) = read_from(&crashed.log, 0);
        assert_eq!(end, End::Tail, "seed {seed}");
        assert!(bytes.starts_with(&found), "seed {seed}");
        assert_log_is(&crashed.log, &found);
    }
}

/// The process dies with a sealed segment in the page cache only; its successor's first flush must cover it.
#[test]
fn a_flush_after_a_restart_covers_what_the_earlier_process_sealed() {
    for seed in 0..100 {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        let bytes: Vec<u8> =
            (0..5u8).flat_map(|n| append(&log, record(&[n; 120])).unwrap()).collect();
        let disk = disk.kill();
        open(&disk, 300).log.flush().unwrap();
        let crashed = open(&disk.crash(&mut Seeded::new(seed)), 300);
        assert_log_is(&crashed.log, &bytes);
        assert_eq!(crashed.log.end_offset(), 5, "seed {seed}");
    }
}

/// A disk on which a log grows by a segment whenever one is given its name.
#[derive(Debug, Clone, Default)]
struct Busy {
    disk: SimDisk,
    log: Arc<OnceLock<Log>>,
    renames: Arc<AtomicUsize>,
}

impl DiskOver for Busy {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert!(self.renames.fetch_add(1, Ordering::Relaxed) < 100, "this flush would never end");
        append(self.log.get().unwrap(), record(&[1; 100])).unwrap();
        self.disk.rename(from, to)
    }
}

/// The flusher goes from one partition to the next: one that is written to faster than the disk can must not keep it.
#[test]
fn a_flush_ends_however_fast_the_log_rolls() {
    let busy = Busy::default();
    busy.log.set(open_on(&busy, Path::new(DIR), 1).log).unwrap();
    let log = busy.log.get().unwrap();
    for round in 0..5 {
        for n in 0..5u8 {
            append(log, record(&[n; 100])).unwrap();
        }
        let before = log.end_offset();
        log.flush().unwrap();
        for seed in 0..20 {
            let crashed = open(&busy.disk.crash(&mut Seeded::new(seed)), 1).log;
            assert!(crashed.end_offset() >= before, "round {round}, seed {seed}");
        }
    }
}

/// What was flushed of the last segment is gone, and there is no space for the one that would go on behind it.
#[test]
fn a_start_without_space_for_the_next_segment_is_read_only() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    let bytes = append(&log, record(&[1; 200])).unwrap();
    append(&log, record(&[2; 200])).unwrap();
    log.close().unwrap();
    disk.put(&path(0, "wal"), &bytes);
    for refused in [".wal", ".idx"] {
        let disk = disk.kill();
        disk.faults(|faults| faults.no_create = Some(refused));
        let Opened { log, .. } = open(&disk, 1 << 20);
        assert!(log.is_read_only());
        assert_log_is(&log, &bytes);
        drop(log);
        disk.faults(|faults| faults.no_create = None);
        let Opened { log, .. } = open(&disk, 1 << 20);
        let stored = append(&log, record(b"goes on")).unwrap();
        assert_eq!(frames_of(&stored)[0].0, 2, "no offset is given twice");
        assert!(read_from(&log, 0) == ([&bytes[..], &stored].concat(), End::Tail));
    }
}
