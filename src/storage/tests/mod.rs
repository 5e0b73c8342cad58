//! Tests of the log as a whole, on a simulated disk where they can and on the real one where they must.

mod backup;
mod checksums;
mod compaction;
mod crash;
mod dir_lock;
mod double;
mod faults;
mod index;
mod inspect;
mod model;
mod original;
mod readers;
mod repair;
mod retention;
mod roll;
mod sealed;
mod times;
mod torn;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sim_disk::SimDisk;
use super::{
    AppendError, Cleanup, Clock, Cursor, Disk, Durability, Environment, Fetch, FlushError, Log,
    LogOptions, ManualClock, OnCorruption, Retention, Timestamps, segment,
};
use crate::metrics::Metrics;
use crate::model::Offset;
use crate::record::{FrameBuilder, FrameLimits, Frames, Run};

/// Directory of the log under test.
const DIR: &str = "/log";

/// A frame as a producer sends it.
fn frame(key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameBuilder::new(7).key(key).record_count(record_count).write(payload, &mut bytes).unwrap();
    bytes
}

/// A frame of one record without a key.
fn record(payload: &[u8]) -> Vec<u8> {
    frame(b"", payload, 1)
}

/// A log and what it counts.
struct Opened {
    log: Log,
    metrics: Arc<Metrics>,
}

fn open_on(disk: &(impl Disk + Clone + 'static), dir: &Path, segment_bytes: u64) -> Opened {
    open_with(disk, dir, options(segment_bytes))
}

fn open_with(disk: &(impl Disk + Clone + 'static), dir: &Path, options: LogOptions) -> Opened {
    open_at(disk, dir, &Arc::new(ManualClock::new(1)), options)
}

/// Opens a log whose time the test moves.
fn open_at(
    disk: &(impl Disk + Clone + 'static),
    dir: &Path,
    clock: &Arc<ManualClock>,
    options: LogOptions,
) -> Opened {
    let metrics = Arc::new(Metrics::default());
    let (disk, clock) = (Arc::new(disk.clone()), Arc::clone(clock) as Arc<dyn Clock>);
    let env = Environment { disk, clock, metrics: Arc::clone(&metrics) };
    Opened { log: Log::open(env, dir, options).unwrap(), metrics }
}

fn options(segment_bytes: u64) -> LogOptions {
    LogOptions {
        timestamps: Timestamps::Create,
        segment_bytes,
        durability: Durability::Interval,
        on_corruption: OnCorruption::Disconnect,
        retention: Retention::default(),
        cleanup: Cleanup::Delete,
    }
}

fn open(disk: &SimDisk, segment_bytes: u64) -> Opened {
    open_on(disk, Path::new(DIR), segment_bytes)
}

/// Appends frames; returns them as they are stored.
fn append(log: &Log, mut frames: Vec<u8>) -> Result<Vec<u8>, AppendError> {
    let mut run = Run::parse(&mut frames, &FrameLimits::STORED).unwrap();
    log.append(&mut run)?;
    Ok(frames)
}

/// Where reading ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Tail,
    Damaged,
    Deleted,
}

/// Reads on from a cursor, at most `max` bytes at once.
fn read_on(log: &Log, mut cursor: Cursor, max: u64) -> (Vec<u8>, End) {
    let mut bytes = Vec::new();
    loop {
        let slice = match log.fetch(&mut cursor, max) {
            Fetch::Slice(slice) => slice,
            Fetch::Tail => return (bytes, End::Tail),
            Fetch::Damaged => return (bytes, End::Damaged),
            Fetch::Deleted => return (bytes, End::Deleted),
        };
        let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
        assert!(!buf.is_empty() && slice.len() <= max);
        assert_eq!(slice.read(&mut buf).unwrap(), buf.len(), "a slice is there whole");
        cursor.advance(slice.len());
        bytes.extend(buf);
    }
}

/// Reads from an offset to where reading ends.
fn read_from(log: &Log, offset: Offset) -> (Vec<u8>, End) {
    read_on(log, log.locate(offset).unwrap(), 1 << 20)
}

/// First offset, offset after the last record, and range of bytes of each frame.
fn frames_of(bytes: &[u8]) -> Vec<(Offset, Offset, std::ops::Range<usize>)> {
    let mut at = 0;
    let mut frames = Frames::new(bytes);
    let list = frames
        .by_ref()
        .map(|(header, ..)| {
            let start = at;
            at += usize::try_from(header.frame_len()).unwrap();
            (header.offset, header.next_offset(), start..at)
        })
        .collect();
    assert!(frames.rest().is_empty(), "whole frames and nothing else");
    list
}

/// Checks that reading from every offset gives exactly what `bytes`, the whole log, hold from the frame with it on.
fn assert_log_is(log: &Log, bytes: &[u8]) {
    for (first, next, range) in frames_of(bytes) {
        for offset in [first, next - 1] {
            let (found, end) = read_from(log, offset);
            assert_eq!(end, End::Tail);
            assert!(found == bytes[range.start..], "reading from offset {offset}");
        }
    }
    let (found, _) = read_from(log, log.end_offset());
    assert!(found.is_empty());
}

/// Checks that every offset is found: the frame that holds it comes first.
fn assert_lookups(log: &Log, bytes: &[u8]) {
    for (first, next, range) in frames_of(bytes) {
        for offset in first..next {
            let mut cursor = log.locate(offset).unwrap();
            let Fetch::Slice(slice) = log.fetch(&mut cursor, range.len() as u64) else {
                panic!("offset {offset} is there");
            };
            let mut found = vec![0; range.len()];
            slice.read(&mut found).unwrap();
            assert!(found == bytes[range.clone()], "offset {offset}");
        }
    }
}

fn path(base: Offset, extension: &str) -> PathBuf {
    Path::new(DIR).join(format!("{base:020}.{extension}"))
}

/// Base offsets of the segments on a disk, ascending, whether their names are provisional or not.
fn bases(disk: &SimDisk) -> Vec<Offset> {
    let names = disk.files().into_iter().map(|file| file.file_name().unwrap().to_owned());
    names
        .filter_map(|name| {
            let name = name.to_str()?;
            segment::parse_name(name.strip_suffix(".new").unwrap_or(name), segment::WAL)
        })
        .collect()
}

/// Fills a new log with records of about 500 bytes until it has `segments` segments of 32 KiB, each of which has
/// several index entries, and closes it. Returns all of its bytes.
fn filled(disk: &SimDisk, segments: usize) -> Vec<u8> {
    let Opened { log, .. } = open(disk, SEGMENT);
    let mut bytes = Vec::new();
    for number in 0u32.. {
        let payload = vec![b'a' + (number % 26) as u8; 450 + (number % 90) as usize];
        let batch = frame(b"key", &payload, 1 + number % 3);
        bytes.extend(append(&log, batch).unwrap());
        if bases(disk).len() == segments && bytes.len() > segments * 31 * 1024 {
            break;
        }
    }
    log.close().unwrap();
    bytes
}

/// Segment size of [`filled`].
const SEGMENT: u64 = 32 * 1024;
