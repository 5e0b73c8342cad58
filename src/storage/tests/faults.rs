//! Disks that refuse: full ones, short writes, failing syncs. Faults 4, 8 and 17.

use super::super::sim_disk::{Seeded, SimDisk};
use super::*;
use crate::model::limits::OFFSET_MAX;
use crate::storage::OsDisk;

/// A log with three records in it.
fn three(disk: &SimDisk) -> (Opened, Vec<u8>) {
    let opened = open(disk, 1 << 20);
    let bytes = (0..3u8).flat_map(|n| append(&opened.log, record(&[n; 40])).unwrap()).collect();
    (opened, bytes)
}

#[test]
fn a_full_disk_takes_all_of_a_run_or_nothing() {
    let run = [record(b"one"), record(b"two")].concat();
    for space in 0..run.len() {
        let disk = SimDisk::default();
        let (Opened { log, .. }, mut bytes) = three(&disk);
        disk.faults(|faults| faults.space = Some(space));
        for _ in 0..2 {
            assert!(matches!(append(&log, run.clone()), Err(AppendError::Io(_))));
            assert_eq!(disk.read(&path(0, "wal")).unwrap(), bytes, "back to the previous end");
            assert_log_is(&log, &bytes);
        }
        assert_log_is(&open(&disk.kill(), 1 << 20).log, &bytes);

        disk.faults(|faults| faults.space = None);
        bytes.extend(append(&log, run.clone()).unwrap());
        assert_log_is(&log, &bytes);
        let again = open(&disk.kill(), 1 << 20);
        assert_log_is(&again.log, &bytes);
        assert_eq!(again.metrics.torn_bytes.get(), 0);
    }
}

#[test]
fn a_short_write_is_continued() {
    let disk = SimDisk::default();
    let (Opened { log, .. }, mut bytes) = three(&disk);
    disk.faults(|faults| faults.short_write = Some(7));
    bytes.extend(append(&log, record(b"in two pieces")).unwrap());
    assert_log_is(&log, &bytes);
}

/// The half of a run that could not be taken back must not stay behind a shorter one: its bytes are the client's, and
/// could be made to look like frames.
#[test]
fn nothing_is_appended_over_a_partial_write_that_was_not_cut_off() {
    let disk = SimDisk::default();
    let (Opened { log, .. }, mut bytes) = three(&disk);
    disk.faults(|faults| (faults.space, faults.no_set_len) = (Some(300), true));
    assert!(append(&log, record(&[9; 500])).is_err());
    disk.faults(|faults| faults.space = None);
    assert!(append(&log, record(b"short")).is_err(), "not before the rest is cut off");
    let killed = open(&disk.kill(), 1 << 20);
    assert_log_is(&killed.log, &bytes);
    assert_eq!(killed.metrics.torn_bytes.get(), 300);

    disk.faults(|faults| faults.no_set_len = false);
    bytes.extend(append(&log, record(b"short")).unwrap());
    let killed = open(&disk.kill(), 1 << 20);
    assert_log_is(&killed.log, &bytes);
    assert_eq!(killed.metrics.torn_bytes.get(), 0);
}

#[test]
fn an_index_that_cannot_grow_costs_time_only() {
    let disk = SimDisk::default();
    disk.faults(|faults| (faults.no_grow, faults.no_reserve) = (Some(".idx"), true));
    let Opened { log, .. } = open(&disk, 20_000);
    let mut bytes = Vec::new();
    for n in 0..100u8 {
        bytes.extend(append(&log, frame(b"", &[n; 500], 2)).unwrap());
        // Now and then there is space: the index then has gaps.
        disk.faults(|faults| faults.no_grow = (n % 30 != 0).then_some(".idx"));
    }
    assert!(bases(&disk).len() > 2);
    assert_log_is(&log, &bytes);
    log.close().unwrap();
    disk.faults(|faults| faults.no_grow = None);
    let again = open(&disk, 20_000);
    assert!(again.metrics.indexes_rebuilt.get() > 0);
    assert_log_is(&again.log, &bytes);
}

#[test]
fn a_failed_flush_is_final() {
    let disk = SimDisk::default();
    let (Opened { log, .. }, bytes) = three(&disk);
    log.flush().unwrap();
    append(&log, record(b"lost")).unwrap();
    disk.faults(|faults| faults.sync_error = true);
    assert!(log.flush().is_err());
    assert!(log.is_read_only());
    let syncs = disk.syncs();
    assert!(log.flush().is_err(), "what is lost stays lost");
    assert!(log.close().is_err(), "the end is not clean either");
    assert_eq!(disk.syncs(), syncs, "a second sync would say yes to pages that are gone");
    assert!(matches!(append(&log, record(b"more")), Err(AppendError::ReadOnly)));
    assert_eq!(read_from(&log, 0), (bytes, End::Tail), "no more than the disk has");
}

/// Wherever readers stand in what only memory has, in how many segments that is: they get nothing more of it.
#[test]
fn what_a_failed_flush_may_have_lost_is_not_served() {
    for flushed in 0..6 {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 300);
        let mut bytes = Vec::new();
        let append_one = |n: u8| append(&log, record(&[n; 100])).unwrap();
        for n in 0..flushed {
            bytes.extend(append_one(n));
        }
        log.flush().unwrap();
        for n in flushed..8 {
            append_one(n);
        }
        let (all, _) = read_from(&log, 0);
        let ends: Vec<_> = (0..=8).map(|offset| log.locate(offset).unwrap()).collect();
        disk.faults(|faults| faults.sync_error = true);
        assert!(log.flush().is_err());
        assert!(all.len() > bytes.len() && all.starts_with(&bytes));
        for (offset, cursor) in (0..).zip(ends) {
            let there = frames_of(&bytes).into_iter().find(|(first, ..)| *first == offset);
            let rest = there.map_or(&[][..], |(_, _, range)| &bytes[range.start..]);
            for cursor in [cursor, log.locate(offset).unwrap()] {
                assert_eq!(read_on(&log, cursor, 64), (rest.to_vec(), End::Tail), "{offset}");
            }
        }
    }
}

/// Whoever takes all descriptors delays the flush; no partition is lost to them.
#[test]
fn a_flush_without_a_descriptor_is_made_up_for() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 300);
    let mut bytes = append(&log, record(&[1; 200])).unwrap();
    bytes.extend(append(&log, record(&[2; 200])).unwrap());
    disk.faults(|faults| faults.no_descriptors = true);
    for _ in 0..2 {
        assert!(matches!(log.flush(), Err(FlushError::Postponed(_))));
        bytes.extend(append(&log, record(b"taken all the same")).unwrap());
    }
    disk.faults(|faults| faults.no_descriptors = false);
    log.flush().unwrap();
    for seed in 0..20 {
        assert_log_is(&open(&disk.crash(&mut Seeded::new(seed)), 300).log, &bytes);
    }
}

#[test]
fn a_closed_log_is_read_and_not_written() {
    let disk = SimDisk::default();
    let (Opened { log, .. }, bytes) = three(&disk);
    log.close().unwrap();
    assert!(append(&log, record(b"more")).is_err());
    assert_log_is(&log, &bytes);
    let syncs = disk.syncs();
    log.flush().unwrap();
    log.close().unwrap();
    assert_eq!(disk.syncs(), syncs, "all is flushed");
    let mut files = disk.files();
    files.retain(|file| file.starts_with(DIR));
    assert_eq!(files, [path(0, "idx"), path(0, "sum"), path(0, "wal")]);
    assert_eq!(disk.read(&path(0, "idx")).unwrap().len(), 16, "trimmed to its entries");
}

#[test]
fn offsets_end_without_damage() {
    let base = OFFSET_MAX - 5;
    let disk = SimDisk::default();
    disk.put(&path(base, "wal"), &[]);
    let Opened { log, .. } = open(&disk, 1 << 20);
    let mut bytes = append(&log, frame(b"", b"three", 3)).unwrap();
    for _ in 0..2 {
        let refused = append(&log, frame(b"", b"too many", 3));
        assert!(matches!(refused, Err(AppendError::OffsetsExhausted(at)) if at == base + 3));
    }
    bytes.extend(append(&log, frame(b"", b"the last two", 2)).unwrap());
    assert!(append(&log, record(b"")).is_err());
    assert_eq!(log.end_offset(), OFFSET_MAX);
    assert_log_is(&log, &bytes);
    let again = open(&disk.kill(), 1 << 20);
    assert_log_is(&again.log, &bytes);
    assert_eq!(again.metrics.torn_bytes.get(), 0);
}

#[test]
fn a_segment_past_the_last_offset_takes_nothing() {
    let disk = SimDisk::default();
    disk.put(&path(u64::MAX, "wal"), &[]);
    let Opened { log, .. } = open(&disk, 1 << 20);
    assert!(matches!(append(&log, record(b"x")), Err(AppendError::OffsetsExhausted(_))));
}

/// Somebody cuts a file that is mapped: touching the pages that are gone would end the process. Fault 9.
#[test]
fn mapped_files_that_are_cut_from_outside_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |base: u64, extension| dir.path().join(format!("{base:020}.{extension}"));
    let Opened { log, .. } = open_on(&OsDisk, dir.path(), 100_000);
    let mut bytes = Vec::new();
    let mut grow = |log: &Log, count: u8| {
        for n in 0..count {
            bytes.extend(append(log, frame(b"", &[n; 900], 1)).unwrap());
        }
        bytes.clone()
    };
    grow(&log, 150);
    for (round, extension) in [(1, "idx"), (2, "sum"), (3, "sum")] {
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|found| found == extension) {
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
            }
        }
        assert_log_is(&log, &grow(&log, 50));
        if round > 1 {
            log.flush().unwrap();
            assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
        }
        assert_log_is(&log, &grow(&log, 50));
    }
    assert!(file(0, "sum").metadata().unwrap().len() > 512, "made anew");
    log.close().unwrap();
    drop(log);
    let again = open_on(&OsDisk, dir.path(), 100_000);
    assert_log_is(&again.log, &bytes);
    assert_eq!(again.metrics.torn_bytes.get(), 0);
}

/// What was flushed is durable, and its checksums are gone: the next start must not go by what is left of them.
#[test]
fn what_was_flushed_is_not_cut_because_its_checksums_were() {
    let dir = tempfile::tempdir().unwrap();
    let sum = dir.path().join("00000000000000000000.sum");
    for cut in [0, 100, 512, 520] {
        let Opened { log, .. } = open_on(&OsDisk, dir.path(), 100_000);
        let (mut bytes, _) = read_from(&log, 0);
        bytes.extend(append(&log, record(&[1; 300])).unwrap());
        log.flush().unwrap();
        bytes.extend(append(&log, record(&[2; 300])).unwrap());
        std::fs::OpenOptions::new().write(true).open(&sum).unwrap().set_len(cut).unwrap();
        log.flush().unwrap();
        drop(log);
        let again = open_on(&OsDisk, dir.path(), 100_000);
        assert_log_is(&again.log, &bytes);
        assert_eq!(again.metrics.torn_bytes.get(), 0, "cut to {cut}");
    }
}

/// A roll between the two halves of a flush must not have it say what is not so.
#[test]
fn a_flush_that_a_roll_overtakes_flushes_what_was_there_before_it() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            for _ in 0..5000 {
                append(&log, record(b"x")).unwrap();
                let next = log.next_offset();
                log.flush().unwrap();
                assert!(log.flushed_offset() >= next, "a flush said yes too early");
            }
        });
        while !flusher.is_finished() {
            log.roll_if(|_| true).unwrap();
        }
    });
}
