//! Checksums that are missing, damaged or of another segment, and every byte of a small log flipped: faults 6 and 7.

use super::super::crc;
use super::super::sim_disk::SimDisk;
use super::*;
use crate::record::wire;

/// Small segments of small records: flipping every byte of them takes a moment.
const SMALL: u64 = 600;

/// Three segments of some frames each, all flushed; the last one ends inside a block, as all do.
fn small_log(disk: &SimDisk) -> Vec<u8> {
    let Opened { log, .. } = open(disk, SMALL);
    let mut bytes = Vec::new();
    for n in 0..14u8 {
        bytes.extend(append(&log, frame(b"key", &[n; 80], 1 + u32::from(n % 3))).unwrap());
    }
    log.close().unwrap();
    assert_eq!(bases(disk).len(), 3);
    bytes
}

/// A log of two blocks and more in one segment.
fn three_blocks(disk: &SimDisk) -> Vec<u8> {
    let Opened { log, .. } = open(disk, 1 << 20);
    let mut bytes = Vec::new();
    for n in 0..20u8 {
        bytes.extend(append(&log, frame(b"key", &[n; 500], 1 + u32::from(n % 3))).unwrap());
    }
    log.flush().unwrap();
    drop(log);
    bytes
}

/// Reads every frame and checks that it is what was written, or nothing. Returns the offsets of those that are not served.
fn unserved(log: &Log, bytes: &[u8]) -> Vec<Offset> {
    let mut missing = Vec::new();
    for (first, _, range) in frames_of(bytes) {
        let (found, _) = read_from(log, first);
        let next = Frames::new(&found).next().map(|(header, ..)| header.offset);
        if next.is_none_or(|next| next > first) {
            missing.push(first);
        } else {
            assert!(found.starts_with(&bytes[range]), "offset {first} is what it was");
        }
    }
    missing
}

/// Flips one byte of one segment and looks at what a scrub makes of it.
fn flip(pristine: &SimDisk, bytes: &[u8], base: Offset, at: usize, segment_bytes: u64) {
    let disk = pristine.kill();
    let mut wal = disk.read(&path(base, "wal")).unwrap();
    wal[at] ^= 1 << (at % 8);
    disk.put(&path(base, "wal"), &wal);
    let Opened { log, metrics } = open(&disk, segment_bytes);
    log.scrub(&mut |_| true).unwrap();
    let start = frames_of(bytes).iter().find(|frame| frame.0 == base).unwrap().2.start;
    let hit = frames_of(bytes).into_iter().find(|f| f.2.contains(&(start + at))).unwrap();
    let missing = unserved(&log, bytes);
    assert!(missing.contains(&hit.0), "byte {at} of {base}: what is damaged is not served");
    let block = start + at / 4096 * 4096..start + at / 4096 * 4096 + 4096;
    for (first, _, range) in frames_of(bytes) {
        let near = range.start < block.end && range.end > block.start && range.start >= start;
        let same = near && range.start < start + wal.len();
        assert!(same || !missing.contains(&first), "byte {at} of {base}: offset {first} is served");
    }
    assert_eq!((metrics.segments_damaged.get(), metrics.torn_bytes.get()), (1, 0));
    assert_eq!(disk.read(&path(base, "wal")), Some(wal), "nothing is removed");
    assert!(log.damage().iter().any(|bad| bad.offsets.contains(&hit.0)));
    let stored = append(&log, record(b"goes on")).unwrap();
    assert_eq!(frames_of(&stored)[0].0, frames_of(bytes).last().unwrap().1, "at the next offset");
    log.close().unwrap();
    assert_eq!(unserved(&open(&disk, segment_bytes).log, bytes), missing, "remembered");
}

#[test]
fn every_flipped_byte_is_found_and_costs_its_block() {
    let pristine = SimDisk::default();
    let bytes = small_log(&pristine);
    for base in bases(&pristine) {
        for at in 0..pristine.read(&path(base, "wal")).unwrap().len() {
            flip(&pristine, &bytes, base, at, SMALL);
        }
    }
}

#[test]
fn damage_in_one_block_leaves_the_others() {
    let pristine = SimDisk::default();
    let bytes = three_blocks(&pristine);
    for at in (0..bytes.len()).step_by(97) {
        flip(&pristine, &bytes, 0, at, 1 << 20);
    }
}

type Change = fn(Vec<u8>, &[u8]) -> Option<Vec<u8>>;

const WRONG: &[(&str, Change)] = &[
    ("missing", |_, _| None),
    ("empty", |_, _| Some(Vec::new())),
    ("zeroed", |sums, _| Some(vec![0; sums.len()])),
    ("random", |sums, _| Some(vec![0xa5; sums.len()])),
    ("cut inside the header", |sums, _| Some(sums[..100].to_vec())),
    ("without its marks", |mut sums, _| {
        sums[64..512].fill(0);
        Some(sums)
    }),
    ("without its entries", |sums, _| Some(sums[..512].to_vec())),
    ("entries zeroed", |mut sums, _| {
        sums[512..].fill(0);
        Some(sums)
    }),
    ("entries random", |mut sums, _| {
        sums[512..].fill(0x5a);
        Some(sums)
    }),
    ("too long", |mut sums, _| {
        sums.extend([0xa5; 4096]);
        Some(sums)
    }),
    ("of another segment", |_, other| Some(other.to_vec())),
    ("of another segment, with this one's name", |sums, other| {
        Some([&sums[..64], &other[64..]].concat())
    }),
];

#[test]
fn wrong_checksums_cost_no_record() {
    let pristine = SimDisk::default();
    let bytes = filled(&pristine, 3);
    let bases = bases(&pristine);
    for (what, change) in WRONG {
        for (number, &base) in bases.iter().enumerate() {
            let disk = pristine.kill();
            let other = disk.read(&path(bases[(number + 1) % 3], "sum")).unwrap();
            match change(disk.read(&path(base, "sum")).unwrap(), &other) {
                Some(sums) => disk.put(&path(base, "sum"), &sums),
                None => disk.remove(&path(base, "sum")),
            }
            let Opened { log, metrics } = open(&disk, SEGMENT);
            assert_log_is(&log, &bytes);
            log.scrub(&mut |_| true).unwrap();
            assert_log_is(&log, &bytes);
            let counted = (metrics.segments_damaged.get(), metrics.torn_bytes.get());
            assert_eq!(counted, (0, 0), "{what}, segment {number}");
            // From here on they are right: a scrub has nothing to make anew.
            log.close().unwrap();
            let again = open(&disk, SEGMENT);
            let scrubbed = again.log.scrub(&mut |_| true).unwrap();
            assert_eq!((scrubbed.summed, scrubbed.damaged), (0, 0), "{what}, segment {number}");
            assert_eq!(again.metrics.checksums_rebuilt.get(), 0, "{what}, segment {number}");
            let mut longer = bytes.clone();
            longer.extend(append(&again.log, record(b"goes on")).unwrap());
            assert_log_is(&open(&disk.kill(), SEGMENT).log, &longer);
        }
    }
}

/// One flipped bit in the checksums: no record is lost by it, whatever it hits.
#[test]
fn a_flipped_byte_in_the_checksums_costs_no_record() {
    let pristine = SimDisk::default();
    let bytes = three_blocks(&pristine);
    let len = pristine.read(&path(0, "sum")).unwrap().len();
    assert!(len >= 512 + 8 * 3);
    for at in (0..len.min(512 + 8 * 4)).filter(|at| !(176..512).contains(at)) {
        let disk = pristine.kill();
        let mut sums = disk.read(&path(0, "sum")).unwrap();
        sums[at] ^= 1 << (at % 8);
        disk.put(&path(0, "sum"), &sums);
        let Opened { log, metrics } = open(&disk, 1 << 20);
        assert_log_is(&log, &bytes);
        assert_eq!(metrics.torn_bytes.get(), 0, "byte {at}");
    }
}

/// Cut anywhere: the mark of the last flush counts also where the entries before it are gone, and no older one does instead.
#[test]
fn checksums_that_were_cut_cost_no_record() {
    let pristine = SimDisk::default();
    let Opened { log, .. } = open(&pristine, 1 << 20);
    let mut bytes = append(&log, record(&[1; 700])).unwrap();
    log.flush().unwrap();
    for n in 0..20u8 {
        bytes.extend(append(&log, frame(b"key", &[n; 500], 1)).unwrap());
    }
    log.close().unwrap();
    let sums = pristine.read(&path(0, "sum")).unwrap();
    assert_eq!(sums.len(), 512 + 8 * 3);
    for len in 0..sums.len() {
        let disk = pristine.kill();
        disk.put(&path(0, "sum"), &sums[..len]);
        let Opened { log, metrics } = open(&disk, 1 << 20);
        assert_log_is(&log, &bytes);
        assert_eq!(metrics.torn_bytes.get(), 0, "cut to {len} bytes");
    }
}

/// All checks right, and what they say cannot be: neither a start nor a scrub takes longer for it.
#[test]
fn a_mark_of_more_than_there_can_be_is_not_followed() {
    let pristine = SimDisk::default();
    let bytes = three_blocks(&pristine);
    for mark in [64, 192] {
        let disk = pristine.kill();
        let mut sums = disk.read(&path(0, "sum")).unwrap();
        sums[mark] = 0x3f;
        let check = crc::extend(crc::of(&[0; 8]), &sums[mark..mark + 40]);
        sums[mark + 40..mark + 48].copy_from_slice(&wire::u64_bytes(check.into()));
        disk.put(&path(0, "sum"), &sums);
        let Opened { log, .. } = open(&disk, 1 << 20);
        log.scrub(&mut |_| true).unwrap();
        assert!(unserved(&log, &bytes).len() < frames_of(&bytes).len());
    }
}

/// The log was cut by somebody: what was flushed of it is missed, and no offset is given twice.
#[test]
fn a_log_that_is_shorter_than_was_flushed_gives_no_offset_twice() {
    let pristine = SimDisk::default();
    let bytes = three_blocks(&pristine);
    let end = frames_of(&bytes).last().unwrap().1;
    for cut in [1, 100, 529, 530, 5000, bytes.len()] {
        let disk = pristine.kill();
        disk.put(&path(0, "wal"), &bytes[..bytes.len() - cut]);
        for start in 0..2 {
            let Opened { log, metrics } = open(&disk, 1 << 20);
            assert_eq!(metrics.torn_bytes.get(), 0);
            assert_eq!(metrics.segments_damaged.get(), 1, "cut by {cut}, start {start}");
            let stored = append(&log, record(b"goes on")).unwrap();
            assert_eq!(frames_of(&stored)[0].0, end + start, "cut by {cut}");
            let missing = unserved(&log, &bytes);
            let kept = frames_of(&bytes).into_iter().filter(|f| f.2.end <= bytes.len() - cut);
            let served = kept.filter(|frame| !missing.contains(&frame.0)).count();
            let whole =
                frames_of(&bytes).iter().filter(|f| f.2.end + 4096 <= bytes.len() - cut).count();
            assert!(served >= whole, "cut by {cut}: {served} of at least {whole}");
            log.close().unwrap();
        }
    }
}

/// There is no space for checksums: reading works, and appending does once there is some.
#[test]
fn without_space_for_checksums_the_log_is_read_and_later_written() {
    for there in [false, true] {
        let disk = SimDisk::default();
        let mut bytes = Vec::new();
        if there {
            bytes = three_blocks(&disk);
            disk.remove(&path(0, "sum"));
        }
        disk.faults(|faults| (faults.no_create, faults.no_grow) = (Some(".sum"), Some(".sum")));
        let Opened { log, .. } = open(&disk, 1 << 20);
        assert_log_is(&log, &bytes);
        assert!(matches!(append(&log, record(b"x")), Err(AppendError::Io(_))));
        assert_log_is(&log, &bytes);
        disk.faults(|faults| (faults.no_create, faults.no_grow) = (None, None));
        for n in 0..5u8 {
            bytes.extend(append(&log, record(&[n; 40])).unwrap());
        }
        assert_log_is(&log, &bytes);
        log.flush().unwrap();
        assert_log_is(&open(&disk.kill(), 1 << 20).log, &bytes);
    }
}

/// Checksums grow with the log; where the disk is full the run is refused whole.
#[test]
fn checksums_that_cannot_grow_refuse_the_run() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 64 << 20);
    let mut bytes = append(&log, record(b"first")).unwrap();
    disk.faults(|faults| faults.no_grow = Some(".sum"));
    let large = record(&vec![7; 3 << 20]);
    assert!(matches!(append(&log, large.clone()), Err(AppendError::Io(_))));
    bytes.extend(append(&log, record(b"small")).unwrap());
    assert_log_is(&log, &bytes);
    disk.faults(|faults| faults.no_grow = None);
    bytes.extend(append(&log, large).unwrap());
    let again = open(&disk.kill(), 64 << 20);
    assert_log_is(&again.log, &bytes);
    assert_eq!(again.metrics.torn_bytes.get(), 0);
}
