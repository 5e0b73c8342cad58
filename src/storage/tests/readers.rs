//! Readers on other threads while the log grows and rolls, on the real disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::OsDisk;
use super::super::sim_disk::Seeded;
use super::*;
use crate::record::Header;

const RUNS: usize = 2000;

fn write(log: &Log) -> Vec<u8> {
    let mut seed = Seeded::new(11);
    let mut bytes = Vec::new();
    for _ in 0..RUNS {
        let payload = vec![seed.byte(); seed.below(400)];
        let run = [frame(b"k", &payload, 2), record(&payload)].concat();
        bytes.extend(append(log, run).unwrap());
    }
    bytes
}

/// Follows the log until it is `done` and nothing is left.
fn follow(log: &Log, done: &AtomicBool, max: u64) -> Vec<u8> {
    let mut cursor = log.locate(0).unwrap();
    let mut bytes = Vec::new();
    loop {
        // Asked before the fetch: a tail seen afterwards is the end.
        let last = done.load(Ordering::Acquire);
        match log.fetch(&mut cursor, max) {
            Fetch::Slice(slice) => {
                let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
                assert_eq!(slice.read(&mut buf).unwrap(), buf.len());
                cursor.advance(slice.len());
                bytes.extend(buf);
            }
            Fetch::Tail if last => return bytes,
            Fetch::Tail => thread::yield_now(),
            Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged or deleted"),
        }
    }
}

/// Looks offsets up all over the log, the newest more often than others.
fn seek(log: &Log, done: &AtomicBool) {
    let mut seed = Seeded::new(12);
    while !done.load(Ordering::Acquire) {
        let end = log.end_offset();
        let back = seed.next() % if seed.coin() { 3 } else { end + 1 };
        let offset = end.saturating_sub(back);
        let mut cursor = log.locate(offset).unwrap();
        match log.fetch(&mut cursor, 29) {
            Fetch::Slice(slice) => {
                let mut bytes = [0; 29];
                assert_eq!(slice.read(&mut bytes).unwrap(), 29);
                let header = Header::read(&bytes).unwrap();
                assert!((header.offset..header.next_offset()).contains(&offset));
            }
            Fetch::Tail => assert_eq!(offset, end),
            Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged or deleted"),
        }
    }
}

#[test]
fn readers_see_the_same_bytes_while_the_log_grows() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { log, .. } = open_on(&OsDisk, dir.path(), 16 * 1024);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (log, done) = (&log, &done);
        let followers = [7, 4096, 1 << 20].map(|max| scope.spawn(move || follow(log, done, max)));
        let seeker = scope.spawn(move || seek(log, done));
        let flusher = scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                log.flush().unwrap();
            }
        });
        let written = write(log);
        done.store(true, Ordering::Release);
        for follower in followers {
            assert!(follower.join().unwrap() == written);
        }
        seeker.join().unwrap();
        flusher.join().unwrap();
    });
    let (bytes, _) = read_from(&log, 0);
    drop(log);
    let again = open_on(&OsDisk, dir.path(), 16 * 1024);
    assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
    assert!(read_from(&again.log, 0).0 == bytes);
}
