//! Compaction: against a model, at every step of the disk, and under those who read.

mod beside;
mod model;
mod places;
mod steps;

use std::collections::HashMap;

use super::super::inspect::{Kind, Severity};
use super::super::repair::{RepairOptions, repair_partition};
use super::super::sim_disk::{Seeded, SimDisk};
use super::super::{Compacted, CompactionRules};
use super::inspect::verify_on;
use super::*;

/// How long tombstones stay.
const STAYS: u64 = 1000;

/// Everything that is dirty is compacted.
pub(super) const RULES: CompactionRules = CompactionRules {
    min_dirty_percent: 0,
    max_lag_ns: u64::MAX,
    tombstone_retention_ns: STAYS,
    memory_bytes: 1 << 20,
};

/// A log that is compacted, and whose time the test moves.
struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    options: LogOptions,
    rules: CompactionRules,
    log: Log,
    metrics: Arc<Metrics>,
}

impl World {
    fn on(disk: SimDisk, clock: Arc<ManualClock>, options: LogOptions) -> Self {
        let Opened { log, metrics } = open_at(&disk, Path::new(DIR), &clock, options);
        Self { disk, clock, options, rules: RULES, log, metrics }
    }

    fn new(segment_bytes: u64) -> Self {
        let options = LogOptions { cleanup: Cleanup::Compact, ..options(segment_bytes) };
        Self::on(SimDisk::default(), Arc::new(ManualClock::new(1_000_000)), options)
    }

    fn reopen(&mut self, disk: SimDisk) {
        let rules = self.rules;
        *self = Self { rules, ..Self::on(disk, Arc::clone(&self.clock), self.options) };
    }

    /// Appends one frame and flushes.
    fn append(&self, key: &[u8], payload: &[u8]) -> Vec<u8> {
        let stored = append(&self.log, frame(key, payload, 1)).unwrap();
        self.log.flush().unwrap();
        stored
    }

    /// Seals the active segment, so that it is compacted.
    fn seal(&self) {
        assert!(self.log.roll_if(|_| true).unwrap());
        self.log.flush().unwrap();
    }

    fn pass(&self) -> Compacted {
        self.log.compact(&self.rules, &mut |_| true).unwrap()
    }

    /// Passes until nothing is due.
    fn compact(&self) -> Compacted {
        let mut all = Compacted::default();
        loop {
            let done = self.pass();
            if done.passes == 0 {
                return all;
            }
            all.passes += 1;
            all.frames_removed += done.frames_removed;
            all.bytes_removed += done.bytes_removed;
            all.segments_merged += done.segments_merged;
            assert!(all.passes < 1000, "no pass comes to an end");
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let (bytes, end) = read_from(&self.log, self.log.start_offset());
        assert_eq!(end, End::Tail);
        bytes
    }

    /// Every lookup finds the frame that holds the offset or the first one after it, and nothing is wrong on the disk.
    fn check(&self) {
        let bytes = self.bytes();
        let frames = frames_of(&bytes);
        assert!(frames.windows(2).all(|pair| pair[0].1 <= pair[1].0), "offsets grow");
        for offset in self.log.start_offset()..=self.log.end_offset() {
            let first = frames.partition_point(|(_, next, _)| *next <= offset);
            let from = frames.get(first).map_or(bytes.len(), |(.., range)| range.start);
            let (found, end) = read_from(&self.log, offset);
            assert!(end == End::Tail && found == bytes[from..], "reading from offset {offset}");
        }
        assert_verifies(&self.disk, true, &[]);
    }
}

/// `verify` finds nothing wrong, and no gap, but for what is `allowed`.
fn assert_verifies(disk: &SimDisk, live: bool, allowed: &[Kind]) {
    let report = verify_on(disk, live);
    let wrong = |f: &&super::super::inspect::Finding| {
        let wrong = f.severity > Severity::Note || matches!(f.kind, Kind::Gap | Kind::Overlap);
        wrong && !allowed.contains(&f.kind)
    };
    let wrong: Vec<_> = report.findings().filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// What is left of frames if of each key only the newest is kept.
fn newest_of(bytes: &[u8]) -> Vec<u8> {
    let frames: Vec<_> = Frames::new(bytes).collect();
    let newest: HashMap<&[u8], Offset> =
        frames.iter().map(|(header, key, _)| (*key, header.offset)).collect();
    let ranges = frames_of(bytes);
    let kept = frames
        .iter()
        .zip(&ranges)
        .filter(|((header, key, _), _)| key.is_empty() || newest.get(key) == Some(&header.offset));
    kept.flat_map(|(_, (.., range))| bytes[range.clone()].to_vec()).collect()
}

/// Nothing is missing that counts, nothing is there twice, and what is there is as it was.
pub(super) fn assert_whole(found: &[u8], old: &[u8]) {
    let offsets = |bytes: &[u8]| -> Vec<Offset> {
        frames_of(bytes).into_iter().map(|(offset, ..)| offset).collect()
    };
    let (there, before) = (offsets(found), offsets(old));
    assert!(there.windows(2).all(|pair| pair[0] < pair[1]), "{there:?}");
    assert!(newest_of(found) == newest_of(old));
    let ranges = frames_of(old);
    for (offset, _, range) in frames_of(found) {
        let at = before.binary_search(&offset).unwrap();
        assert!(found[range] == old[ranges[at].2.clone()], "offset {offset}");
    }
}

#[test]
fn the_newest_frame_of_each_key_is_kept_where_it_was() {
    let world = World::new(300);
    let mut bytes = Vec::new();
    for number in 0..40u8 {
        let key: &[u8] = if number % 7 == 0 { b"" } else { &[b'a' + number % 3] };
        bytes.extend(world.append(key, &[number; 30]));
    }
    world.seal();
    let before = bases(&world.disk).len();
    let done = world.compact();
    assert_eq!((done.passes, done.frames_removed), (1, 31), "34 with a key, three keys");
    assert!(world.bytes() == newest_of(&bytes));
    assert_eq!(bases(&world.disk).len() as u64, before as u64 - done.segments_merged);
    assert_eq!(world.metrics.compaction_frames_removed.get(), 31);
    world.check();
    assert_eq!(world.pass(), Compacted::default(), "nothing is due");
    // What is appended goes on.
    assert_eq!(frames_of(&world.append(b"a", b"new"))[0].0, 40);
    world.check();
}

#[test]
fn a_log_that_is_not_to_be_compacted_is_not() {
    let mut world = World::new(100);
    world.options.cleanup = Cleanup::Delete;
    world.reopen(world.disk.clone());
    (0..20).for_each(|_| drop(world.append(b"key", b"value")));
    let before = world.bytes();
    assert_eq!(world.compact(), Compacted::default());
    assert!(!world.log.seal_lagging(&CompactionRules { max_lag_ns: 0, ..RULES }));
    assert!(world.bytes() == before);
}

#[test]
fn the_segment_that_is_appended_to_neither_loses_nor_supersedes() {
    let world = World::new(1 << 20);
    let first = world.append(b"key", b"1");
    world.seal();
    let mut all = first;
    all.extend(world.append(b"key", b"2"));
    all.extend(world.append(b"key", b"3"));
    assert_eq!(world.compact().frames_removed, 0);
    assert!(world.bytes() == all);
    world.seal();
    assert_eq!(world.compact().frames_removed, 2);
    assert!(world.bytes() == newest_of(&all));
    world.check();
}

#[test]
fn a_tombstone_stays_for_its_time_and_goes() {
    let mut world = World::new(1 << 20);
    let value = world.append(b"key", b"value");
    world.append(b"other", b"value");
    world.seal();
    world.compact();
    let tombstone = world.append(b"key", b"");
    world.clock.pass(50 * STAYS);
    world.seal();
    world.compact();
    assert!(!world.bytes().windows(value.len()).any(|found| found == value));
    assert!(world.bytes().ends_with(&tombstone), "since it was appended is not what counts");
    world.clock.pass(STAYS - 1);
    assert_eq!(world.pass(), Compacted::default());
    // The time is on the disk.
    world.reopen(world.disk.kill());
    world.clock.pass(1);
    let done = world.compact();
    assert_eq!((done.passes, done.frames_removed), (1, 1));
    assert!(!world.bytes().windows(tombstone.len()).any(|found| found == tombstone));
    world.check();
}

#[test]
fn old_tombstones_go_however_many_new_ones_come() {
    let world = World::new(1 << 20);
    let mut seen = 0;
    for number in 0..200u32 {
        world.append(&number.to_le_bytes(), b"");
        world.seal();
        world.compact();
        world.clock.pass(STAYS / 10);
        seen = seen.max(frames_of(&world.bytes()).len());
        assert!(bases(&world.disk).len() < 12, "segments become one all the same");
    }
    assert!(seen <= 16, "{seen} tombstones in the time of ten, and a quarter more");
}

#[test]
fn a_pass_is_due_by_the_share_of_what_is_dirty_and_by_its_age() {
    let mut world = World::new(1 << 20);
    world.rules.min_dirty_percent = 50;
    let fill = |world: &World, frames: u32| {
        (0..frames).for_each(|n| drop(world.append(&n.to_le_bytes(), &[1; 100])));
        world.seal();
    };
    fill(&world, 10);
    assert_eq!(world.pass().passes, 1, "all of it is dirty");
    fill(&world, 9);
    assert_eq!(world.pass().passes, 0);
    fill(&world, 1);
    assert_eq!(world.pass().passes, 1, "half of it is");
    fill(&world, 1);
    world.rules.max_lag_ns = 500;
    world.clock.pass(499);
    assert_eq!(world.pass().passes, 0);
    world.clock.pass(1);
    assert_eq!(world.pass().passes, 1);
    assert!(!world.log.seal_lagging(&world.rules), "nothing is in it");
    world.append(b"key", b"1");
    assert!(world.log.seal_lagging(&world.rules), "it began long ago");
    world.log.flush().unwrap();
    world.append(b"key", b"2");
    world.clock.pass(499);
    assert!(!world.log.seal_lagging(&world.rules));
    world.clock.pass(1);
    assert!(world.log.seal_lagging(&world.rules));
}

#[test]
fn a_pass_that_is_told_to_stop_leaves_all_as_it_was() {
    let world = World::new(400);
    for number in 0..60u8 {
        world.append(&[number % 5], &[number; 50]);
    }
    let (before, files) = (world.bytes(), world.disk.files());
    for most in 0..40 {
        let mut left = most;
        let mut pause = |_| {
            left -= 1;
            left >= 0
        };
        match world.log.compact(&world.rules, &mut pause) {
            Ok(done) => assert_eq!(done.passes, 1),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
                assert!(world.disk.files().iter().all(|file| files.contains(file)));
                continue;
            }
        }
        assert!(world.bytes() != before);
        world.check();
        return;
    }
    panic!("no pass came to its end");
}

#[test]
fn a_damaged_segment_is_left_alone_and_keeps_tombstones() {
    let mut world = World::new(1 << 20);
    // Large enough for damage to spare a frame.
    for payload in [[1; 5000], [2; 5000]] {
        world.append(b"a", &payload);
    }
    world.append(b"b", &vec![3; 20_000]);
    world.seal();
    world.append(b"a", b"");
    world.append(b"c", b"1");
    world.append(b"c", b"2");
    world.seal();
    let mut wal = world.disk.read(&path(0, segment::WAL)).unwrap();
    wal[25_000] ^= 1;
    world.disk.put(&path(0, segment::WAL), &wal);
    world.reopen(world.disk.kill());
    assert_eq!(world.pass().damaged, 1, "met by the pass itself");
    assert_eq!(world.metrics.segments_damaged.get(), 1);
    let done = world.compact();
    assert_eq!(done.frames_removed, 1, "c");
    assert!(world.disk.read(&path(0, segment::WAL)).unwrap() == wal);
    world.clock.pass(3 * STAYS);
    world.compact();
    let (found, _) = read_from(&world.log, 3);
    let keys: Vec<_> = Frames::new(&found).map(|(_, key, _)| key.to_vec()).collect();
    assert_eq!(keys, [b"a", b"c"], "what the tombstone is about may come back with a repair");
}

#[test]
fn a_segment_that_was_repaired_is_compacted_before_tombstones_go() {
    let mut world = World::new(1 << 20);
    let value = world.append(b"a", &[1; 5000]);
    world.append(b"b", &[3; 5000]);
    world.seal();
    world.compact();
    world.append(b"a", b"");
    world.seal();
    let mut wal = world.disk.read(&path(0, segment::WAL)).unwrap();
    wal[9000] ^= 1;
    world.disk.put(&path(0, segment::WAL), &wal);
    world.reopen(world.disk.kill());
    assert_eq!(world.pass().damaged, 1);
    assert_eq!(world.pass().passes, 1, "what is behind the damage is compacted");
    world.clock.pass(3 * STAYS);
    world.compact();
    world.log.close().unwrap();
    let disk = world.disk.kill();
    let env = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::clone(&world.clock) as Arc<dyn super::super::Clock>,
        metrics: Arc::default(),
    };
    let options = RepairOptions { quarantine: true, apply: true };
    repair_partition(&env, Path::new(DIR), options, &mut |_| {}).1.unwrap();
    world.reopen(disk);
    assert!(world.bytes().starts_with(&value), "it was healthy, and is there again");
    let tombstone =
        |world: &World| Frames::new(&world.bytes()).any(|(.., payload)| payload.is_empty());
    assert!(tombstone(&world));
    assert_eq!(world.pass().frames_removed, 1, "the value, and the tombstone not yet");
    assert!(tombstone(&world));
    world.clock.pass(STAYS - 1);
    world.compact();
    assert!(tombstone(&world), "its time begins when the value goes");
    world.clock.pass(1);
    world.compact();
    assert!(world.bytes().is_empty());
}
