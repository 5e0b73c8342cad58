//! Damage in sealed segments: nothing is removed, and what is whole is served. Fault 6.

use super::super::sim_disk::SimDisk;
use super::*;

/// Three segments; in the second one, the frame nearest to the middle has its first byte flipped.
struct Damaged {
    disk: SimDisk,
    bytes: Vec<u8>,
    /// Offset of the damaged frame, and its position in `bytes`.
    offset: Offset,
    at: usize,
    bases: Vec<Offset>,
    wal: Vec<u8>,
}

fn damaged() -> Damaged {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 3);
    let bases = bases(&disk);
    let frames = frames_of(&bytes);
    let start = frames.iter().find(|(first, ..)| *first == bases[1]).unwrap().2.start;
    let (offset, _, range) =
        frames.iter().find(|(_, _, range)| range.start > start + 17_000).unwrap().clone();
    let mut wal = disk.read(&path(bases[1], "wal")).unwrap();
    wal[range.start - start] ^= 0x10;
    disk.put(&path(bases[1], "wal"), &wal);
    Damaged { disk, bytes, offset, at: range.start, bases, wal }
}

impl Damaged {
    /// Checks that all of the log is served but the frames of one block, the damaged one among them.
    fn assert_served(&self, log: &Log) {
        let frames = frames_of(&self.bytes);
        let [bad] = &log.damage()[..] else { panic!("one place is damaged") };
        let start = frames.iter().find(|frame| frame.0 == bad.offsets.start).unwrap().2.start;
        let end = frames.iter().find(|frame| frame.0 == bad.offsets.end).unwrap().2.start;
        assert!((start..end).contains(&self.at) && bad.offsets.contains(&self.offset));
        assert!(end - start < 4096 + 2 * 1000, "a damaged byte costs its block and no more");
        for (first, next, range) in frames {
            for offset in [first, next - 1] {
                let (found, ended) = read_from(log, offset);
                if range.start < start {
                    assert!((found == self.bytes[range.start..start]) && ended == End::Damaged);
                } else if range.start < end {
                    assert_eq!((found, ended), (Vec::new(), End::Damaged));
                } else {
                    assert!((found == self.bytes[range.start..]) && ended == End::Tail);
                }
            }
        }
    }
}

#[test]
fn readers_are_stopped_at_the_damage_and_served_elsewhere() {
    let damaged = damaged();
    let Damaged { disk, bases, wal, .. } = &damaged;
    disk.remove(&path(bases[1], "idx"));
    for rebuilt in [1, 0] {
        let Opened { log, metrics } = open(disk, SEGMENT);
        assert_eq!(metrics.segments_damaged.get(), 1, "told at every start");
        assert_eq!(metrics.indexes_rebuilt.get(), rebuilt);
        assert_eq!(metrics.torn_bytes.get(), 0);
        damaged.assert_served(&log);
        assert_eq!(disk.read(&path(bases[1], "wal")).unwrap(), *wal, "nothing was removed");
    }
    let Opened { log, .. } = open(disk, SEGMENT);
    let stored = append(&log, record(b"after")).unwrap();
    assert!(read_from(&log, bases[2]).0.ends_with(&stored));

    let mut cursor = log.locate(damaged.offset).unwrap();
    assert!(log.skip_damage(&mut cursor));
    assert_eq!(read_on(&log, cursor, 1000), read_from(&log, log.damage()[0].offsets.end));
}

#[test]
fn readers_that_may_skip_go_on_behind_the_damage() {
    let Damaged { disk, bytes, at, .. } = damaged();
    let options = LogOptions { on_corruption: OnCorruption::Skip, ..options(SEGMENT) };
    let Opened { log, metrics } = open_with(&disk, Path::new(DIR), options);
    assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 1);
    let bad = log.damage();
    assert_eq!(bad.len(), 1);
    let start = frames_of(&bytes).iter().find(|f| f.0 == bad[0].offsets.start).unwrap().2.start;
    let end = frames_of(&bytes).iter().find(|f| f.0 == bad[0].offsets.end).unwrap().2.start;
    assert!((start..end).contains(&at));

    let served = [&bytes[..start], &bytes[end..]].concat();
    assert!(read_from(&log, 0) == (served, End::Tail));
    assert_eq!(metrics.damage_skipped.get(), 1);

    // Not in the middle of a frame: what comes next would be taken for its rest.
    let frame = frames_of(&bytes).into_iter().rfind(|f| f.2.end <= start).unwrap();
    let mut cursor = log.locate(frame.0).unwrap();
    cursor.advance(frame.2.len() as u64 + 10);
    assert!(matches!(log.fetch(&mut cursor, 100), Fetch::Damaged));
}

/// A start does not read a sealed segment whole, so damage behind a right index is met by lookups.
#[test]
fn a_lookup_never_answers_from_damaged_bytes() {
    let damaged = damaged();
    let Opened { log, metrics } = open(&damaged.disk, SEGMENT);
    assert_eq!(metrics.indexes_rebuilt.get(), 0);
    assert_eq!(log.damage(), []);
    assert_eq!(read_from(&log, damaged.offset), (Vec::new(), End::Damaged));
    damaged.assert_served(&log);
    assert_eq!(metrics.segments_damaged.get(), 1);
}

/// What only checksums show: a flipped bit in a payload.
#[test]
fn a_scrub_finds_damage_and_starts_remember_it() {
    let pristine = SimDisk::default();
    let bytes = filled(&pristine, 3);
    let bases = bases(&pristine);
    let whole = open(&pristine, SEGMENT);
    let clean = whole.log.scrub(&mut |_| true).unwrap();
    assert_eq!((clean.bytes, clean.damaged, clean.summed), (bytes.len() as u64, 0, 0));
    assert_log_is(&whole.log, &bytes);
    for (number, &base) in bases.iter().enumerate() {
        let disk = pristine.kill();
        let mut wal = disk.read(&path(base, "wal")).unwrap();
        let at = wal.len() / 2;
        wal[at] ^= 1;
        disk.put(&path(base, "wal"), &wal);
        let start = frames_of(&bytes).iter().find(|frame| frame.0 == base).unwrap().2.start;
        let hit = frames_of(&bytes).into_iter().find(|f| f.2.contains(&(start + at))).unwrap();
        let damaged = Damaged {
            disk,
            bytes: bytes.clone(),
            offset: hit.0,
            at: start + at,
            bases: Vec::new(),
            wal,
        };
        let Opened { log, metrics } = open(&damaged.disk, SEGMENT);
        assert_eq!(log.damage(), [], "nobody has looked");
        assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 1);
        damaged.assert_served(&log);
        assert_eq!(metrics.segments_damaged.get(), 1, "segment {number}");
        log.close().unwrap();
        damaged.assert_served(&open(&damaged.disk, SEGMENT).log);
    }
}

#[test]
fn a_sealed_segment_that_is_cut_short_is_damaged() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 3);
    let bases = bases(&disk);
    let wal = disk.read(&path(bases[0], "wal")).unwrap();
    disk.put(&path(bases[0], "wal"), &wal[..wal.len() - 5]);
    let Opened { log, metrics } = open(&disk, SEGMENT);
    assert_eq!(metrics.segments_damaged.get(), 1);
    let (found, end) = read_from(&log, 0);
    assert_eq!(end, End::Damaged);
    assert!(bytes.starts_with(&found));
    assert_eq!(read_from(&log, bases[1]).1, End::Tail);
    assert_eq!(disk.read(&path(bases[0], "wal")).unwrap().len(), wal.len() - 5);
}

/// The end of a sealed file is gone, at the end of a frame: nothing in it looks wrong, but offsets are missing.
#[test]
fn a_gap_between_segments_is_told_and_skipped() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 3);
    let bases = bases(&disk);
    assert_eq!(open(&disk, SEGMENT).metrics.offset_gaps.get(), 0);
    let cut = frames_of(&bytes).into_iter().rfind(|(first, ..)| *first < bases[1]).unwrap().2;
    disk.put(&path(0, "wal"), &bytes[..cut.start]);
    for _rebuilt_then_kept in 0..2 {
        let Opened { log, metrics } = open(&disk, SEGMENT);
        assert_eq!(metrics.offset_gaps.get(), 1);
        assert_eq!(metrics.segments_damaged.get(), 1, "it was flushed, and is gone");
        let (found, end) = read_from(&log, 0);
        assert_eq!(end, End::Tail);
        assert!(found == [&bytes[..cut.start], &bytes[cut.end..]].concat());
    }
}

/// Somebody has put the frames of a later segment into an earlier one. A lookup of their offsets goes to the later one, so a
/// reader that goes through the log must not get them from the other.
#[test]
fn records_behind_the_next_segment_are_not_served() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 3);
    let bases = bases(&disk);
    let later = disk.read(&path(bases[2], "wal")).unwrap();
    for without in [&["idx"][..], &["idx", "sum"]] {
        let disk = disk.kill();
        disk.put(&path(bases[0], "wal"), &later);
        for extension in without {
            disk.remove(&path(bases[0], extension));
        }
        let options = LogOptions { on_corruption: OnCorruption::Skip, ..options(SEGMENT) };
        let Opened { log, .. } = open_with(&disk, Path::new(DIR), options);
        let start = frames_of(&bytes).iter().find(|frame| frame.0 == bases[1]).unwrap().2.start;
        let whole = bytes[start..].to_vec();
        for offset in [0, bases[1] - 1, bases[1]] {
            assert!(read_from(&log, offset) == (whole.clone(), End::Tail), "{offset}");
        }
        let [bad] = &log.damage()[..] else { panic!("{:?}", log.damage()) };
        assert_eq!(bad.positions, 0..later.len() as u64);
        assert!(bad.offsets.start <= bad.offsets.end && bad.offsets.end <= bases[1], "{bad:?}");
        let mut cursor = log.locate_time(0).unwrap();
        assert_eq!(log.offset_at(&mut cursor).unwrap(), bases[1]);
        assert_lookups(&log, &whole);
    }
}
