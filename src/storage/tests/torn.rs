//! A log that ends in something that is not a frame: fault 5.

use super::super::sim_disk::{Seeded, SimDisk};
use super::*;

/// How the tail is hurt from a position on.
#[derive(Debug, Clone, Copy)]
enum Hurt {
    Truncated,
    Zeroed,
    Garbage,
}

impl Hurt {
    fn apply(self, bytes: &mut Vec<u8>, from: usize, seed: &mut Seeded) {
        match self {
            Self::Truncated => bytes.truncate(from),
            Self::Zeroed => bytes[from..].fill(0),
            // Not a magic byte to begin with: what is random may otherwise be right.
            Self::Garbage => bytes[from..].fill_with(|| seed.byte() | 2),
        }
    }
}

/// Frames 0…4 in one segment, all flushed; returns their bytes.
fn five_frames(disk: &SimDisk) -> Vec<u8> {
    let Opened { log, .. } = open(disk, 1 << 20);
    let bytes = (0..5u8).flat_map(|n| append(&log, frame(b"k", &[n; 20], 2)).unwrap()).collect();
    log.close().unwrap();
    bytes
}

/// The same, of which only the first two are flushed, as the process leaves them when it is killed.
fn two_of_five_flushed() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 1 << 20);
    let mut bytes = Vec::new();
    for n in 0..5u8 {
        bytes.extend(append(&log, frame(b"k", &[n; 20], 2)).unwrap());
        if n == 1 {
            log.flush().unwrap();
        }
    }
    (disk.kill(), bytes)
}

/// A frame whose body alone is hurt is still a frame: without a checksum, only headers show damage.
fn whole_frames(hurt: &[u8]) -> usize {
    let mut expected = 0;
    let mut end = 0;
    for (header, key, payload) in Frames::new(hurt) {
        if header.offset != expected {
            break;
        }
        expected = header.next_offset();
        end += 29 + key.len() + payload.len();
    }
    end
}

/// Every byte behind the last flush counts: none is served that is not what was accepted.
#[test]
fn a_torn_tail_is_cut_and_kept_beside() {
    let mut seed = Seeded::new(1);
    let (pristine, whole) = two_of_five_flushed();
    let first_hurt = frames_of(&whole)[2].2.start;
    for hurt in [Hurt::Truncated, Hurt::Zeroed, Hurt::Garbage] {
        for from in first_hurt..whole.len() {
            let mut bytes = whole.clone();
            hurt.apply(&mut bytes, from, &mut seed);
            let disk = pristine.kill();
            disk.put(&path(0, "wal"), &bytes);
            // A checksum covers a block: what is in it behind the last flush goes together.
            recovers(&disk, &bytes, first_hurt);
        }
    }
}

/// What the original has left behind has no checksums: its frames must do.
#[test]
fn without_checksums_what_is_no_frame_is_cut() {
    let mut seed = Seeded::new(1);
    let pristine = SimDisk::default();
    let whole = five_frames(&pristine);
    let first_hurt = frames_of(&whole)[2].2.start;
    for hurt in [Hurt::Truncated, Hurt::Zeroed, Hurt::Garbage] {
        for from in first_hurt..whole.len() {
            let mut bytes = whole.clone();
            hurt.apply(&mut bytes, from, &mut seed);
            let disk = pristine.kill();
            disk.put(&path(0, "wal"), &bytes);
            disk.remove(&path(0, "sum"));
            recovers(&disk, &bytes, whole_frames(&bytes));
        }
    }
}

fn recovers(disk: &SimDisk, hurt: &[u8], end: usize) {
    let (served, cut) = hurt.split_at(end);
    let Opened { log, metrics } = open(disk, 1 << 20);
    assert_log_is(&log, served);
    assert_eq!(metrics.torn_bytes.get(), cut.len() as u64);
    let kept = disk.read(&path(0, "torn-1"));
    assert_eq!(kept.as_deref(), (!cut.is_empty()).then_some(cut), "the bytes cut are kept");

    // Appends go on, and the next recovery cuts nothing.
    let mut bytes = served.to_vec();
    bytes.extend(append(&log, record(b"after")).unwrap());
    let again = open(&disk.kill(), 1 << 20);
    assert_log_is(&again.log, &bytes);
    assert_eq!(again.metrics.torn_bytes.get(), 0);
    assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
}

#[test]
fn each_cut_is_kept_under_a_name_of_its_own() {
    let disk = SimDisk::default();
    let bytes = five_frames(&disk);
    for number in 1..4 {
        let mut torn = bytes.clone();
        torn.extend([number; 3]);
        torn[bytes.len()] = 0xee;
        disk.put(&path(0, "wal"), &torn);
        assert_eq!(open(&disk, 1 << 20).metrics.torn_bytes.get(), 3);
        let kept = disk.read(&path(0, &format!("torn-{number}"))).unwrap();
        assert_eq!(kept, torn[bytes.len()..]);
    }
}

/// The cut must not happen before its copy is safe.
#[test]
fn a_power_cut_during_recovery_loses_no_byte_of_the_tail() {
    let mut seed = Seeded::new(5);
    for _ in 0..50 {
        let disk = SimDisk::default();
        let mut torn = five_frames(&disk);
        let end = torn.len();
        torn.extend(b"\xeetorn");
        disk.put(&path(0, "wal"), &torn);
        drop(open(&disk, 1 << 20));
        let disk = disk.crash(&mut seed);
        let kept = disk.read(&path(0, "torn-1"));
        let cut = kept.as_deref() == Some(&torn[end..]);
        assert!(cut || disk.read(&path(0, "wal")).unwrap() == torn);
        assert_log_is(&open(&disk, 1 << 20).log, &torn[..end]);
    }
}

/// A start must not need space that there is none of. Nothing is thrown away for want of it either.
#[test]
fn on_a_full_disk_a_torn_tail_stays_and_the_log_is_read_only() {
    let disk = SimDisk::default();
    let whole = five_frames(&disk);
    let frames = frames_of(&whole);
    let torn = whole[..whole.len() - 3].to_vec();
    let kept = &whole[..frames[4].2.start];
    disk.put(&path(0, "wal"), &torn);
    disk.put(&path(0, "idx"), &[]);
    disk.remove(&path(0, "sum"));

    disk.faults(|faults| faults.space = Some(0));
    let opened = open(&disk, 1 << 20);
    assert_log_is(&opened.log, kept);
    assert!(opened.log.is_read_only());
    assert!(matches!(append(&opened.log, record(b"x")), Err(AppendError::ReadOnly)));
    assert_eq!(disk.read(&path(0, "wal")).as_deref(), Some(&torn[..]), "nothing was cut");
    assert_eq!(disk.read(&path(0, "torn-1")), None, "nothing half-written is left");

    disk.faults(|faults| faults.space = None);
    let again = open(&disk, 1 << 20);
    assert!(!again.log.is_read_only());
    let mut bytes = kept.to_vec();
    bytes.extend(append(&again.log, record(b"goes on")).unwrap());
    assert_log_is(&again.log, &bytes);
    assert_eq!(disk.read(&path(0, "torn-1")).as_deref(), Some(&torn[kept.len()..]));
}
