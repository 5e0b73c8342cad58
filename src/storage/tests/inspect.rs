//! `verify` and `dump`: every damaged byte is found, and nothing else is lost to it. Faults 5 to 7.

use std::collections::BTreeMap;
use std::io;
use std::ops::{ControlFlow, Range};

use super::super::disk::{File, Open};
use super::super::inspect::{
    Dumped, Finding, Kind, PartitionReport, Severity, State, dump_partition, verify_partition,
};
use super::super::sim_disk::{DiskOver, FileOver, SimDisk};
use super::*;

/// A few blocks.
pub(super) const SMALL: u64 = 9000;

pub(super) fn verify_on(disk: &SimDisk, live: bool) -> PartitionReport {
    let before: Vec<_> = disk.files().into_iter().map(|file| (disk.read(&file), file)).collect();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = verify_partition(&shared, Path::new(DIR), live, &mut |_| {}).unwrap();
    let after: Vec<_> = disk.files().into_iter().map(|file| (disk.read(&file), file)).collect();
    assert!(before == after, "nothing is written");
    report
}

pub(super) fn verify(disk: &SimDisk) -> PartitionReport {
    verify_on(disk, false)
}

/// Everything that is shown: frames by their offset, and findings.
pub(super) fn dump_on(
    disk: &SimDisk,
    live: bool,
    range: Range<Offset>,
) -> (BTreeMap<Offset, Vec<u8>>, Vec<Finding>) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut frames, mut findings) = (BTreeMap::new(), Vec::new());
    let mut visit = |dumped: Dumped<'_>| {
        match dumped {
            Dumped::Frame(frame) => {
                let mut bytes = Vec::new();
                FrameBuilder::new(frame.timestamp)
                    .key(frame.key)
                    .record_count(frame.records)
                    .offset(frame.offset)
                    .write(frame.payload, &mut bytes)
                    .unwrap();
                frames.insert(frame.offset, bytes);
            }
            Dumped::Finding(finding) => findings.push(finding.clone()),
        }
        ControlFlow::Continue(())
    };
    let ended = dump_partition(&shared, Path::new(DIR), live, range, &mut visit).unwrap();
    assert!(ended.is_continue());
    (frames, findings)
}

pub(super) fn dump(disk: &SimDisk) -> (BTreeMap<Offset, Vec<u8>>, Vec<Finding>) {
    dump_on(disk, false, 0..Offset::MAX)
}

/// The same frames as a dump shows them.
pub(super) fn by_offset(bytes: &[u8]) -> BTreeMap<Offset, Vec<u8>> {
    frames_of(bytes).into_iter().map(|frame| (frame.0, bytes[frame.2].to_vec())).collect()
}

/// Two segments of a few blocks, closed; and the bytes of the log.
pub(super) fn two_segments() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, SMALL);
    let mut bytes = Vec::new();
    for number in 0u32.. {
        let len = 100 + number * 37 % 250;
        let payload: Vec<u8> = (0..len).map(|n| (n * 7 + number).to_le_bytes()[0]).collect();
        bytes.extend(append(&log, frame(b"key", &payload, 1 + number % 3)).unwrap());
        if bytes.len() > 15_000 {
            break;
        }
    }
    log.close().unwrap();
    assert_eq!(bases(&disk).len(), 2);
    (disk, bytes)
}

fn damage(report: &PartitionReport) -> Vec<&Finding> {
    report.findings().filter(|finding| finding.severity == Severity::Damage).collect()
}

pub(super) fn is_clean(report: &PartitionReport) -> bool {
    report.severity().is_none()
}

#[test]
fn a_whole_log_is_found_whole() {
    let (disk, bytes) = two_segments();
    let frames = frames_of(&bytes);
    for live in [false, true] {
        let report = verify_on(&disk, live);
        assert!(is_clean(&report), "{report:?}");
        let sum = |of: fn(&super::super::inspect::SegmentReport) -> u64| -> u64 {
            report.segments.iter().map(of).sum()
        };
        assert_eq!(sum(|segment| segment.bytes), bytes.len() as u64);
        assert_eq!(sum(|segment| segment.verified_bytes), bytes.len() as u64);
        assert_eq!(sum(|segment| segment.walked_bytes + segment.unflushed_bytes), 0);
        assert_eq!(sum(|segment| segment.frames), frames.len() as u64);
        assert_eq!(sum(|segment| segment.records), frames.last().unwrap().1);
        let states: Vec<_> = report.segments.iter().map(|segment| segment.state).collect();
        assert_eq!(states, [State::Sealed, State::Active]);
        let (shown, findings) = dump_on(&disk, live, 0..Offset::MAX);
        assert!(shown == by_offset(&bytes) && findings.is_empty());
    }
}

#[test]
fn a_range_of_offsets_is_shown_with_the_batches_at_its_ends() {
    let (disk, bytes) = two_segments();
    let frames = frames_of(&bytes);
    let end = frames.last().unwrap().1;
    for from in 0..end + 2 {
        for to in [from, from + 1, from + 7, end, Offset::MAX] {
            let (shown, findings) = dump_on(&disk, false, from..to);
            let wanted = frames.iter().filter(|(first, next, _)| *next > from && *first < to);
            let wanted: Vec<_> = wanted.map(|(first, ..)| *first).collect();
            assert_eq!(shown.into_keys().collect::<Vec<_>>(), wanted, "{from}..{to}");
            assert!(findings.is_empty());
        }
    }
}

/// Fault 6.
#[test]
fn every_flipped_byte_is_found_and_costs_no_other_frame() {
    let (pristine, bytes) = two_segments();
    let whole = by_offset(&bytes);
    for base in bases(&pristine) {
        let name = path(base, "wal").file_name().unwrap().to_str().unwrap().to_owned();
        let wal = pristine.read(&path(base, "wal")).unwrap();
        let mut hurt = wal.clone();
        for at in 0..wal.len() {
            // Each byte in one of its bits: all bits come.
            hurt[at] ^= 1 << (at % 8);
            pristine.put(&path(base, "wal"), &hurt);
            let report = verify(&pristine);
            let found = damage(&report);
            let [finding] = found[..] else { panic!("byte {at}: {found:?}") };
            let (in_bytes, offsets) = (finding.bytes.unwrap(), finding.offsets.unwrap());
            let range = in_bytes.from..in_bytes.to.unwrap();
            assert!(finding.file == name && range.contains(&(at as u64)), "byte {at}: {finding:?}");
            assert!(range.end - range.start < 4096 + 2 * 400, "a block and no more: {finding:?}");
            let offsets = offsets.from..offsets.to.unwrap();
            let (shown, told) = dump(&pristine);
            assert_eq!(told, std::slice::from_ref(finding), "byte {at}");
            let wanted = whole.iter().filter(|(offset, _)| !offsets.contains(offset));
            assert!(shown.iter().eq(wanted), "byte {at}");
            hurt[at] = wal[at];
        }
        pristine.put(&path(base, "wal"), &wal);
    }
}

#[test]
fn damage_in_several_places_is_told_apart() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 2);
    let mut wal = disk.read(&path(0, "wal")).unwrap();
    for at in [5000, 14_000, 26_000] {
        wal[at] ^= 0xff;
    }
    disk.put(&path(0, "wal"), &wal);
    let report = verify(&disk);
    let found = damage(&report);
    assert_eq!(found.len(), 3, "{found:?}");
    let lost: u64 = report.segments[0].damaged_bytes;
    assert!(lost < 3 * (4096 + 1200), "{lost}");
    let (shown, told) = dump(&disk);
    assert!(told.iter().eq(found));
    let whole = by_offset(&bytes);
    for finding in &told {
        // Up to the damage, and from behind it.
        let (from, to) = (finding.offsets.unwrap().from, finding.offsets.unwrap().to.unwrap());
        for (range, wanted) in
            [(from - 1..from, 1), (from..to, 0), (from..to + 1, 1), (to..to + 1, 1)]
        {
            let (shown, told) = dump_on(&disk, false, range.clone());
            assert_eq!(shown.len(), wanted, "{range:?}: {shown:?}");
            assert_eq!(told.len(), usize::from(range.start == from), "{range:?}: {told:?}");
        }
    }
    let is_lost = |offset: &Offset| {
        told.iter().any(|finding| {
            let offsets = finding.offsets.unwrap();
            (offsets.from..offsets.to.unwrap()).contains(offset)
        })
    };
    assert!(shown.iter().eq(whole.iter().filter(|(offset, _)| !is_lost(offset))));
}

/// What a killed process leaves behind the last flush is there, and what a power cut tore is not.
#[test]
fn what_was_not_flushed_is_judged_by_its_checksums() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    let mut bytes: Vec<u8> =
        (0..9u8).flat_map(|n| append(&log, record(&[n; 900])).unwrap()).collect();
    log.flush().unwrap();
    let flushed = bytes.len();
    bytes.extend((0..9u8).flat_map(|n| append(&log, record(&[n; 700])).unwrap()));
    let disk = disk.kill();
    assert!(is_clean(&verify(&disk)));
    assert!(dump(&disk).0 == by_offset(&bytes));

    let live = verify_on(&disk, true);
    assert!(is_clean(&live));
    assert_eq!(live.segments[0].unflushed_bytes, (bytes.len() - flushed) as u64);
    assert_eq!(live.segments[0].verified_bytes, flushed as u64);
    assert!(dump_on(&disk, true, 0..Offset::MAX).0 == by_offset(&bytes[..flushed]));

    for at in (flushed..bytes.len()).step_by(97) {
        let disk = disk.kill();
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        disk.put(&path(0, "wal"), &torn);
        assert!(is_clean(&verify_on(&disk, true)), "a broker may be writing that");
        let report = verify(&disk);
        let found = damage(&report);
        let [finding] = found[..] else { panic!("byte {at}: {found:?}") };
        let tail = finding.bytes.unwrap();
        assert!(finding.kind == Kind::TornTail && tail.to == Some(bytes.len() as u64));
        let end = usize::try_from(tail.from).unwrap();
        assert!((flushed..=at).contains(&end));
        assert!(dump(&disk).0 == by_offset(&bytes[..end]));
        // A start says the same.
        let Opened { log, metrics } = open(&disk, 1 << 20);
        assert_eq!(metrics.torn_bytes.get(), (bytes.len() - end) as u64, "byte {at}");
        assert_log_is(&log, &bytes[..end]);
    }
}

#[test]
fn provisional_segments_are_judged_as_a_start_would() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 300);
    let bytes: Vec<u8> = (0..7u8).flat_map(|n| append(&log, record(&[n; 120])).unwrap()).collect();
    let disk = disk.kill();
    assert!(disk.files().iter().any(|file| file.to_string_lossy().ends_with(".wal.new")));
    let report = verify(&disk);
    assert_eq!(report.severity(), Some(Severity::Note), "{report:?}");
    assert!(report.findings().all(|finding| finding.kind == Kind::Provisional));
    assert!(dump(&disk).0 == by_offset(&bytes));
    let live = verify_on(&disk, true);
    assert_eq!((live.segments.len(), live.severity()), (1, Some(Severity::Note)));
    assert!(dump_on(&disk, true, 0..Offset::MAX).0.is_empty(), "nothing was flushed");

    disk.remove(&path(2, "sum"));
    let (shown, told) = dump(&disk);
    assert_eq!(shown.into_keys().collect::<Vec<_>>(), [0, 1]);
    assert!(!told.is_empty() && told.iter().all(|finding| finding.kind == Kind::Provisional));
    assert!(verify(&disk).findings().any(|finding| finding.message.contains("sets it aside")));
}

#[test]
fn lengths_and_gaps_are_told() {
    let (disk, _) = two_segments();
    let bases = bases(&disk);
    let wal = disk.read(&path(0, "wal")).unwrap();
    let kinds = |disk: &SimDisk| -> Vec<(Kind, String)> {
        let report = verify(disk);
        damage(&report).iter().map(|finding| (finding.kind, finding.file.clone())).collect()
    };
    let file = |base: Offset| format!("{base:020}.wal");

    // In the middle of a frame, and at the end of one.
    disk.put(&path(0, "wal"), &wal[..wal.len() - 5]);
    assert_eq!(kinds(&disk), [(Kind::Damaged, file(0)), (Kind::TooShort, file(0))]);
    let cut = frames_of(&wal).pop().unwrap();
    disk.put(&path(0, "wal"), &wal[..cut.2.start]);
    assert_eq!(kinds(&disk), [(Kind::TooShort, file(0))]);
    let report = verify(&disk);
    let lost = damage(&report)[0].offsets.unwrap();
    assert_eq!((lost.from, lost.to), (cut.0, Some(cut.1)));

    let mut long = wal.clone();
    long.extend(record(b"not of this log"));
    disk.put(&path(0, "wal"), &long);
    assert_eq!(kinds(&disk), [(Kind::TooLong, file(0))]);
    disk.put(&path(0, "wal"), &wal);
    assert_eq!(kinds(&disk), []);

    let active = disk.read(&path(bases[1], "wal")).unwrap();
    disk.put(&path(bases[1], "wal"), &active[..active.len() - 1]);
    assert_eq!(kinds(&disk), [(Kind::Damaged, file(bases[1])), (Kind::TooShort, file(bases[1]))]);
    disk.put(&path(bases[1], "wal"), &active);

    // A segment in the middle is gone.
    let disk = SimDisk::default();
    filled(&disk, 3);
    let bases = super::bases(&disk);
    for extension in ["wal", "idx", "sum"] {
        disk.remove(&path(bases[1], extension));
    }
    let report = verify(&disk);
    let found = damage(&report);
    let [gap] = found[..] else { panic!("{found:?}") };
    assert_eq!((gap.kind, gap.offsets.unwrap().from), (Kind::Gap, bases[1]));
    assert_eq!(gap.offsets.unwrap().to, Some(bases[2]));
}

#[test]
fn what_lies_beside_the_log_is_noted() {
    let (disk, _) = two_segments();
    for (name, kind) in [
        ("00000000000000000000.torn-1", Kind::SetAside),
        ("00000000000000000000.bad-12", Kind::SetAside),
        ("00000000000000000000.sum.tmp", Kind::Temporary),
        ("00000000000000000000.sum.swap", Kind::Temporary),
        ("00000000000000000099.idx", Kind::Orphan),
        ("README", Kind::Stranger),
        ("0.wal", Kind::Stranger),
    ] {
        let disk = disk.kill();
        disk.put(&Path::new(DIR).join(name), b"x");
        let report = verify(&disk);
        let [finding] = &report.findings[..] else { panic!("{name}: {report:?}") };
        assert_eq!((finding.kind, finding.file.as_str()), (kind, name));
        assert_eq!(report.severity(), Some(Severity::Note));
    }
}

/// What a broker does not serve of it is damage: records that are the next segment's by their offsets.
#[test]
fn records_behind_the_next_segment_are_damage() {
    let (disk, bytes) = two_segments();
    let second = bases(&disk)[1];
    disk.put(&path(0, "wal"), &disk.read(&path(second, "wal")).unwrap());
    for without in ["idx", "sum"] {
        disk.remove(&path(0, without));
        let report = verify(&disk);
        assert!(damage(&report).iter().any(|finding| finding.kind == Kind::Damaged), "{report:?}");
        let shown = dump(&disk).0;
        let mut whole = by_offset(&bytes);
        whole.retain(|offset, _| *offset >= second);
        assert!(shown == whole);
    }
}

/// The original has no checksums, and lists every frame.
#[test]
fn a_log_of_the_original_is_walked() {
    let disk = SimDisk::default();
    let bytes = super::original::written_by_the_original(&disk);
    let report = verify(&disk);
    assert_eq!(report.severity(), Some(Severity::Derived));
    assert!(report.findings().all(|finding| finding.kind == Kind::ChecksumsMissing));
    let walked: u64 = report.segments.iter().map(|segment| segment.walked_bytes).sum();
    assert_eq!(walked, bytes.len() as u64);
    let offsets: Vec<_> = dump(&disk).0.into_keys().collect();
    assert!(offsets.into_iter().eq(frames_of(&bytes).into_iter().map(|frame| frame.0)));
}

/// A disk that cannot give some bytes of one file any more.
#[derive(Debug, Clone)]
struct Failing {
    disk: SimDisk,
    path: PathBuf,
    bytes: Range<u64>,
}

impl DiskOver for Failing {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let bytes = if path == self.path { self.bytes.clone() } else { 0..0 };
        Ok(Arc::new(FailingFile { file, bytes }))
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn File>,
    bytes: Range<u64>,
}

impl FileOver for FailingFile {
    fn file(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        // As far as it goes, like the kernel.
        let end = position + buf.len() as u64;
        let good = self.bytes.start.saturating_sub(position);
        if end <= self.bytes.start || position >= self.bytes.end {
            self.file.read_at(buf, position)
        } else if good > 0 {
            let good = usize::try_from(good).unwrap();
            self.file.read_at(&mut buf[..good], position)
        } else {
            Err(rustix::io::Errno::IO.into())
        }
    }
}

/// Rot is most often a sector that cannot be read: that is damage like any other, and no reason to stop.
#[test]
fn what_the_disk_cannot_give_is_damage() {
    let (disk, bytes) = two_segments();
    let whole = by_offset(&bytes);
    for has_sums in [true, false] {
        if !has_sums {
            disk.remove(&path(0, "sum"));
        }
        let failing = Failing { disk: disk.clone(), path: path(0, "wal"), bytes: 4096..8192 };
        let shared: Arc<dyn Disk> = Arc::new(failing);
        let report = verify_partition(&shared, Path::new(DIR), false, &mut |_| {}).unwrap();
        let found = damage(&report);
        let [finding] = found[..] else { panic!("{found:?}") };
        let (span, offsets) = (finding.bytes.unwrap(), finding.offsets.unwrap());
        assert!(span.from <= 4096 + 500 && span.to.unwrap() >= 8192 - 500, "{finding:?}");
        let mut shown = Vec::new();
        let mut visit = |dumped: Dumped<'_>| {
            if let Dumped::Frame(frame) = dumped {
                shown.push(frame.offset);
            }
            ControlFlow::Continue(())
        };
        let all = 0..Offset::MAX;
        let ended = dump_partition(&shared, Path::new(DIR), false, all, &mut visit).unwrap();
        assert!(ended.is_continue());
        let good = |offset: &Offset| !(offsets.from..offsets.to.unwrap()).contains(offset);
        let wanted: Vec<_> = whole.keys().copied().filter(good).collect();
        if has_sums {
            assert_eq!(shown, wanted);
        } else {
            // The frame whose header can be read and whose end cannot is met when it is shown.
            assert!(wanted.iter().filter(|offset| !shown.contains(offset)).count() <= 1);
        }
    }
}

fn verify_failing(disk: &SimDisk, path: PathBuf, bytes: Range<u64>) -> PartitionReport {
    let shared: Arc<dyn Disk> = Arc::new(Failing { disk: disk.clone(), path, bytes });
    verify_partition(&shared, Path::new(DIR), false, &mut |_| {}).unwrap()
}

/// A segment whose checksums cannot be read is not judged, all others are; an index that cannot be read is made anew.
#[test]
fn a_derived_file_that_cannot_be_read_hides_nothing_else() {
    let (disk, bytes) = two_segments();
    let second = bases(&disk)[1];
    let mut wal = disk.read(&path(second, "wal")).unwrap();
    wal[100] ^= 1;
    disk.put(&path(second, "wal"), &wal);
    let report = verify_failing(&disk, path(0, "sum"), 0..8);
    let kinds: Vec<_> = damage(&report).iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [Kind::Damaged, Kind::Unreadable], "{report:?}");
    assert_eq!(report.findings[0].file, "00000000000000000000.sum");
    let shared: Arc<dyn Disk> =
        Arc::new(Failing { disk: disk.clone(), path: path(0, "sum"), bytes: 0..8 });
    let (mut shown, mut found) = (Vec::new(), Vec::new());
    let mut visit = |dumped: Dumped<'_>| {
        match dumped {
            Dumped::Frame(frame) => shown.push(frame.offset),
            Dumped::Finding(finding) => found.push(finding.clone()),
        }
        ControlFlow::Continue(())
    };
    let all = 0..Offset::MAX;
    assert!(dump_partition(&shared, Path::new(DIR), false, all, &mut visit).unwrap().is_continue());
    let [first, damaged] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.kind, damaged.kind), (Kind::Unreadable, Kind::Damaged));
    let bad = damaged.offsets.unwrap();
    let good = by_offset(&bytes)
        .into_keys()
        .filter(|offset| *offset >= second && !(bad.from..bad.to.unwrap()).contains(offset));
    assert_eq!(shown, good.collect::<Vec<_>>(), "what can be read is shown");

    let report = verify_failing(&disk, path(0, "idx"), 0..8);
    let found: Vec<_> = report.findings().map(|finding| finding.kind).collect();
    assert_eq!(found, [Kind::IndexWrong, Kind::Damaged], "{report:?}");
}

/// A frame that was appended and not flushed, and one that was.
fn half_flushed() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    let mut bytes = append(&log, record(&[1; 5000])).unwrap();
    log.flush().unwrap();
    bytes.extend(append(&log, record(&[2; 9000])).unwrap());
    (disk, bytes)
}

/// A start cuts nothing that it cannot read.
#[test]
fn a_tail_that_cannot_be_read_is_not_a_torn_one() {
    let (disk, bytes) = half_flushed();
    let disk = disk.kill();
    let report = verify_failing(&disk, path(0, "wal"), 8192..9000);
    let found = damage(&report);
    let [finding] = found[..] else { panic!("{found:?}") };
    assert_eq!(finding.kind, Kind::Unreadable);
    assert_eq!(finding.bytes.unwrap().to, Some(bytes.len() as u64));
}

/// After a failed flush memory says that everything is there, and the disk does not have it.
#[test]
fn what_a_failed_flush_has_left_in_memory_is_not_believed() {
    let (disk, bytes) = half_flushed();
    let mut seed = super::super::sim_disk::Seeded::new(1);
    let Opened { log, .. } = open(&disk.kill(), 1 << 20);
    assert_log_is(&log, &bytes);
    drop(log);
    // The flush of a broker that goes on fails.
    let disk = disk.crash(&mut seed);
    let Opened { log, .. } = open(&disk, 1 << 20);
    append(&log, record(&[3; 9000])).unwrap();
    disk.faults(|faults| faults.sync_error = true);
    assert!(log.flush().is_err());
    let disk = disk.kill();
    let started = disk.kill();
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let report = verify_partition(&shared, Path::new(DIR), false, &mut |_| {}).unwrap();
    let cut = open(&started, 1 << 20).metrics.torn_bytes.get();
    assert!(cut > 9000);
    let found = damage(&report);
    let [torn] = found[..] else { panic!("{report:?}") };
    assert_eq!(torn.kind, Kind::TornTail);
    let span = torn.bytes.unwrap();
    assert_eq!(span.to.unwrap() - span.from, cut, "as a start sees it");
}

/// Nothing but its checksums tells of it: a start would give its offsets again.
#[test]
fn a_last_segment_that_is_gone_is_damage() {
    let (disk, bytes) = two_segments();
    let (second, end) = (bases(&disk)[1], frames_of(&bytes).last().unwrap().1);
    disk.remove(&path(second, "wal"));
    let report = verify(&disk);
    let found = damage(&report);
    let [gap] = found[..] else { panic!("{report:?}") };
    assert_eq!((gap.kind, gap.offsets.unwrap().from), (Kind::Gap, second));
    assert_eq!(gap.offsets.unwrap().to, Some(end));

    // What a crash leaves of a segment that was being begun says that nothing of it was flushed.
    let disk = SimDisk::default();
    drop(open(&disk, SMALL));
    disk.remove(&path(0, "wal"));
    assert_eq!(verify(&disk).severity(), Some(Severity::Note));
}
