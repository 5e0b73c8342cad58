//! Damage to a log and to what stands beside it at once, and a disk that does not give what it was given.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::disk::{File, Open};
use super::super::inspect::Severity;
use super::super::sim_disk::{DiskOver, FileOver, SimDisk};
use super::*;

const ONE: u64 = 1 << 20;
const BLOCK: usize = 4096;
/// Where the marks stand in a `.sum` file, and the entries of the blocks.
const MARKS: [usize; 3] = [8 * 8, 16 * 8, 24 * 8];
const ENTRIES: usize = 64 * 8;

/// Records in one segment: of three blocks, the last one not whole. The first one was flushed before the others.
fn three_blocks() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, ONE);
    let mut bytes = append(&log, record(&[b'f'; 300])).unwrap();
    log.flush().unwrap();
    for n in 0..20u8 {
        bytes.extend(append(&log, record(&[n; 500])).unwrap());
    }
    log.flush().unwrap();
    (disk.kill(), bytes)
}

fn change(disk: &SimDisk, file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.read(file).unwrap();
    change(&mut bytes);
    disk.put(file, &bytes);
}

/// The frame that holds a byte of the log.
fn frame_at(bytes: &[u8], position: usize) -> (Offset, Offset, std::ops::Range<usize>) {
    frames_of(bytes).into_iter().find(|frame| frame.2.contains(&position)).unwrap()
}

fn forget_mark(sums: &mut [u8], mark: usize) {
    sums[mark..mark + 48].fill(0);
}

/// Offsets of the frames that are served, each just as it was.
fn served(log: &Log, bytes: &[u8]) -> Vec<Offset> {
    let frames = frames_of(bytes).into_iter();
    let good = frames.filter(|(first, _, range)| {
        let (found, _) = read_from(log, *first);
        let same = found.get(..range.len()) == Some(&bytes[range.clone()]);
        let other = Frames::new(&found).next().is_some_and(|(h, ..)| h.offset == *first);
        assert!(same || !other, "offset {first} is what it was, or not served");
        same
    });
    good.map(|frame| frame.0).collect()
}

/// Opens, compares, and does both again: nothing is cut, the frame with this offset is never served, and the next record
/// gets the offset behind all that were written.
fn assert_refused(disk: &SimDisk, bytes: &[u8], offset: Offset) {
    let end = frames_of(bytes).last().unwrap().1;
    let mut last = None;
    for round in 0..3 {
        let Opened { log, metrics } = open(disk, ONE);
        if round > 0 {
            assert!(!log.damage().is_empty(), "round {round}: remembered");
        }
        log.scrub(&mut |_| true).unwrap();
        assert_eq!((metrics.torn_bytes.get(), log.next_offset()), (0, end), "round {round}");
        let got = served(&log, bytes);
        assert!(!got.contains(&offset), "round {round}");
        assert!(last.is_none_or(|last| got == last), "round {round}: the same answers");
        last = Some(got);
        log.close().unwrap();
    }
}

#[test]
fn damage_is_remembered_where_its_checksum_is_gone() {
    for entry in [0, 0x5a] {
        let (disk, bytes) = three_blocks();
        let at = bytes.len() - 10;
        change(&disk, &path(0, "wal"), |wal| wal[at] ^= 1);
        let number = ENTRIES + at / BLOCK * 8;
        change(&disk, &path(0, "sum"), |sums| sums[number..number + 8].fill(entry));
        assert_refused(&disk, &bytes, frame_at(&bytes, at).0);
    }
}

/// The disk gives bytes one day that it did not give before: nobody knows whether they are the same.
#[test]
fn what_could_not_be_read_once_stays_refused() {
    let (disk, bytes) = three_blocks();
    let number = ENTRIES + 8;
    change(&disk, &path(0, "sum"), |sums| sums[number] ^= 4);
    let hit = frame_at(&bytes, BLOCK + 2000).0;
    disk.faults(|faults| faults.unreadable = Some((".wal", 5000..6000)));
    let Opened { log, .. } = open(&disk, ONE);
    assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 1);
    drop(log);
    disk.faults(|faults| faults.unreadable = None);
    assert_refused(&disk, &bytes, hit);
}

/// Nothing of what was flushed is cut, although the newest mark speaks for an entry that is damaged and is not confirmed.
#[test]
fn a_mark_counts_where_an_entry_is_damaged() {
    let (disk, bytes) = three_blocks();
    let last = frames_of(&bytes).pop().unwrap();
    change(&disk, &path(0, "wal"), |wal| wal[last.2.start] ^= 0x40);
    change(&disk, &path(0, "sum"), |sums| {
        forget_mark(sums, MARKS[2]);
        sums[ENTRIES + 3] ^= 1;
    });
    assert_refused(&disk, &bytes, last.0);
}

/// No mark is left: the entries that are right say that the others are of this log, too.
#[test]
fn entries_are_believed_without_marks() {
    let (disk, bytes) = three_blocks();
    change(&disk, &path(0, "wal"), |wal| wal[700] ^= 1);
    change(&disk, &path(0, "sum"), |sums| MARKS.iter().for_each(|&mark| sums[mark] ^= 1));
    assert_refused(&disk, &bytes, frame_at(&bytes, 700).0);
}

#[test]
fn blocks_without_a_checksum_get_none_where_frames_are_broken() {
    for entry in [0, 0x5a] {
        let (disk, bytes) = three_blocks();
        let hit = frame_at(&bytes, BLOCK + 2000);
        change(&disk, &path(0, "wal"), |wal| wal[hit.2.start] ^= 0x40);
        let number = ENTRIES + 8;
        change(&disk, &path(0, "sum"), |sums| sums[number..number + 8].fill(entry));
        assert_refused(&disk, &bytes, hit.0);
    }
}

/// Of a log that somebody has cut, too, what is left is not served if it is damaged.
#[test]
fn damage_before_a_cut_is_found() {
    let (disk, bytes) = three_blocks();
    change(&disk, &path(0, "wal"), |wal| {
        wal[700] ^= 1;
        wal.truncate(6000);
    });
    let hit = frame_at(&bytes, 700).0;
    let got = served(&open(&disk.kill(), ONE).log, &bytes);
    assert!(!got.contains(&hit), "the start itself has looked: {got:?}");
    assert_refused(&disk, &bytes, hit);
}

/// A sealed segment in two flushes, and one more.
fn flushed_twice() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, SEGMENT);
    let mut bytes = Vec::new();
    for n in 0..80u8 {
        bytes.extend(append(&log, record(&[n; 500])).unwrap());
        if n == 30 {
            log.flush().unwrap();
        }
    }
    log.close().unwrap();
    assert_eq!(bases(&disk).len(), 2);
    (disk.kill(), bytes)
}

#[test]
fn a_sealed_segment_outlives_its_newest_mark() {
    let (pristine, bytes) = flushed_twice();
    change(&pristine, &path(0, "sum"), |sums| {
        forget_mark(sums, MARKS[1]);
        forget_mark(sums, MARKS[2]);
    });
    let report = super::inspect::verify(&pristine);
    assert_eq!(report.severity(), Some(Severity::Derived), "nothing of the log is: {report:?}");
    let disk = pristine.kill();
    for _ in 0..2 {
        let Opened { log, metrics } = open(&disk, SEGMENT);
        assert_log_is(&log, &bytes);
        assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
        assert_eq!((metrics.segments_damaged.get(), metrics.checksums_rebuilt.get()), (0, 0));
        log.close().unwrap();
    }
    // What its entries do not know is refused.
    let disk = pristine.kill();
    change(&disk, &path(0, "wal"), |wal| wal[25_000] ^= 1);
    let Opened { log, .. } = open(&disk, SEGMENT);
    let got = served(&log, &bytes);
    assert!(!got.contains(&frame_at(&bytes, 25_000).0) && got.contains(&79), "{got:?}");
}

#[test]
fn a_tail_that_cannot_be_read_makes_the_log_read_only() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, ONE);
    let flushed = append(&log, record(&[1; 6000])).unwrap();
    log.flush().unwrap();
    let mut bytes = flushed.clone();
    bytes.extend(append(&log, record(&[2; 6000])).unwrap());
    let disk = disk.kill();
    for unreadable in [6100..6200, 8000..13_000] {
        disk.faults(|faults| faults.unreadable = Some((".wal", unreadable)));
        let Opened { log, metrics } = open(&disk, ONE);
        assert!(log.is_read_only());
        assert!(matches!(append(&log, record(b"x")), Err(AppendError::ReadOnly)));
        assert_eq!(log.next_offset(), 1);
        assert_eq!(metrics.torn_bytes.get(), 0, "nothing is cut for it");
    }
    // Where only the tail is meant, what was flushed is served.
    assert_log_is(&open(&disk, ONE).log, &flushed);
    disk.faults(|faults| faults.unreadable = None);
    let again = open(&disk, ONE);
    assert!(!again.log.is_read_only());
    assert_log_is(&again.log, &bytes);
}

#[test]
fn a_sealed_segment_that_cannot_be_read_is_damage() {
    let (disk, bytes) = flushed_twice();
    for unreadable in [0..100, 20_000..21_000, 31_000..40_000] {
        let disk = disk.kill();
        let lost = frame_at(&bytes, usize::try_from(unreadable.start).unwrap()).0;
        disk.faults(|faults| faults.unreadable = Some(("00000000000000000000.wal", unreadable)));
        let Opened { log, .. } = open(&disk, SEGMENT);
        assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 1);
        let bad = log.damage();
        assert!(bad.iter().any(|bad| bad.offsets.contains(&lost)), "{bad:?}");
        assert_eq!(read_from(&log, bases(&disk)[1]).1, End::Tail);
        append(&log, record(b"goes on")).unwrap();
    }
}

/// A `.sum` that has lost all its entries speaks of as much as the segment: what is read for new ones is read in steps, each
/// of which counts, and which end when they are told to.
#[test]
fn entries_that_are_all_gone_are_made_anew_step_by_step() {
    const STEP: u64 = 64 * BLOCK as u64;
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, ONE);
    let records = (0..200u8).flat_map(|n| append(&log, record(&[n; 4000])).unwrap());
    let bytes: Vec<u8> = records.collect();
    let len = bytes.len() as u64;
    log.flush().unwrap();
    let disk = disk.kill();
    change(&disk, &path(0, "sum"), |sums| sums.truncate(ENTRIES));
    let Opened { log, .. } = open(&disk, ONE);
    // Compared, looked through for frames, and one step of new checksums.
    let mut left = 2 * len + STEP;
    let ended = log.scrub(&mut |bytes| {
        assert!(bytes <= STEP);
        let goes = bytes <= left;
        left = left.saturating_sub(bytes);
        goes
    });
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::Interrupted);
    let found = log.scrub(&mut |_| true).unwrap();
    assert_eq!(found.damaged, 0);
    assert!(found.bytes <= 3 * len - 2 * STEP, "the first step is done: {found:?}");
    assert_eq!(log.scrub(&mut |_| true).unwrap().bytes, len, "and now all are");
    assert_log_is(&log, &bytes);
}

/// What is cut off is to be kept, and cannot be read.
#[test]
fn a_torn_tail_that_cannot_be_read_stops_no_start() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, ONE);
    let flushed = append(&log, record(&[1; 6000])).unwrap();
    log.flush().unwrap();
    append(&log, record(&[2; 14_000])).unwrap();
    let torn = disk.kill();
    change(&torn, &path(0, "wal"), |wal| wal[9000] ^= 1);
    // A log of somebody else's, whose last header cannot be read.
    let foreign = SimDisk::default();
    let Opened { log, .. } = open(&foreign, ONE);
    let mut bytes = append(&log, record(&[1; 6000])).unwrap();
    bytes.extend(append(&log, record(&[2; 6000])).unwrap());
    append(&log, record(&[3; 6000])).unwrap();
    let foreign = foreign.kill();
    foreign.remove(&path(0, "sum"));
    for (disk, unreadable, kept) in
        [(torn, 13_000..13_100, flushed), (foreign, 12_060..12_070, bytes)]
    {
        let len = disk.read(&path(0, "wal")).unwrap().len();
        disk.faults(|faults| faults.unreadable = Some((".wal", unreadable)));
        let Opened { log, metrics } = open(&disk, ONE);
        assert!(log.is_read_only());
        let why = log.flush().unwrap_err().to_string();
        assert!(why.contains("the start") && !why.contains("flush failed"), "{why}");
        assert_log_is(&log, &kept);
        assert_eq!(metrics.torn_bytes.get(), 0);
        assert_eq!(disk.read(&path(0, "wal")).unwrap().len(), len, "nothing is cut for it");
        assert!(disk.files().iter().all(|file| !file.to_string_lossy().contains("torn")));
        disk.faults(|faults| faults.unreadable = None);
        assert!(!open(&disk, ONE).log.is_read_only());
    }
}

#[test]
fn what_cannot_be_read_of_one_segment_leaves_the_others_their_checksums() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 3);
    let all = bases(&disk);
    all[..2].iter().for_each(|&base| disk.remove(&path(base, "sum")));
    // In the middle of a payload, at a header, and over several.
    let header = frame_at(&bytes, 20_000).2.start as u64;
    for unreadable in [header + 100..header + 101, header..header + 1, 8000..21_000] {
        let disk = disk.kill();
        let hit = frame_at(&bytes, usize::try_from(unreadable.start).unwrap()).0;
        disk.faults(|faults| faults.unreadable = Some(("00000000000000000000.wal", unreadable)));
        let Opened { log, .. } = open(&disk, SEGMENT);
        let found = log.scrub(&mut |_| true).unwrap();
        assert_eq!((found.summed, found.damaged), (2, 1));
        assert!(!served(&log, &bytes).contains(&hit));
        assert_eq!(log.scrub(&mut |_| true).unwrap().summed, 0);
        disk.faults(|faults| faults.unreadable = None);
        log.close().unwrap();
        let Opened { log, .. } = open(&disk, SEGMENT);
        assert!(!served(&log, &bytes).contains(&hit), "nobody knows whether it is what it was");
        assert!(
            read_from(&log, all[1])
                == (
                    bytes[frames_of(&bytes).iter().find(|f| f.0 == all[1]).unwrap().2.start..]
                        .to_vec(),
                    End::Tail
                )
        );
    }
}

/// The block that the next record would be written into cannot be read: its segment takes no more.
#[test]
fn nothing_is_appended_to_a_block_that_could_not_be_read() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, ONE);
    append(&log, record(&[1; 6000])).unwrap();
    log.flush().unwrap();
    let disk = disk.kill();
    disk.remove(&path(0, "sum"));
    disk.faults(|faults| faults.unreadable = Some((".wal", 5000..5001)));
    let Opened { log, .. } = open(&disk, ONE);
    let stored = append(&log, record(b"goes on")).unwrap();
    assert_eq!((bases(&disk), frames_of(&stored)[0].0), (vec![0, 1], 1));
    log.close().unwrap();
    disk.faults(|faults| faults.unreadable = None);
    let Opened { log, .. } = open(&disk, ONE);
    log.scrub(&mut |_| true).unwrap();
    assert!(read_from(&log, 1) == (stored, End::Tail));
}

/// Bytes that are damaged count once, however often and from how many sides they are met.
#[test]
fn damaged_bytes_are_counted_once() {
    let disk = SimDisk::default();
    filled(&disk, 1);
    let Opened { log, metrics } = open(&disk, SEGMENT);
    let segment = Arc::clone(&log.segments.read()[0]);
    for positions in [4000..8000, 6000..9000, 20_000..21_000, 5000..20_500] {
        segment.mark_bad(&super::super::BadRange { positions, offsets: 0..1 });
    }
    assert_eq!(metrics.damaged_bytes.get(), 17_000);
    let [bad] = &log.damage()[..] else { panic!("all of them touch") };
    assert_eq!(bad.positions, 4000..21_000);
}

/// Each look at the bytes waits for its turn: for old checksums, for frames, and for new checksums.
#[test]
fn all_that_is_read_for_new_checksums_is_paced() {
    let (pristine, bytes) = flushed_twice();
    let first = pristine.read(&path(0, "wal")).unwrap().len() as u64;
    let rest = bytes.len() as u64 - first;
    let lost_marks = |sums: &mut Vec<u8>| MARKS.iter().for_each(|&mark| sums[mark] ^= 1);
    for (sums_are_there, looks) in [(false, 2), (true, 3)] {
        let disk = pristine.kill();
        if sums_are_there {
            change(&disk, &path(0, "sum"), lost_marks);
        } else {
            disk.remove(&path(0, "sum"));
        }
        let found = open(&disk, SEGMENT).log.scrub(&mut |_| true).unwrap();
        assert_eq!((found.summed, found.bytes), (1, looks * first + rest));
    }
}

/// A disk whose renames a signal interrupts.
#[derive(Debug, Clone)]
struct Interrupted(SimDisk);

impl DiskOver for Interrupted {
    fn disk(&self) -> &dyn Disk {
        &self.0
    }

    fn rename(&self, _from: &Path, _to: &Path) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Interrupted.into())
    }
}

#[test]
fn a_call_that_a_signal_interrupts_is_not_the_end_of_all_scrubs() {
    let (disk, _) = flushed_twice();
    disk.remove(&path(0, "sum"));
    let Opened { log, .. } = open_on(&Interrupted(disk), Path::new(DIR), SEGMENT);
    let error = log.scrub(&mut |_| true).unwrap_err();
    assert_ne!(error.kind(), std::io::ErrorKind::Interrupted, "nobody has told it to end");
    let ended = log.scrub(&mut |_| false).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::Interrupted);
}

/// A disk with a sector that cannot be read, for as long as its file is there.
#[derive(Debug, Clone)]
struct BadSector {
    disk: SimDisk,
    path: PathBuf,
    bytes: std::ops::Range<u64>,
    replaced: Arc<AtomicBool>,
}

impl DiskOver for BadSector {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path, how: Open) -> std::io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        if path == self.path && how == Open::Truncate {
            self.replaced.store(true, Ordering::Relaxed);
        }
        let bad = path == self.path && !self.replaced.load(Ordering::Relaxed);
        Ok(if bad { Arc::new(BadFile { file, bytes: self.bytes.clone() }) } else { file })
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        if to == self.path {
            self.replaced.store(true, Ordering::Relaxed);
        }
        self.disk.rename(from, to)
    }
}

#[derive(Debug)]
struct BadFile {
    file: Arc<dyn File>,
    bytes: std::ops::Range<u64>,
}

impl FileOver for BadFile {
    fn file(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> std::io::Result<usize> {
        if position < self.bytes.end && position + buf.len() as u64 > self.bytes.start {
            return Err(rustix::io::Errno::IO.into());
        }
        self.file.read_at(buf, position)
    }
}

/// What stands beside the log cannot be read: a start does without, and so does a scrub, which makes it anew.
#[test]
fn checksums_and_indexes_that_cannot_be_read_stop_no_start() {
    for (number, extension, bytes) in [
        (0, "sum", 0..10),
        (0, "sum", 530..540),
        (1, "sum", 0..10),
        (0, "idx", 0..10),
        (1, "idx", 0..10),
    ] {
        let (disk, stored) = flushed_twice();
        let path = path(bases(&disk)[number], extension);
        let bad = BadSector { disk, path, bytes, replaced: Arc::default() };
        let Opened { log, metrics } = open_on(&bad, Path::new(DIR), SEGMENT);
        assert!(!log.is_read_only(), "{bad:?}");
        assert_eq!(metrics.indexes_rebuilt.get() > 0, extension == "idx");
        assert_log_is(&log, &stored);
        append(&log, record(b"goes on")).unwrap();
        assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
        assert!(bad.replaced.load(Ordering::Relaxed), "made anew");
    }
}
