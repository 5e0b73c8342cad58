//! `repair`: what is derived becomes what it was, what is damaged is taken out and kept, and a crash in between harms nothing.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::disk::{Duplicate, File, Open};
use super::super::inspect::{Kind, Severity, State};
use super::super::repair::{Action, Repair, RepairOptions, repair_partition};
use super::super::sim_disk::{DiskOver, FileOver, Seeded, SimDisk};
use super::inspect::{SMALL, by_offset, dump, is_clean, two_segments, verify, verify_on};
use super::*;

fn environment(disk: Arc<dyn Disk>) -> Environment {
    let (clock, metrics) = (Arc::new(ManualClock::new(1)), Arc::default());
    Environment { disk, clock, metrics }
}

fn repair(disk: &SimDisk, quarantine: bool) -> Repair {
    let env = environment(Arc::new(disk.clone()));
    let options = RepairOptions { quarantine, apply: false };
    let before = everything(disk);
    let run = |options| {
        let (repair, result) = repair_partition(&env, Path::new(DIR), options, &mut |_| {});
        result.unwrap();
        repair
    };
    let planned = run(options);
    assert!(before == everything(disk), "a plan writes nothing");
    let options = RepairOptions { apply: true, ..options };
    let done = run(options);
    assert_eq!(planned, done);
    let again = run(options);
    let places = |repair: &Repair| -> Vec<_> {
        repair.left.iter().map(|left| (left.kind, left.bytes, left.offsets)).collect()
    };
    assert_eq!((&again.steps[..], places(&again)), (&[][..], places(&done)), "once is enough");
    done
}

fn everything(disk: &SimDisk) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    disk.files().into_iter().map(|file| (file.clone(), disk.read(&file))).collect()
}

fn actions(repair: &Repair) -> Vec<Action> {
    repair.steps.iter().map(|step| step.action).collect()
}

/// Ways in which a derived file can be wrong, by name. `None`: it is not there.
fn wrongs(right: &[u8], other: &[u8]) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let mut seed = Seeded::new(3);
    let random = (0..right.len()).map(|_| seed.byte()).collect();
    let mut flipped = right.to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x20;
    vec![
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("zeroed", Some(vec![0; right.len()])),
        ("random", Some(random)),
        ("too long", Some([right, b"and more than that"].concat())),
        ("too short", Some(right[..right.len() - 1].to_vec())),
        ("of another segment", Some(other.to_vec())),
        ("flipped", Some(flipped)),
    ]
}

/// Fault 7.
#[test]
fn derived_files_are_noted_and_become_what_they_were() {
    let (pristine, bytes) = two_segments();
    let bases = bases(&pristine);
    let before = everything(&pristine);
    for extension in ["idx", "sum"] {
        for (base, other) in [(bases[0], bases[1]), (bases[1], bases[0])] {
            let right = pristine.read(&path(base, extension)).unwrap();
            let other = pristine.read(&path(other, extension)).unwrap();
            for (what, wrong) in wrongs(&right, &other) {
                let what = format!("{base}.{extension} {what}");
                let disk = pristine.kill();
                match wrong {
                    Some(wrong) => disk.put(&path(base, extension), &wrong),
                    None => disk.remove(&path(base, extension)),
                }
                let report = verify(&disk);
                assert_eq!(report.severity(), Some(Severity::Derived), "{what}: {report:?}");
                assert!(dump(&disk).0 == by_offset(&bytes), "{what}");
                let done = repair(&disk, false);
                let action = if extension == "idx" {
                    Action::RebuildIndex
                } else {
                    Action::RebuildChecksums
                };
                assert_eq!((actions(&done), done.left), (vec![action], vec![]), "{what}");
                assert!(everything(&disk) == before, "{what}");
                assert!(is_clean(&verify(&disk)), "{what}");
            }
        }
    }
}

/// What half of a file of checksums still knows is not forgotten when the other half is made anew.
#[test]
fn new_checksums_remember_what_the_old_ones_knew() {
    let (disk, bytes) = two_segments();
    let mut wal = disk.read(&path(0, "wal")).unwrap();
    let mut sum = disk.read(&path(0, "sum")).unwrap();
    // A payload in the second block, and the checksum of the first one.
    let hit = frames_of(&wal).into_iter().find(|frame| frame.2.start > 5000).unwrap();
    wal[hit.2.end - 1] ^= 1;
    sum[64 * 8] ^= 1;
    disk.put(&path(0, "wal"), &wal);
    disk.put(&path(0, "sum"), &sum);
    let done = repair(&disk, false);
    assert_eq!(actions(&done), [Action::RebuildChecksums]);
    let [left] = &done.left[..] else { panic!("{done:?}") };
    let offsets = left.offsets.unwrap();
    assert!((offsets.from..offsets.to.unwrap()).contains(&hit.0), "{left:?}");
    let whole = by_offset(&bytes);
    let kept = whole.iter().filter(|(at, _)| !(offsets.from..offsets.to.unwrap()).contains(at));
    assert!(dump(&disk).0.iter().eq(kept));
    let Opened { log, .. } = open(&disk, SMALL);
    assert_eq!(log.damage().len(), 1, "a start knows it, too");
}

#[test]
fn a_torn_tail_is_cut_and_kept() {
    let mut seed = Seeded::new(9);
    for cut in 0..60 {
        let disk = SimDisk::default();
        let Opened { log, .. } = open(&disk, 1 << 20);
        let mut bytes = Vec::new();
        for n in 0..8u8 {
            bytes.extend(append(&log, record(&vec![n; 200 + seed.below(900)])).unwrap());
            if n == 4 {
                log.flush().unwrap();
            }
        }
        let disk = disk.kill();
        let mut torn = bytes.clone();
        torn.truncate(bytes.len() - 1 - cut * 7);
        torn.extend(vec![0; seed.below(50)]);
        disk.put(&path(0, "wal"), &torn);
        let expected = {
            let started = disk.kill();
            drop(open(&started, 1 << 20));
            started.read(&path(0, "wal")).unwrap()
        };
        let done = repair(&disk, false);
        assert_eq!(done.left, [], "cut {cut}");
        assert_eq!(disk.read(&path(0, "wal")).unwrap(), expected, "cut {cut}: as a start does");
        let rest = &torn[expected.len()..];
        assert_eq!(disk.read(&path(0, "torn-1")).as_deref(), Some(rest), "cut {cut}");
        let report = verify(&disk);
        assert_eq!(report.severity(), Some(Severity::Note), "cut {cut}: {report:?}");
        let Opened { log, metrics } = open(&disk, 1 << 20);
        assert_eq!(metrics.torn_bytes.get(), 0);
        assert_log_is(&log, &expected);
    }
}

/// The bytes of the frames that are good: all but some of one block.
fn without(bytes: &[u8], offsets: std::ops::Range<Offset>) -> Vec<u8> {
    let frames = frames_of(bytes).into_iter().filter(|frame| !offsets.contains(&frame.0));
    frames.flat_map(|frame| bytes[frame.2].to_vec()).collect()
}

/// A damaged frame in each segment, and the offsets that go with them.
fn damaged() -> (SimDisk, Vec<u8>, Vec<u8>) {
    let (disk, bytes) = two_segments();
    let mut good = bytes.clone();
    for base in bases(&disk) {
        let mut wal = disk.read(&path(base, "wal")).unwrap();
        wal[4500] ^= 4;
        disk.put(&path(base, "wal"), &wal);
    }
    for finding in verify(&disk).findings() {
        let offsets = finding.offsets.unwrap();
        good = without(&good, offsets.from..offsets.to.unwrap());
    }
    assert!(good.len() < bytes.len() && good.len() + 2 * 5000 > bytes.len());
    (disk, bytes, good)
}

#[test]
fn damaged_frames_are_taken_out_and_kept() {
    let (disk, bytes, good) = damaged();
    let left = repair(&disk, false);
    assert_eq!((left.steps.len(), left.left.len()), (0, 2), "only if asked");
    let bad: Vec<_> = verify(&disk).findings().cloned().collect();
    let was: Vec<_> = bases(&disk).iter().map(|&base| disk.read(&path(base, "wal"))).collect();

    let done = repair(&disk, true);
    let both = [Action::Quarantine, Action::RebuildChecksums, Action::RebuildIndex];
    assert_eq!((actions(&done), &done.left[..]), ([both, both].concat(), &[][..]));
    for ((base, bad), wal) in bases(&disk).into_iter().zip(bad).zip(was) {
        let span = bad.bytes.unwrap();
        let range = usize::try_from(span.from).unwrap()..usize::try_from(span.to.unwrap()).unwrap();
        assert_eq!(disk.read(&path(base, "bad-1")).unwrap(), wal.unwrap()[range]);
    }
    let report = verify(&disk);
    assert_eq!(report.severity(), Some(Severity::Note), "{report:?}");
    assert!(report.findings().all(|found| matches!(found.kind, Kind::SetAside | Kind::Gap)));
    assert!(dump(&disk).0 == by_offset(&good));

    // Readers that are disconnected by damage go on, and no offset is given twice.
    let Opened { log, metrics } = open(&disk, SMALL);
    assert_eq!(metrics.indexes_rebuilt.get() + metrics.torn_bytes.get(), 0);
    assert_eq!(metrics.segments_damaged.get() + metrics.offset_gaps.get(), 0);
    assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
    assert!(read_from(&log, 0) == (good.clone(), End::Tail));
    let end = frames_of(&bytes).last().unwrap().1;
    assert_eq!(log.end_offset(), end);
    let stored = append(&log, record(b"goes on")).unwrap();
    assert_eq!(frames_of(&stored)[0].0, end);
}

/// The last frames of a log are damaged: their offsets are not given again.
#[test]
fn what_is_taken_from_the_end_leaves_its_offsets_taken() {
    let (pristine, bytes) = two_segments();
    let end = frames_of(&bytes).last().unwrap().1;
    let base = bases(&pristine)[1];
    for all in [false, true] {
        let disk = pristine.kill();
        let mut wal = disk.read(&path(base, "wal")).unwrap();
        let from = if all { 0 } else { wal.len() - 1 };
        wal[from..].iter_mut().for_each(|byte| *byte ^= 0x55);
        disk.put(&path(base, "wal"), &wal);
        let done = repair(&disk, true);
        assert_eq!(done.left, [], "{done:?}");
        let report = verify(&disk);
        assert_eq!(report.severity(), Some(Severity::Note), "{report:?}");
        for _ in 0..2 {
            let Opened { log, metrics } = open(&disk, SMALL);
            assert_eq!((log.end_offset(), metrics.indexes_rebuilt.get()), (end, 0));
            assert_eq!(log.damage(), []);
        }
        let Opened { log, .. } = open(&disk, SMALL);
        let stored = append(&log, record(b"goes on")).unwrap();
        assert_eq!(frames_of(&stored)[0].0, end);
        assert!(read_from(&log, end).0 == stored);
        log.close().unwrap();
        assert!(verify(&disk).severity() <= Some(Severity::Note));
    }
}

#[test]
fn lengths_that_are_wrong_are_put_right() {
    let (pristine, bytes) = two_segments();
    let end = frames_of(&bytes).last().unwrap().1;
    let bases = bases(&pristine);
    for base in bases {
        let wal = pristine.read(&path(base, "wal")).unwrap();
        let last = frames_of(&wal).pop().unwrap().2.start;
        for len in [wal.len() - 3, last, wal.len() + 40] {
            let disk = pristine.kill();
            let mut hurt = wal.clone();
            hurt.resize(len, 9);
            disk.put(&path(base, "wal"), &hurt);
            let left = repair(&disk, false).left;
            let is_tail = base > 0 && len > wal.len();
            assert_eq!(left.is_empty(), is_tail, "{base} {len}: a torn tail is cut anyway");
            let done = repair(&disk, true);
            assert_eq!(done.left, []);
            let report = verify(&disk);
            assert!(report.severity() <= Some(Severity::Note), "{base} {len}: {report:?}");
            let Opened { log, metrics } = open(&disk, SMALL);
            assert_eq!(metrics.segments_damaged.get(), 0, "{base} {len}");
            assert_eq!(log.end_offset(), end, "{base} {len}");
            assert_eq!(read_from(&log, 0).1, End::Tail);
        }
    }
}

/// A process that dies after some operations: every one behind them fails.
#[derive(Debug, Clone)]
struct Mortal {
    disk: SimDisk,
    left: Arc<AtomicUsize>,
}

impl Mortal {
    fn live(&self) -> io::Result<()> {
        let take = |left: usize| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| io::Error::other("dead"))
    }
}

impl DiskOver for Mortal {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        if how == Open::Create || how == Open::Truncate {
            self.live()?;
        }
        Ok(Arc::new(MortalFile { file: self.disk.open(path, how)?, disk: self.clone() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.live()?;
        self.disk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.live()?;
        self.disk.rename(from, to)
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        self.live()?;
        self.disk.duplicate(from, to, link)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.live()?;
        self.disk.remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.live()?;
        self.disk.sync_dir(path)
    }
}

#[derive(Debug)]
struct MortalFile {
    file: Arc<dyn File>,
    disk: Mortal,
}

impl FileOver for MortalFile {
    fn file(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.disk.live()?;
        self.file.write_at(buf, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.live()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.live()?;
        self.file.sync_data()
    }
}

/// Everything at once: damage in both segments, a torn tail, and no index.
fn much_to_do() -> (SimDisk, Vec<u8>, Vec<Vec<u8>>) {
    let (disk, _, good) = damaged();
    let mut kept = Vec::new();
    for finding in verify(&disk).findings() {
        let wal = disk.read(&Path::new(DIR).join(&finding.file)).unwrap();
        let span = finding.bytes.unwrap();
        let range = usize::try_from(span.from).unwrap()..usize::try_from(span.to.unwrap()).unwrap();
        kept.push(wal[range].to_vec());
    }
    let last = path(bases(&disk)[1], "wal");
    let mut wal = disk.read(&last).unwrap();
    wal.extend(b"\x01torn");
    disk.put(&last, &wal);
    disk.remove(&path(0, "idx"));
    kept.push(b"\x01torn".to_vec());
    (disk, good, kept)
}

/// Whether bytes are still there: in a log, or in a file beside it.
fn are_kept(disk: &SimDisk, bytes: &[u8]) -> bool {
    disk.files().iter().any(|file| {
        let found = disk.read(file).unwrap();
        found.windows(bytes.len()).any(|window| window == bytes)
    })
}

/// Wherever it is stopped: nothing is lost, a start serves what is good and nothing else, and doing it again ends it.
#[test]
fn a_repair_can_be_stopped_after_every_operation() {
    let (pristine, good, kept) = much_to_do();
    let options = RepairOptions { quarantine: true, apply: true };
    let run = |disk: &SimDisk, operations: usize| {
        let mortal = Mortal { disk: disk.clone(), left: Arc::new(AtomicUsize::new(operations)) };
        repair_partition(&environment(Arc::new(mortal)), Path::new(DIR), options, &mut |_| {}).1
    };
    let mut seed = Seeded::new(4);
    for operations in 0.. {
        let disk = pristine.kill();
        let ended = run(&disk, operations).is_ok();
        for round in 0..12 {
            let what = format!("operation {operations}, round {round}");
            let disk = if round == 0 { disk.kill() } else { disk.crash(&mut seed) };
            assert!(kept.iter().all(|bytes| are_kept(&disk, bytes)), "{what}");
            let shown = dump(&disk).0;
            assert!(
                by_offset(&good).iter().all(|(at, frame)| shown.get(at) == Some(frame)),
                "{what}"
            );

            let started = disk.kill();
            let skip = LogOptions { on_corruption: OnCorruption::Skip, ..super::options(SMALL) };
            let Opened { log, .. } = open_with(&started, Path::new(DIR), skip);
            log.scrub(&mut |_| true).unwrap();
            assert!(read_from(&log, 0) == (good.clone(), End::Tail), "{what}: a start");
            drop(log);
            assert!(kept.iter().all(|bytes| are_kept(&started, bytes)), "{what}: a start");

            run(&disk, usize::MAX).unwrap();
            let report = verify(&disk);
            assert_eq!(report.severity(), Some(Severity::Note), "{what}: {report:?}");
            assert!(dump(&disk).0 == by_offset(&good), "{what}: again");
            assert!(kept.iter().all(|bytes| are_kept(&disk, bytes)), "{what}: again");
        }
        if ended {
            assert!(operations > 40, "{operations} operations are not all");
            break;
        }
    }
}

/// One of the things that happen to files.
fn hurt(disk: &SimDisk, seed: &mut Seeded) {
    let files = disk.files();
    let file = &files[seed.below(files.len())];
    let mut bytes = disk.read(file).unwrap();
    let at = seed.below(bytes.len());
    match seed.below(9) {
        0 => disk.remove(file),
        1 => return disk.put(file, &disk.read(&files[seed.below(files.len())]).unwrap()),
        2 => bytes.truncate(at),
        3 => bytes.extend((0..seed.below(300)).map(|_| seed.byte())),
        4 => bytes.extend(vec![0; seed.below(300)]),
        5 => bytes[at..].fill(0),
        6 => bytes[at..].iter_mut().take(50).for_each(|byte| *byte = seed.byte()),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << seed.below(8)),
    }
    if disk.read(file).is_some() {
        disk.put(file, &bytes);
    }
}

/// Whatever happened: nothing is made up, a repair leaves a log in which nothing is damaged, and a broker serves of it what
/// a dump shows. `HERMITMQ_SEEDS` runs more of them.
#[test]
fn after_a_repair_a_broker_serves_what_a_dump_shows() {
    let pristine = SimDisk::default();
    let Opened { log, .. } = open(&pristine, SMALL);
    for number in 0..110u8 {
        append(&log, frame(b"k", &[number; 170], 1 + u32::from(number % 3))).unwrap();
        if number == 80 {
            log.flush().unwrap();
        }
    }
    drop(log);
    let seeds = std::env::var("HERMITMQ_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for number in 0..seeds.unwrap_or(400u64) {
        let mut seed = Seeded::new(number);
        let disk = pristine.kill();
        for _ in 0..=seed.below(4) {
            hurt(&disk, &mut seed);
        }
        verify_on(&disk, true);
        let before = dump(&disk).0;
        let env = environment(Arc::new(disk.clone()));
        let options = RepairOptions { quarantine: true, apply: true };
        let (_, result) = repair_partition(&env, Path::new(DIR), options, &mut |_| {});
        result.unwrap();
        let report = verify(&disk);
        // What may not be part of the log is the start's to judge.
        let own = report.segments.iter().filter(|segment| segment.state != State::Provisional);
        let found = own.flat_map(|segment| &segment.findings).chain(&report.findings);
        let damaged = found.filter(|found| found.severity > Severity::Note);
        let damaged: Vec<_> =
            damaged.filter(|found| !matches!(found.kind, Kind::Gap | Kind::Overlap)).collect();
        assert!(damaged.is_empty(), "seed {number}: {damaged:?}");
        let after = dump(&disk).0;
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "seed {number}"
        );
        assert!(before == after, "seed {number}: a repair changes no good frame");
        let Opened { log, .. } = open(&disk, SMALL);
        let served = read_from(&log, log.start_offset());
        assert!(served.1 == End::Tail, "seed {number}");
        let mut served = by_offset(&served.0);
        for frame in served.values_mut().filter(|frame| frame[25..29] == [0; 4]) {
            // A count of 0 counts as 1, and is shown so.
            frame[28] = 1;
        }
        // A start may believe the frames of a provisional segment rather than checksums that are half damaged.
        let doubtful = report.segments.iter().find(|segment| {
            let wrong = segment.findings.iter().any(|found| found.severity > Severity::Note);
            segment.state == State::Provisional && wrong
        });
        let sure = 0..doubtful.map_or(Offset::MAX, |segment| segment.base);
        let only = |these: &BTreeMap<Offset, Vec<u8>>, those: &BTreeMap<Offset, Vec<u8>>| {
            let only = these.iter().filter(|(at, frame)| those.get(at) != Some(frame));
            let only = only.filter(|(at, _)| sure.contains(at));
            only.map(|(at, _)| *at).collect::<Vec<_>>()
        };
        let (lost, more) = (only(&after, &served), only(&served, &after));
        assert!(
            lost.is_empty() && more.is_empty(),
            "seed {number}: -{lost:?} +{more:?} {report:?}"
        );
    }
}

/// Bytes of the header of a file of checksums.
const FIRST_ENTRY: usize = 512;

/// Checksums that were made anew from a log that was cut would call it whole.
#[test]
fn what_is_missing_is_not_forgotten_over_checksums_that_are_wrong() {
    let (disk, _) = two_segments();
    let wal = disk.read(&path(0, "wal")).unwrap();
    disk.put(&path(0, "wal"), &wal[..wal.len() - 300]);
    let mut sum = disk.read(&path(0, "sum")).unwrap();
    // The checksum of the first block.
    sum[FIRST_ENTRY] ^= 0x20;
    disk.put(&path(0, "sum"), &sum);
    let kinds = |report: &super::super::inspect::PartitionReport| -> Vec<Kind> {
        report.findings().map(|finding| finding.kind).collect()
    };
    assert!(kinds(&verify(&disk)).contains(&Kind::ChecksumsDamaged), "{:?}", verify(&disk));
    let done = repair(&disk, false);
    assert!(done.left.iter().any(|left| left.kind == Kind::TooShort), "{done:?}");
    assert!(kinds(&verify(&disk)).contains(&Kind::TooShort));
}

/// Each attempt that runs out of space leaves the disk as it was.
#[test]
fn a_repair_without_space_leaves_nothing_behind() {
    let (pristine, ..) = much_to_do();
    let options = RepairOptions { quarantine: true, apply: true };
    let run = |disk: &SimDisk| {
        let env = environment(Arc::new(disk.clone()));
        repair_partition(&env, Path::new(DIR), options, &mut |_| {}).1
    };
    let mut failed = 0;
    for space in (0..40_000).step_by(250) {
        let disk = pristine.kill();
        disk.faults(|faults| faults.space = Some(space));
        if run(&disk).is_ok() {
            break;
        }
        failed += 1;
        let segments = verify(&disk).segments;
        for file in disk.files() {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(!name.contains(".tmp") && !name.contains(".swap"), "{space}: {name}");
        }
        // What is kept of a segment is there if that segment was repaired.
        let kept = |base: Offset| {
            let name = format!("{base:020}.");
            let is_kept = |file: &PathBuf| {
                let name_of = file.file_name().unwrap().to_str().unwrap();
                name_of.starts_with(&name)
                    && (name_of.contains(".bad-") || name_of.contains(".torn-"))
            };
            disk.files().iter().any(is_kept)
        };
        for segment in segments {
            let damaged = segment.findings.iter().any(|one| one.severity == Severity::Damage);
            assert_ne!(damaged, kept(segment.base), "{space}: {segment:?}");
        }
        disk.faults(|faults| faults.space = None);
        run(&disk).unwrap();
        assert_eq!(verify(&disk).severity(), Some(Severity::Note));
    }
    assert!(failed > 20, "{failed}");
}

/// What cannot be flushed may be gone from the disk, whatever memory says of it.
#[test]
fn a_log_that_cannot_be_flushed_is_left_as_it_is() {
    let (disk, ..) = much_to_do();
    disk.faults(|faults| faults.sync_error = true);
    let options = RepairOptions { quarantine: true, apply: true };
    let before = everything(&disk);
    let env = environment(Arc::new(disk.clone()));
    let (done, result) = repair_partition(&env, Path::new(DIR), options, &mut |_| {});
    assert!(result.is_err() && done.steps.is_empty() && before == everything(&disk));
}

/// Nobody knows what it is.
#[test]
fn a_tail_that_cannot_be_read_is_not_cut() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    append(&log, record(&[1; 5000])).unwrap();
    log.flush().unwrap();
    append(&log, record(&[2; 9000])).unwrap();
    let disk = disk.kill();
    disk.remove(&path(0, "idx"));
    disk.faults(|faults| faults.unreadable = Some((".wal", 8192..9000)));
    for quarantine in [false, true] {
        let before = everything(&disk);
        let done = repair(&disk, quarantine);
        assert_eq!(done.steps, []);
        let kinds: Vec<_> = done.left.iter().map(|left| left.kind).collect();
        assert_eq!(kinds, [Kind::Unreadable]);
        assert!(before == everything(&disk));
    }
}
