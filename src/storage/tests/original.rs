//! A log as the original leaves it: every frame is in the index, and some hold a record count of 0.

use super::super::sim_disk::SimDisk;
use super::*;
use crate::record::wire;

/// Three segments with dense indexes; returns the bytes of the log.
pub(super) fn written_by_the_original(disk: &SimDisk) -> Vec<u8> {
    let (mut all, mut offset) = (Vec::new(), 0);
    for segment in 0..3u8 {
        let (mut wal, mut idx) = (Vec::new(), Vec::new());
        let base = offset;
        for number in 0..100u32 {
            idx.extend(wire::u64_bytes(offset));
            idx.extend(wire::u64_bytes(wal.len() as u64));
            let count = number % 4;
            FrameBuilder::new(7)
                .key(b"k")
                .record_count(count)
                .offset(offset)
                .write(&vec![segment; 3 * number as usize], &mut wal)
                .unwrap();
            offset += u64::from(count.max(1));
        }
        disk.put(&path(base, "wal"), &wal);
        disk.put(&path(base, "idx"), &idx);
        all.extend(wal);
    }
    all
}

#[test]
fn its_directory_is_read_as_it_is_and_written_on() {
    let disk = SimDisk::default();
    let mut bytes = written_by_the_original(&disk);
    let files = |disk: &SimDisk| -> Vec<_> {
        let own = |file: &PathBuf| file.extension().is_some_and(|extension| extension != "sum");
        disk.files().into_iter().filter(own).map(|file| (disk.read(&file), file)).collect()
    };
    let before = files(&disk);
    let Opened { log, metrics } = open(&disk, SEGMENT);
    assert_eq!(files(&disk), before, "opening it adds checksums and changes nothing");
    assert_eq!(metrics.indexes_rebuilt.get(), 0, "a dense index is right");
    assert_eq!(metrics.segments_damaged.get() + metrics.torn_bytes.get(), 0);
    assert_log_is(&log, &bytes);

    for n in 0..100u8 {
        bytes.extend(append(&log, record(&[n; 400])).unwrap());
    }
    assert!(bases(&disk).len() > 3);
    assert_log_is(&log, &bytes);
    let again = open(&disk.kill(), SEGMENT);
    assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
    assert_log_is(&again.log, &bytes);

    let scrubbed = again.log.scrub(&mut |_| true).unwrap();
    assert!(scrubbed.summed >= 1, "its sealed segments get checksums in the background");
    let scrubbed = again.log.scrub(&mut |_| true).unwrap();
    assert_eq!((scrubbed.summed, scrubbed.damaged), (0, 0));
}
