//! Deleting what is old: against a model, in the face of crashes, and under those who read it.

use proptest::prelude::*;

use super::super::sim_disk::{Seeded, SimDisk};
use super::super::{Deleted, Moved, SegmentSize};
use super::*;

const AGE: u64 = 1000;

/// A log whose time the test moves.
struct Timed {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    options: LogOptions,
    log: Log,
    metrics: Arc<Metrics>,
}

impl Timed {
    fn on(disk: SimDisk, clock: Arc<ManualClock>, options: LogOptions) -> Self {
        let Opened { log, metrics } = open_at(&disk, Path::new(DIR), &clock, options);
        Self { disk, clock, options, log, metrics }
    }

    fn new(segment_bytes: u64, retention: Retention) -> Self {
        let options = LogOptions { retention, ..options(segment_bytes) };
        Self::on(SimDisk::default(), Arc::new(ManualClock::new(1_000_000)), options)
    }

    fn reopen(&mut self, disk: SimDisk) {
        *self = Self::on(disk, Arc::clone(&self.clock), self.options);
    }

    /// Appends a record of 129 bytes and flushes.
    fn append(&self, byte: u8) -> Vec<u8> {
        let stored = append(&self.log, record(&[byte; 100])).unwrap();
        self.log.flush().unwrap();
        stored
    }
}

/// A pass, as the broker makes it.
fn retain(log: &Log) -> std::io::Result<Deleted> {
    if log.seal_due() {
        log.flush().unwrap();
    }
    log.delete_due()
}

fn by_age(age_ns: u64) -> Retention {
    Retention { age_ns: Some(age_ns), bytes: None }
}

#[derive(Debug, Clone)]
enum Do {
    /// Appends a record with so many bytes of payload, and flushes.
    Append(usize),
    Pass(u64),
    Retain,
    Reopen,
    Kill,
}

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        8 => (0usize..300).prop_map(Do::Append),
        4 => (1u64..700).prop_map(Do::Pass),
        4 => Just(Do::Retain),
        1 => Just(Do::Reopen),
        1 => Just(Do::Kill),
    ]
}

#[derive(Debug, Clone)]
struct Piece {
    base: Offset,
    bytes: Vec<u8>,
    began: u64,
    last: u64,
}

/// What retention does, without files.
#[derive(Debug)]
struct Model {
    pieces: Vec<Piece>,
    next: Offset,
    now: u64,
}

impl Model {
    fn roll(&mut self) {
        let (base, began) = (self.next, self.now);
        self.pieces.push(Piece { base, bytes: Vec::new(), began, last: began });
    }

    fn append(&mut self, stored: &[u8], segment_bytes: usize) {
        let active = self.pieces.last().unwrap();
        if !active.bytes.is_empty() && active.bytes.len() + stored.len() > segment_bytes {
            self.roll();
        }
        let active = self.pieces.last_mut().unwrap();
        active.bytes.extend_from_slice(stored);
        active.last = self.now;
        self.next += 1;
    }

    fn retain(&mut self, retention: Retention) {
        let old = |since| retention.age_ns.is_some_and(|age| self.now - since >= age);
        let enough = |bytes: usize| retention.bytes.is_some_and(|enough| bytes as u64 >= enough);
        let active = self.pieces.last().unwrap();
        if !active.bytes.is_empty() && (old(active.began) || enough(active.bytes.len())) {
            self.roll();
        }
        let old = |since| retention.age_ns.is_some_and(|age| self.now - since >= age);
        let goes = |pieces: &[Piece]| {
            let behind = pieces[1..].iter().map(|piece| piece.bytes.len()).sum();
            pieces.len() > 1 && (old(pieces[0].last) || enough(behind))
        };
        let mut first = 0;
        while goes(&self.pieces[first..]) {
            first += 1;
        }
        self.pieces.drain(..first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_equals_the_model(
        segment_bytes in 100u64..1500,
        age in prop::option::of(200u64..2000),
        bytes in prop::option::of(1u64..3000),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let retention = Retention { age_ns: age, bytes };
        let mut timed = Timed::new(segment_bytes, retention);
        let mut model = Model { pieces: Vec::new(), next: 0, now: 1_000_000 };
        model.roll();
        for step in &steps {
            match step {
                Do::Append(len) => {
                    let stored = append(&timed.log, record(&vec![9; *len])).unwrap();
                    timed.log.flush().unwrap();
                    model.append(&stored, usize::try_from(segment_bytes).unwrap());
                }
                Do::Pass(ns) => {
                    timed.clock.pass(*ns);
                    model.now += ns;
                }
                Do::Retain => {
                    retain(&timed.log).unwrap();
                    model.retain(retention);
                }
                Do::Reopen => {
                    timed.log.close().unwrap();
                    timed.reopen(timed.disk.clone());
                }
                Do::Kill => timed.reopen(timed.disk.kill()),
            }
            let expected: Vec<_> = model.pieces.iter().map(|piece| piece.base).collect();
            prop_assert_eq!(bases(&timed.disk), expected);
            let sizes = model.pieces.iter();
            let sizes: Vec<_> = sizes
                .map(|piece| SegmentSize {
                    base_offset: piece.base,
                    last_ns: piece.last,
                    bytes: piece.bytes.len() as u64,
                })
                .collect();
            prop_assert_eq!(timed.log.sizes(), sizes);
            let kept: Vec<u8> = model.pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
            prop_assert!(read_from(&timed.log, timed.log.start_offset()) == (kept, End::Tail));
            prop_assert_eq!(timed.log.end_offset(), model.next);
        }
    }
}

/// Five segments of two records each, of which the first three are old.
fn aged() -> (Timed, Vec<Vec<u8>>) {
    let timed = Timed::new(260, by_age(AGE));
    let mut records = Vec::new();
    for number in 0..10 {
        if number == 6 {
            timed.clock.pass(AGE);
        }
        records.push(timed.append(number));
    }
    assert_eq!(bases(&timed.disk), [0, 2, 4, 6, 8]);
    (timed, records)
}

#[test]
fn a_crash_at_every_step_leaves_whole_segments_and_no_hole() {
    let mut starts = std::collections::BTreeSet::new();
    for left in 0.. {
        let (timed, records) = aged();
        timed.disk.faults(|faults| faults.names_left = Some(left));
        let done = retain(&timed.log);
        timed.disk.faults(|faults| faults.names_left = None);
        assert_eq!(timed.log.start_offset(), 6, "readers see none of what is being deleted");
        let crashed = (0..30).map(|seed| timed.disk.crash(&mut Seeded::new(seed)));
        for disk in crashed.chain([timed.disk.kill()]) {
            let mut after = Timed::on(disk, Arc::clone(&timed.clock), timed.options);
            let start = after.log.start_offset();
            starts.insert(start);
            assert!(start.is_multiple_of(2) && start <= 6, "step {left}: {start}");
            let kept = records[usize::try_from(start).unwrap()..].concat();
            assert!(read_from(&after.log, start) == (kept, End::Tail), "step {left}: {start}");
            assert_eq!(after.metrics.offset_gaps.get(), 0);
            assert_eq!(after.metrics.segments_damaged.get(), 0);
            // The next pass ends what this one began.
            retain(&after.log).unwrap();
            after.reopen(after.disk.kill());
            assert_eq!(after.log.start_offset(), 6);
            let old = |file: &PathBuf| *file < path(6, "");
            assert!(!after.disk.files().iter().any(old), "{:?}", after.disk.files());
        }
        // As does the next one of the same process.
        let rest = retain(&timed.log).unwrap();
        assert_eq!(bases(&timed.disk), [6, 8]);
        assert_eq!(timed.log.end_offset(), 10);
        if let Ok(deleted) = done {
            assert_eq!(deleted, Deleted { segments: 3, bytes: 6 * 129 });
            assert_eq!(rest, Deleted::default());
            assert_eq!(timed.metrics.segments_deleted.get(), 3);
            assert_eq!(timed.metrics.bytes_deleted.get(), 6 * 129);
            break;
        }
    }
    assert_eq!(starts.into_iter().collect::<Vec<_>>(), [0, 2, 4, 6]);
}

#[test]
fn a_reader_ends_its_segment_and_goes_on_at_the_oldest_record() {
    let (timed, records) = aged();
    let Timed { log, metrics, .. } = &timed;
    let (mut slow, mut quick) = (log.locate(0).unwrap(), log.locate(5).unwrap());
    // In the middle of the first frame.
    let Fetch::Slice(slice) = log.fetch(&mut slow, 50) else { panic!("there is more") };
    slow.advance(slice.len());
    retain(log).unwrap();
    assert!(log.locate(0).is_err());
    let mut read = vec![0; 50];
    slice.read(&mut read).unwrap();
    while let Fetch::Slice(slice) = log.fetch(&mut slow, 100) {
        let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
        assert_eq!(slice.read(&mut buf).unwrap(), buf.len());
        read.extend(buf);
        slow.advance(slice.len());
    }
    assert!(read == [&records[..2], &records[6..]].concat().concat());
    assert_eq!(metrics.readers_moved.get(), 1);
    assert_eq!(slow.take_moved(), Some(Moved { from: 2, to: 6 }));
    assert_eq!(slow.take_moved(), None);
    // Nothing is missing behind the last segment that was deleted.
    let mut count = 0;
    while let Fetch::Slice(slice) = log.fetch(&mut quick, 129) {
        quick.advance(slice.len());
        count += 1;
    }
    assert_eq!((count, quick.take_moved(), metrics.readers_moved.get()), (5, None, 1));
}

#[test]
fn a_segment_that_is_alone_is_sealed_when_it_is_old_and_deleted_with_its_last_record() {
    for durability in [Durability::Interval, Durability::Always] {
        let mut timed = Timed::new(1 << 20, by_age(AGE));
        timed.options.durability = durability;
        timed.reopen(timed.disk.clone());
        timed.append(1);
        timed.clock.pass(AGE - 1);
        timed.append(2);
        let mut reader = timed.log.locate(2).unwrap();
        timed.clock.pass(1);
        retain(&timed.log).unwrap();
        assert_eq!((timed.log.start_offset(), bases(&timed.disk)), (0, vec![0, 2]));
        timed.clock.pass(AGE - 2);
        retain(&timed.log).unwrap();
        assert_eq!(timed.log.start_offset(), 0, "sealing it has not made it younger or older");
        timed.clock.pass(1);
        retain(&timed.log).unwrap();
        assert_eq!((timed.log.start_offset(), bases(&timed.disk)), (2, vec![2]));
        // An empty one is left alone.
        timed.clock.pass(10 * AGE);
        retain(&timed.log).unwrap();
        assert_eq!(bases(&timed.disk), [2]);
        timed.reopen(timed.disk.kill());
        assert_eq!((timed.log.start_offset(), timed.log.end_offset()), (2, 2));
        let stored = timed.append(3);
        assert!(read_from(&timed.log, 2) == (stored, End::Tail));
        assert!(matches!(timed.log.fetch(&mut reader, 1), Fetch::Tail | Fetch::Slice(_)));
    }
}

#[test]
fn a_time_that_has_not_come_yet_keeps_nothing_for_ever() {
    let mut timed = Timed::new(260, by_age(AGE));
    timed.clock.set(u64::MAX / 2);
    for number in 0..4 {
        timed.append(number);
    }
    timed.clock.set(5000);
    timed.reopen(timed.disk.kill());
    retain(&timed.log).unwrap();
    timed.clock.pass(AGE - 1);
    retain(&timed.log).unwrap();
    assert_eq!(timed.log.start_offset(), 0);
    timed.clock.pass(1);
    retain(&timed.log).unwrap();
    assert_eq!(timed.log.start_offset(), 4);
}

#[test]
fn what_is_not_durable_is_not_deleted() {
    let timed = Timed::new(260, Retention { age_ns: None, bytes: Some(1) });
    for number in 0..5 {
        append(&timed.log, record(&[number; 100])).unwrap();
    }
    timed.log.delete_before(9).unwrap();
    assert_eq!(timed.log.start_offset(), 0);
    timed.log.flush().unwrap();
    timed.log.delete_before(9).unwrap();
    assert_eq!((timed.log.start_offset(), bases(&timed.disk)), (4, vec![4]));
}

#[test]
fn a_segment_that_is_deleted_while_it_gets_checksums_leaves_none() {
    let (timed, _) = aged();
    timed.disk.remove(&path(0, "sum"));
    let found = timed.log.scrub(&mut |_| {
        timed.log.delete_due().unwrap();
        true
    });
    assert_eq!(found.unwrap().damaged, 0);
    let left = timed.disk.files().into_iter().filter(|file| *file < path(6, ""));
    assert_eq!(left.collect::<Vec<_>>(), [] as [PathBuf; 0]);
}

#[test]
fn what_a_crash_has_left_of_new_checksums_is_removed() {
    let (mut timed, _) = aged();
    timed.disk.put(&path(2, "sum.tmp"), b"half");
    timed.reopen(timed.disk.kill());
    assert!(!timed.disk.files().contains(&path(2, "sum.tmp")));
}
