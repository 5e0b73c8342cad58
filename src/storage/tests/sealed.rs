//! Damage in sealed segments: nothing is removed, and what is whole is served. Fault 6.

use super::super::LocateError;
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

#[test]
fn readers_are_stopped_at_the_damage_and_served_elsewhere() {
    let Damaged { disk, bytes, offset, at, bases, wal } = damaged();
    disk.remove(&path(bases[1], "idx"));
    for rebuilt in [1, 0] {
        let Opened { log, metrics } = open(&disk, SEGMENT);
        assert_eq!(metrics.segments_damaged.get(), 1, "told at every start");
        assert_eq!(metrics.indexes_rebuilt.get(), rebuilt);
        assert_eq!(metrics.torn_bytes.get(), 0);
        let (found, end) = read_from(&log, 0);
        assert_eq!(end, End::Damaged);
        assert!(found == bytes[..at], "what stands before the damage is served");
        for behind in [offset, offset + 3, bases[2] - 1] {
            assert_eq!(read_from(&log, behind), (Vec::new(), End::Damaged));
        }
        let (found, end) = read_from(&log, bases[2]);
        assert_eq!(end, End::Tail);
        assert!(bytes.ends_with(&found) && !found.is_empty(), "the next segment is served");
        assert_eq!(disk.read(&path(bases[1], "wal")).unwrap(), wal, "nothing was removed");
    }
    let Opened { log, .. } = open(&disk, SEGMENT);
    let stored = append(&log, record(b"after")).unwrap();
    assert!(read_from(&log, bases[2]).0.ends_with(&stored));

    let mut cursor = log.locate(bases[1]).unwrap();
    assert!(log.skip_segment(&mut cursor));
    assert_eq!(read_on(&log, cursor.clone(), 1000), read_from(&log, bases[2]));
    assert!(!log.skip_segment(&mut cursor), "there is none behind the last");
}

/// A start does not read a sealed segment whole, so damage behind a right index is met by lookups.
#[test]
fn a_lookup_never_answers_from_damaged_bytes() {
    let Damaged { disk, bytes, at, bases, .. } = damaged();
    let Opened { log, metrics } = open(&disk, SEGMENT);
    assert_eq!(metrics.indexes_rebuilt.get(), 0);
    let mut damaged = 0;
    for (first, _, range) in frames_of(&bytes) {
        match log.locate(first) {
            Ok(cursor) => {
                let (found, _) = read_on(&log, cursor, 1 << 20);
                let same = bytes.len() - range.start;
                assert_eq!(found.len(), same, "offset {first} is where it was");
            }
            Err(LocateError::Damaged { segment, .. }) => {
                assert_eq!(segment, bases[1]);
                assert!((at..at + 5000).contains(&range.start), "offset {first} is not damaged");
                damaged += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(damaged > 0);
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
        let (found, end) = read_from(&log, 0);
        assert_eq!(end, End::Tail);
        assert!(found == [&bytes[..cut.start], &bytes[cut.end..]].concat());
    }
}
