//! Offset indexes that are missing, damaged or someone else's: fault 7. The answers are always the same.

use super::super::index::{IndexEntry, OffsetIndex};
use super::super::sim_disk::SimDisk;
use super::*;
use crate::model::limits::INDEX_INTERVAL_BYTES;
use crate::record::wire;

const ENTRY: usize = 16;

/// Changes an index (`None`: it is missing) of a segment, given the indexes of the log's other segments.
type Change = fn(Vec<u8>, &[u8]) -> Option<Vec<u8>>;

/// Adds to the entry with this number (counted from the end if negative).
#[expect(clippy::unnecessary_wraps, reason = "it is most of a `Change`")]
fn shift(mut index: Vec<u8>, number: isize, offset: i64, position: i64) -> Option<Vec<u8>> {
    let entries = index.len() / ENTRY;
    let at = ENTRY * number.rem_euclid(entries.cast_signed()).cast_unsigned();
    for (at, by) in [(at, offset), (at + 8, position)] {
        let value = wire::get_u64(&index, at).unwrap().wrapping_add_signed(by);
        index[at..at + 8].copy_from_slice(&wire::u64_bytes(value));
    }
    Some(index)
}

/// What is wrong, and whether a start must notice. Of what was flushed only the beginning and the end are looked at: a
/// lookup has to notice the rest.
const WRONG: &[(&str, bool, Change)] = &[
    ("missing", true, |_, _| None),
    ("empty", true, |_, _| Some(Vec::new())),
    ("zeroed", true, |index, _| Some(vec![0; index.len()])),
    ("random", true, |index, _| Some(vec![0xa5; index.len()])),
    ("cut to one entry", true, |index, _| Some(index[..ENTRY].to_vec())),
    ("cut in half", true, |index, _| Some(index[..index.len() / 2].to_vec())),
    ("cut inside an entry", true, |index, _| Some(index[..ENTRY + 8].to_vec())),
    ("of another segment", true, |_, other| Some(other.to_vec())),
    ("too long, into the log", true, |mut index, _| {
        let last = index[index.len() - ENTRY..].to_vec();
        index.extend(shift(last, 0, 1, 1).unwrap());
        Some(index)
    }),
    ("first offset", true, |index, _| shift(index, 0, 1, 0)),
    ("first position", true, |index, _| shift(index, 0, 0, 1)),
    ("last offset", true, |index, _| shift(index, -1, 1, 0)),
    ("last position", true, |index, _| shift(index, -1, 0, -1)),
    ("last far too early", true, |index, _| shift(index, -1, -3, 0)),
    ("middle not growing", true, |index, _| shift(index, 3, 0, -20_000)),
    ("middle offset up", false, |index, _| shift(index, 3, 5, 0)),
    ("middle offset down", false, |index, _| shift(index, 3, -5, 0)),
    ("middle position up", false, |index, _| shift(index, 3, 0, 1)),
    ("middle position down", false, |index, _| shift(index, 3, 0, -40)),
];

/// What is not wrong, so that nothing may be rebuilt.
const RIGHT: &[(&str, Change)] = &[
    ("as it is", |index, _| Some(index)),
    ("filled up with zeros", |mut index, _| {
        index.extend([0; 40 * ENTRY]);
        Some(index)
    }),
    ("too long, past the log", |mut index, _| {
        let last = index[index.len() - ENTRY..].to_vec();
        index.extend(shift(last, 0, 1000, 1 << 40).unwrap());
        Some(index)
    }),
];

/// A log whose segment `number` of three got its index changed.
fn changed(pristine: &SimDisk, number: usize, change: Change) -> (SimDisk, PathBuf) {
    let disk = pristine.kill();
    let bases = bases(&disk);
    let index = path(bases[number], "idx");
    let other = disk.read(&path(bases[(number + 1) % 3], "idx")).unwrap();
    match change(disk.read(&index).unwrap(), &other) {
        Some(bytes) => disk.put(&index, &bytes),
        None => disk.remove(&index),
    }
    (disk, index)
}

#[test]
fn a_wrong_index_gives_right_answers() {
    let pristine = SimDisk::default();
    let bytes = filled(&pristine, 3);
    for (what, noticed, change) in WRONG {
        for number in 0..3 {
            let (disk, index) = changed(&pristine, number, *change);
            let Opened { log, metrics } = open(&disk, SEGMENT);
            let rebuilt = metrics.indexes_rebuilt.get();
            assert_eq!(rebuilt, u64::from(*noticed), "{what}, segment {number}");
            assert_lookups(&log, &bytes);
            log.close().unwrap();
            let (found, right) = (disk.read(&index), pristine.read(&index));
            assert_eq!(found == right, *noticed, "{what}, segment {number}: as it was written");
            let again = open(&disk, SEGMENT);
            assert_eq!(again.metrics.indexes_rebuilt.get(), 0, "{what}, segment {number}");
            assert_lookups(&again.log, &bytes);
        }
    }
}

#[test]
fn a_right_index_is_not_rebuilt() {
    let pristine = SimDisk::default();
    let bytes = filled(&pristine, 3);
    for (what, change) in RIGHT {
        for number in 0..3 {
            let (disk, _) = changed(&pristine, number, *change);
            let Opened { log, metrics } = open(&disk, SEGMENT);
            assert_eq!(metrics.indexes_rebuilt.get(), 0, "{what}, segment {number}");
            assert_lookups(&log, &bytes);
        }
    }
}

#[test]
fn the_index_goes_on_right_after_what_stood_behind_it() {
    let disk = SimDisk::default();
    let mut bytes = filled(&disk, 1);
    let index = path(0, "idx");
    let mut stale = disk.read(&index).unwrap();
    // What another life left there: growing, and soon within the log.
    for number in 1..50u64 {
        stale.extend(wire::u64_bytes(10_000 + number));
        stale.extend(wire::u64_bytes(40_000 + 100 * number));
    }
    disk.put(&index, &stale);
    let Opened { log, .. } = open(&disk, 1 << 20);
    for _ in 0..50 {
        bytes.extend(append(&log, record(&[b'z'; 600])).unwrap());
    }
    assert_lookups(&log, &bytes);
    let again = open(&disk.kill(), 1 << 20);
    assert_lookups(&again.log, &bytes);
}

#[test]
fn the_index_of_an_active_segment_is_as_sparse_as_documented() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 1);
    let index = disk.read(&path(0, "idx")).unwrap();
    let positions: Vec<_> =
        (0..index.len() / ENTRY).map(|n| wire::get_u64(&index, n * ENTRY + 8).unwrap()).collect();
    assert_eq!(positions[0], 0);
    for pair in positions.windows(2) {
        assert!((4096..4096 + 600).contains(&(pair[1] - pair[0])), "{positions:?}");
    }
    assert!(bytes.len() as u64 - positions.last().unwrap() < 4096 + 600);
}

/// Growing is a call into the file system, made while appends wait: a few in the life of a segment.
#[test]
fn an_index_grows_in_few_steps_up_to_its_end() {
    for segment_bytes in [1 << 20, 5 << 20, 12 << 20, 15 << 20, 16 << 20] {
        let disk = SimDisk::default();
        let idx = path(0, "idx");
        let index = OffsetIndex::open_active(&disk, &idx, 0, segment_bytes).unwrap();
        let mut lengths = std::collections::BTreeSet::new();
        let entries = segment_bytes / INDEX_INTERVAL_BYTES;
        for n in 0..entries {
            index.push(IndexEntry { offset: n, position: n * INDEX_INTERVAL_BYTES });
            lengths.insert(disk.read(&idx).unwrap().len());
        }
        assert_eq!(index.len() as u64, entries);
        assert!(lengths.len() <= 5, "{segment_bytes}: one step for each doubling: {lengths:?}");
    }
}
