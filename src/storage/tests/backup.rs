//! `backup`: what was flushed when it began is in the copy, and neither side ever changes the other.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::backup::{BackedUp, BackupOptions, backup_partition};
use super::super::disk::Duplicate;
use super::super::inspect::verify_partition;
use super::super::sim_disk::{DiskOver, SimDisk};
use super::inspect::verify;
use super::*;

const COPY: &str = "/copy";

fn backup(disk: &(impl Disk + Clone + 'static), live: bool, link: bool) -> BackedUp {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = BackupOptions { live, link };
    backup_partition(&shared, Path::new(DIR), Path::new(COPY), options, &mut |_| {}).unwrap()
}

/// Nothing at all is wrong with the copy.
fn assert_clean(disk: &SimDisk) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = verify_partition(&shared, Path::new(COPY), false, &mut |_| {}).unwrap();
    assert_eq!(report.severity(), None, "{report:?}");
}

fn files_in(disk: &SimDisk, dir: &str) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let files = disk.files().into_iter().filter(|file| file.starts_with(dir));
    files.map(|file| (file.clone(), disk.read(&file))).collect()
}

#[test]
fn a_running_log_is_copied_as_far_as_it_was_flushed() {
    for (count, flush_at) in [(0, 0), (3, 0), (3, 2), (60, 17), (60, 59), (200, 120)] {
        for link in [true, false] {
            let disk = SimDisk::default();
            let Opened { log, .. } = open(&disk, 5000);
            let (mut bytes, mut flushed) = (Vec::new(), 0);
            for number in 0..=count {
                if number == flush_at {
                    log.flush().unwrap();
                    flushed = bytes.len();
                }
                let payload = vec![7; 100 + number * 3];
                bytes.extend(append(&log, record(&payload)).unwrap());
            }
            let done = backup(&disk, true, link);
            assert_eq!(done.bytes, flushed as u64, "{count}, {flush_at}");
            assert_eq!(done.linked_bytes > 0, link && done.segments > 1);
            assert_clean(&disk);
            // Power goes right after: it was all made durable. But for the directory itself, which is its caller's.
            let mut seed = super::super::sim_disk::Seeded::new(1);
            let crashed = disk.crash(&mut seed);
            assert_clean(&crashed);
            let original = files_in(&disk, DIR);
            let Opened { log: copy, metrics } = open_on(&disk, Path::new(COPY), 5000);
            assert_eq!(metrics.indexes_rebuilt.get() + metrics.torn_bytes.get(), 0);
            assert_eq!(metrics.checksums_rebuilt.get() + metrics.segments_damaged.get(), 0);
            assert_log_is(&copy, &bytes[..flushed]);
            for number in 0..40u8 {
                append(&copy, record(&[number; 300])).unwrap();
            }
            copy.close().unwrap();
            assert!(files_in(&disk, DIR) == original, "the copy is a log of its own");

            let before = files_in(&disk, COPY);
            append(&log, record(b"on")).unwrap();
            log.close().unwrap();
            assert!(files_in(&disk, COPY) == before, "and so is the original");
        }
    }
}

/// A disk that shares what it duplicates.
#[derive(Debug, Clone)]
struct Sharing(SimDisk, Arc<parking_lot::Mutex<Vec<PathBuf>>>);

impl DiskOver for Sharing {
    fn disk(&self) -> &dyn Disk {
        &self.0
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        self.1.lock().push(from.to_owned());
        self.0.duplicate(from, to, link)
    }
}

/// A store into a mapped file must need no space: the broker's own does not, as long as nothing is shared.
#[test]
fn what_the_broker_maps_is_shared_with_no_copy() {
    for live in [true, false] {
        let disk = SimDisk::default();
        filled(&disk, 3);
        let sharing = Sharing(disk, Arc::default());
        backup(&sharing, live, true);
        let shared = sharing.1.lock();
        assert!(
            shared.len() >= 2 && shared.iter().all(|file| file.extension().unwrap() == "wal"),
            "{shared:?}"
        );
    }
}

/// Without a broker everything that a start would find is there.
#[test]
fn a_log_at_rest_is_copied_as_it_is() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 2000);
    let mut bytes = Vec::new();
    for number in 0..50u8 {
        bytes.extend(append(&log, record(&[number; 180])).unwrap());
        if number == 20 {
            log.flush().unwrap();
        }
    }
    let disk = disk.kill();
    backup(&disk, false, true);
    let names = |dir| -> Vec<_> {
        let names = files_in(&disk, dir).into_iter();
        names.map(|(file, bytes)| (file.file_name().unwrap().to_owned(), bytes)).collect()
    };
    assert!(names(DIR) == names(COPY));
    let Opened { log, metrics } = open_on(&disk, Path::new(COPY), 2000);
    assert_eq!(metrics.torn_bytes.get(), 0);
    assert_log_is(&log, &bytes);
}

/// A broker that finds damage writes it down beside the log: not in the copy, which has checksums of its own.
#[test]
fn what_is_found_later_in_the_original_is_not_written_into_the_copy() {
    let disk = SimDisk::default();
    filled(&disk, 3);
    let damaged = bases(&disk)[0];
    backup(&disk, true, true);
    let before = files_in(&disk, COPY);
    let mut wal = disk.read(&path(damaged, "wal")).unwrap();
    wal[700] ^= 1;
    disk.put(&path(damaged, "wal"), &wal);
    let Opened { log, .. } = open(&disk, SEGMENT);
    assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 1);
    log.close().unwrap();
    assert!(verify(&disk).severity().is_some());
    assert!(files_in(&disk, COPY) == before);
}

/// A log of the original, which a broker has open and has not made checksums of yet.
#[test]
fn a_log_without_checksums_is_copied_as_whole_frames() {
    let disk = SimDisk::default();
    let bytes = super::original::written_by_the_original(&disk);
    backup(&disk, true, false);
    let Opened { log, metrics } = open_on(&disk, Path::new(COPY), SEGMENT);
    assert_eq!(metrics.torn_bytes.get() + metrics.segments_damaged.get(), 0);
    assert_log_is(&log, &bytes);
}

/// A disk on which the two oldest segments are deleted when the second is about to be copied.
#[derive(Debug, Clone)]
struct Retaining {
    disk: SimDisk,
    oldest: [Offset; 2],
    done: Arc<AtomicBool>,
    /// Files copied or linked.
    copied: Arc<AtomicUsize>,
}

impl Retaining {
    fn new(disk: &SimDisk, oldest: [Offset; 2]) -> Self {
        Self { disk: disk.clone(), oldest, done: Arc::default(), copied: Arc::default() }
    }
}

impl DiskOver for Retaining {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        if from == path(self.oldest[1], "wal") && !self.done.swap(true, Ordering::Relaxed) {
            for base in &self.oldest {
                for extension in ["wal", "idx", "sum"] {
                    self.disk.remove(&path(*base, extension));
                }
            }
        }
        self.copied.fetch_add(1, Ordering::Relaxed);
        self.disk.duplicate(from, to, link)
    }
}

#[test]
fn a_segment_that_is_deleted_meanwhile_makes_it_begin_again() {
    let disk = SimDisk::default();
    let bytes = filled(&disk, 4);
    let bases = bases(&disk);
    let done = backup(&Retaining::new(&disk, [bases[0], bases[1]]), true, true);
    assert_eq!(done.segments, 2);
    assert_clean(&disk);
    let Opened { log, .. } = open_on(&disk, Path::new(COPY), SEGMENT);
    let start = frames_of(&bytes).into_iter().find(|frame| frame.0 == bases[2]).unwrap();
    assert_eq!(log.start_offset(), bases[2]);
    assert!(read_from(&log, bases[2]) == (bytes[start.2.start..].to_vec(), End::Tail));
}

/// It will not become whole by being copied again; and whoever restores the copy is told.
#[test]
fn a_damaged_segment_is_copied_once_and_named() {
    for live in [true, false] {
        let disk = SimDisk::default();
        filled(&disk, 4);
        let segments = bases(&disk).len();
        let counting = Retaining::new(&disk, [Offset::MAX; 2]);
        let wal = disk.read(&path(0, "wal")).unwrap();
        disk.put(&path(0, "wal"), &wal[..wal.len() - 10]);
        let done = backup(&counting, live, true);
        assert_eq!(done.damaged, ["00000000000000000000.wal"]);
        assert_eq!(done.segments, segments as u64);
        let copied = counting.copied.load(Ordering::Relaxed);
        assert!(copied <= 3 * segments, "{copied} files");
        assert!(disk.read(&Path::new(COPY).join("00000000000000000000.wal")).is_some());
    }
}

/// Segments that are as they were are not copied again.
#[test]
fn what_has_not_changed_stays_copied() {
    let disk = SimDisk::default();
    filled(&disk, 6);
    let bases = bases(&disk);
    // Not what retention does, but all the same for the copy.
    let retaining = Retaining::new(&disk, [bases[3], bases[4]]);
    let done = backup(&retaining, true, true);
    assert_eq!(done.segments, bases.len() as u64 - 2);
    let copied = retaining.copied.load(Ordering::Relaxed);
    assert!(copied <= 3 * bases.len(), "{copied} files");
    let name = |base: &Offset| format!("{COPY}/{base:020}.wal");
    let there: Vec<_> =
        bases.iter().filter(|base| disk.read(Path::new(&name(base))).is_some()).collect();
    assert_eq!(there.len(), bases.len() - 2);
}

/// A disk on which no copy is made.
#[derive(Debug, Clone)]
struct Refusing(SimDisk, rustix::io::Errno);

impl DiskOver for Refusing {
    fn disk(&self) -> &dyn Disk {
        &self.0
    }

    fn duplicate(&self, _: &Path, _: &Path, _: bool) -> io::Result<Duplicate> {
        Err(self.1.into())
    }
}

/// Where nothing can be written it ends; what cannot be read is named, and the rest copied.
#[test]
fn errors_name_the_side_that_they_are_of() {
    let run = |errno| {
        let disk = SimDisk::default();
        filled(&disk, 3);
        let segments = bases(&disk).len();
        let shared: Arc<dyn Disk> = Arc::new(Refusing(disk, errno));
        let options = BackupOptions { live: true, link: true };
        let (from, to) = (Path::new(DIR), Path::new(COPY));
        (backup_partition(&shared, from, to, options, &mut |_| {}), segments)
    };
    let error = run(rustix::io::Errno::NOSPC).0.unwrap_err();
    assert!(error.path.starts_with(COPY), "{error}");
    // The active one is not copied as a file.
    let (done, segments) = run(rustix::io::Errno::IO);
    let done = done.unwrap();
    assert_eq!((done.segments, done.unreadable.len()), (1, segments - 1));
    assert!(done.unreadable.iter().all(|error| error.starts_with(DIR)), "{done:?}");
}
