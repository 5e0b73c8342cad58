//! Compaction on a real disk, with everybody else at work beside it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::record::wire;
use crate::storage::OsDisk;
use crate::storage::backup::{BackupOptions, backup_partition};
use crate::storage::inspect::{Dumped, dump_partition, verify_partition};

const KEYS: u64 = 40;
const ROUNDS: u64 = 600;

/// Reads a log from its beginning to where it ends once `done` is set: what it holds last for each key, and checks that
/// no key ever goes back.
fn follow(log: &Log, done: &AtomicBool) -> HashMap<Vec<u8>, u64> {
    let mut cursor = log.locate(log.start_offset()).unwrap();
    let (mut values, mut rest) = (HashMap::new(), Vec::new());
    let mut next = 0;
    loop {
        // In this order: what was appended before is there.
        let last = done.load(Ordering::Acquire);
        match log.fetch(&mut cursor, 3000) {
            Fetch::Slice(slice) => {
                let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
                assert_eq!(slice.read(&mut buf).unwrap(), buf.len());
                cursor.advance(slice.len());
                rest.extend(buf);
            }
            Fetch::Tail if last => {
                assert!(rest.is_empty() && cursor.take_moved().is_none());
                return values;
            }
            Fetch::Tail => thread::yield_now(),
            Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged"),
        }
        let mut frames = Frames::new(&rest);
        for (header, key, payload) in frames.by_ref() {
            assert!(header.offset >= next, "offsets grow");
            next = header.next_offset();
            let value = wire::get_u64(payload, 0).unwrap();
            let before = values.insert(key.to_vec(), value);
            assert!(before.is_none_or(|before| before < value), "a key goes back");
        }
        rest = frames.rest().to_vec();
    }
}

fn expected() -> HashMap<Vec<u8>, u64> {
    (0..KEYS).map(|key| (wire::u64_bytes(key).to_vec(), ROUNDS - 1)).collect()
}

/// A dump beside the broker shows the frames in order, and each key once at least.
fn dump(disk: &Arc<dyn Disk>, dir: &Path) {
    let (mut next, mut keys) = (0, std::collections::HashSet::new());
    let mut visit = |dumped: Dumped<'_>| {
        if let Dumped::Frame(frame) = dumped {
            assert!(frame.offset >= next, "{} after {next}", frame.offset);
            next = frame.offset + u64::from(frame.records);
            keys.insert(frame.key.to_vec());
        }
        ControlFlow::Continue(())
    };
    let shown = dump_partition(disk, dir, true, 0..Offset::MAX, &mut visit).unwrap();
    assert!(shown.is_continue());
    assert!(keys.is_empty() || keys.len() as u64 == KEYS, "{} keys", keys.len());
}

/// Looks at the files as tools do, while they change. Returns how often.
fn look(dir: &Path, done: &AtomicBool) -> u32 {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mut looks = 0;
    while !done.load(Ordering::Acquire) {
        let report = verify_partition(&disk, dir, true, &mut |_| {}).unwrap();
        assert!(report.severity() < Some(Severity::Damage), "{report:?}");
        dump(&disk, dir);
        let to = tempfile::tempdir().unwrap();
        let options = BackupOptions { live: true, link: looks % 2 == 0 };
        backup_partition(&disk, dir, to.path(), options, &mut |_| {}).unwrap();
        let copy = open_on(&OsDisk, to.path(), 20_000);
        assert_eq!(copy.metrics.segments_damaged.get(), 0);
        assert_eq!(copy.metrics.offset_gaps.get(), 0);
        // A run has all keys, and is flushed whole: so is what was copied.
        let values = follow(&copy.log, &AtomicBool::new(true));
        let rounds: std::collections::HashSet<_> = values.values().collect();
        assert!(
            values.is_empty() || values.len() as u64 == KEYS && rounds.len() == 1,
            "{values:?}"
        );
        looks += 1;
    }
    looks
}

#[test]
fn compaction_goes_on_beside_writers_readers_scrubs_and_backups() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { cleanup: Cleanup::Compact, ..options(20_000) };
    let Opened { log, metrics } = open_with(&OsDisk, dir.path(), options);
    let (written, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| follow(&log, &written))).collect();
        let looker = scope.spawn(|| look(dir.path(), &done));
        let background = [
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    log.compact(&RULES, &mut |_| true).unwrap();
                    // Else no look at the files ever comes to an end.
                    thread::sleep(Duration::from_millis(50));
                }
            }),
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    assert_eq!(log.scrub(&mut |_| true).unwrap().damaged, 0);
                }
            }),
        ];
        for round in 0..ROUNDS {
            let mut run = Vec::new();
            for key in 0..KEYS {
                let mut payload = wire::u64_bytes(round).to_vec();
                payload.resize(8 + usize::try_from((round + key) % 60).unwrap(), 0);
                run.extend(frame(&wire::u64_bytes(key), &payload, 1));
            }
            append(&log, run).unwrap();
            log.flush().unwrap();
        }
        written.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() == expected());
        }
        // One that comes late gets the same.
        assert!(follow(&log, &written) == expected());
        done.store(true, Ordering::Release);
        for thread in background {
            thread.join().unwrap();
        }
        assert!(looker.join().unwrap() > 0);
    });
    assert!(metrics.segments_merged.get() > 0 && metrics.compaction_frames_removed.get() > 0);
    assert_eq!(metrics.segments_damaged.get(), 0);
    assert_eq!(metrics.checksums_rebuilt.get(), 0);
}

#[test]
fn a_log_that_is_deleted_ends_its_pass_and_gets_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { cleanup: Cleanup::Compact, ..options(2_000) };
    let Opened { log, .. } = open_with(&OsDisk, dir.path(), options);
    for round in 0..200u64 {
        append(&log, frame(b"key", &wire::u64_bytes(round), 1)).unwrap();
    }
    log.flush().unwrap();
    let begun = AtomicBool::new(false);
    let names = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    thread::scope(|scope| {
        let pass = scope.spawn(|| {
            log.compact(&RULES, &mut |_| {
                begun.store(true, Ordering::Release);
                while !log.is_discarded() {
                    thread::yield_now();
                }
                true
            })
        });
        while !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        log.discard();
        // From here on the directory may be another one's.
        let left = names();
        let ended = pass.join().unwrap().unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::Interrupted);
        assert_eq!(names(), left);
        assert!(before.is_subset(&left), "nothing was replaced");
    });
    let refused = log.compact(&RULES, &mut |_| true).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::Interrupted);
}
