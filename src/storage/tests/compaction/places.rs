//! Readers that stand in a segment while it is compacted.

use std::sync::mpsc::{Sender, channel};

use super::super::super::sim_disk::DiskOver;
use super::*;

/// A log with three sealed segments and superseded frames in all of them.
fn world() -> (World, Vec<u8>) {
    let world = World::new(1 << 20);
    let mut bytes = Vec::new();
    for number in 0..30u8 {
        bytes.extend(world.append(&[number % 4], &[number; 40]));
        if number % 10 == 9 {
            world.seal();
        }
    }
    (world, bytes)
}

fn read_one(log: &Log, cursor: &mut Cursor) -> Vec<u8> {
    let Fetch::Slice(slice) = log.fetch(cursor, 70) else { panic!("there is more") };
    let mut buf = vec![0; 70];
    assert_eq!(slice.read(&mut buf).unwrap(), 70, "a frame");
    cursor.advance(70);
    buf
}

#[test]
fn a_reader_reads_an_old_segment_to_its_end_and_goes_on_behind_it() {
    // Wherever it stands: the rest of that segment as it was, and what is left of the ones behind it.
    for frames in 0..30 {
        let (world, bytes) = world();
        let mut cursor = world.log.locate(0).unwrap();
        (0..frames).for_each(|_| drop(read_one(&world.log, &mut cursor)));
        world.compact();
        let (rest, end) = read_on(&world.log, cursor, 100);
        assert_eq!(end, End::Tail);
        // At the end of a segment it has not left it yet.
        let segment = if frames == 0 { 0 } else { (frames - 1) / 10 };
        let old = &bytes[frames * 70..(segment + 1) * 700];
        let kept = newest_of(&bytes);
        let behind =
            frames_of(&kept).iter().filter(|(o, ..)| *o >= (segment as u64 + 1) * 10).count();
        let expected = [old, &kept[kept.len() - behind * 70..]].concat();
        assert!(rest == expected, "behind {frames} frames");
        assert_eq!(world.metrics.readers_moved.get(), 0);
    }
}

#[test]
fn a_reader_is_not_lost_when_what_replaced_its_segment_is_replaced() {
    let (world, bytes) = world();
    let mut cursor = world.log.locate(0).unwrap();
    let mut found = read_one(&world.log, &mut cursor);
    let mut all = bytes;
    for round in 0..5u8 {
        world.compact();
        all.extend(world.append(&[round % 4], &[round; 40]));
        world.seal();
    }
    world.compact();
    let (rest, end) = read_on(&world.log, cursor, 100);
    assert_eq!(end, End::Tail);
    found.extend(rest);
    let frames = frames_of(&found);
    assert!(frames.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    assert!(found.starts_with(&all[..700]), "its segment as it was");
    let kept = newest_of(&all);
    for (offset, _, range) in frames_of(&kept) {
        let there = frames.iter().find(|(found, ..)| *found == offset);
        let there = there.map(|(.., found_at)| &found[found_at.clone()]);
        assert!(there == Some(&kept[range]), "offset {offset}");
    }
}

#[test]
fn a_reader_whose_place_is_deleted_afterwards_is_moved_and_told() {
    let (world, _) = world();
    let mut cursor = world.log.locate(0).unwrap();
    drop(read_one(&world.log, &mut cursor));
    world.compact();
    world.append(b"x", b"1");
    world.seal();
    let last = world.append(b"x", b"2");
    world.log.delete_before(31).unwrap();
    assert_eq!(world.log.start_offset(), 31);
    let (rest, _) = read_on(&world.log, cursor.clone(), 1000);
    assert_eq!(rest.len(), 9 * 70 + last.len());
    while let Fetch::Slice(slice) = world.log.fetch(&mut cursor, 1000) {
        cursor.advance(slice.len());
    }
    assert_eq!(cursor.take_moved(), Some(super::super::super::Moved { from: 10, to: 31 }));
}

#[test]
fn a_place_at_the_log_end_stays_one_when_its_segment_is_compacted() {
    let world = World::new(1 << 20);
    for number in 0..20u8 {
        world.append(&[number % 2], &[number; 40]);
        if number % 5 == 4 && number < 15 {
            world.seal();
        }
    }
    // The place lies in the middle of what becomes a segment.
    let place = world.log.locate(world.log.end_offset()).unwrap();
    let mut cursor = world.log.locate(0).unwrap();
    world.append(b"behind", &[1; 40]);
    world.seal();
    world.append(b"behind", &[2; 40]);
    world.compact();
    world.seal();
    world.append(b"behind", &[3; 40]);
    let mut offsets = Vec::new();
    while cursor.distance_to(&place) != Some(0) {
        let max = cursor.distance_to(&place).unwrap_or(10_000);
        let Fetch::Slice(slice) = world.log.fetch(&mut cursor, max) else {
            panic!("not there yet")
        };
        if cursor.distance_to(&place).is_some_and(|bytes| bytes < slice.len()) {
            continue;
        }
        let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
        slice.read(&mut buf).unwrap();
        cursor.advance(slice.len());
        offsets.extend(frames_of(&buf).into_iter().map(|(offset, ..)| offset));
    }
    assert_eq!(offsets, [0, 1, 2, 3, 4, 18, 19, 20], "to the end of the segment with the place");
}

#[test]
fn retention_beside_compaction_takes_what_is_oldest() {
    let (world, bytes) = world();
    let mut reads = 0;
    // While the pass reads, retention deletes the first segment.
    let mut pause = |_| {
        reads += 1;
        if reads == 2 {
            assert_eq!(world.log.delete_before(10).unwrap().segments, 1);
        }
        true
    };
    world.log.compact(&world.rules, &mut pause).unwrap();
    assert_eq!(world.log.start_offset(), 10);
    world.compact();
    assert!(world.bytes() == newest_of(&bytes));
    world.check();
    let orphans = |file: &PathBuf| file.to_string_lossy().contains("00000000000000000000.");
    assert!(!world.disk.files().iter().any(orphans), "{:?}", world.disk.files());
}

/// A disk on which somebody else gets a moment while compaction holds what it needs to replace segments.
#[derive(Debug)]
struct AtDecision(SimDisk, Sender<()>);

impl DiskOver for AtDecision {
    fn disk(&self) -> &dyn Disk {
        &self.0
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        if to == path(0, "wal.swap") {
            let _ = self.1.send(());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        self.0.rename(from, to)
    }
}

#[test]
fn retention_takes_nothing_that_is_not_due_while_compaction_merges() {
    let (sender, decided) = channel();
    let clock = Arc::new(ManualClock::new(1_000_000));
    let retention = Retention { age_ns: Some(1000), bytes: None };
    let options = LogOptions { cleanup: Cleanup::Both, retention, ..options(1 << 20) };
    let env = Environment {
        disk: Arc::new(AtDecision(SimDisk::default(), sender)),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        metrics: Arc::default(),
    };
    let log = Log::open(env, Path::new(DIR), options).unwrap();
    for number in 0..6u8 {
        if number == 3 {
            clock.pass(1000);
        }
        append(&log, frame(&[number], &[number; 40], 1)).unwrap();
        append(&log, frame(b"x", &[number; 40], 1)).unwrap();
        assert!(log.roll_if(|_| true).unwrap());
        log.flush().unwrap();
    }
    std::thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || {
            decided.recv().unwrap();
            log.delete_due().unwrap();
        });
        log.compact(&RULES, &mut |_| true).unwrap();
    });
    let (bytes, _) = read_from(&log, log.start_offset());
    let offsets: Vec<_> = frames_of(&bytes).into_iter().map(|(offset, ..)| offset).collect();
    assert!(offsets.ends_with(&[6, 8, 10, 11]), "{offsets:?}");
}

#[test]
fn a_scrub_after_compaction_finds_nothing() {
    let (world, _) = world();
    world.compact();
    let found = world.log.scrub(&mut |_| true).unwrap();
    assert_eq!((found.damaged, found.summed), (0, 0));
    assert!(found.bytes > 0);
    // Checksums that are made anew remember.
    let sum = path(0, segment::SUM);
    world.disk.remove(&sum);
    assert_eq!(world.log.scrub(&mut |_| true).unwrap().summed, 1);
    let mut world = world;
    world.reopen(world.disk.kill());
    assert_eq!(world.pass().passes, 0, "nothing is dirty");
}

#[test]
fn a_segment_without_checksums_gets_some_first() {
    let (mut world, bytes) = world();
    world.log.close().unwrap();
    for base in bases(&world.disk) {
        world.disk.remove(&path(base, segment::SUM));
    }
    world.reopen(world.disk.kill());
    world.compact();
    assert!(world.bytes() == newest_of(&bytes));
    world.check();
    assert!(world.metrics.checksums_rebuilt.get() >= 3);
}

/// Nothing in it looks wrong, but it is not as long as it was flushed: it is left alone, and the others are not.
#[test]
fn a_segment_that_was_cut_between_frames_is_left_alone() {
    for frames in [0, 5] {
        let (mut world, _) = world();
        let wal = world.disk.read(&path(10, segment::WAL)).unwrap();
        world.disk.put(&path(10, segment::WAL), &wal[..frames * 70]);
        world.reopen(world.disk.kill());
        world.compact();
        let left = world.disk.read(&path(10, segment::WAL)).unwrap();
        assert_eq!(left.len(), frames * 70, "as it was");
        let (bytes, end) = read_from(&world.log, 0);
        assert_eq!(end, End::Tail);
        let offsets: Vec<_> = frames_of(&bytes).into_iter().map(|(offset, ..)| offset).collect();
        assert!(offsets.len() <= 4 + frames && offsets.ends_with(&[26, 27, 28, 29]), "{offsets:?}");
        let mut damage = world.log.damage();
        let lost = damage.pop().unwrap();
        assert_eq!((lost.positions.is_empty(), lost.offsets), (true, 10 + frames as u64..20));
        assert_eq!((damage, world.metrics.segments_damaged.get()), (Vec::new(), 1));
    }
}
