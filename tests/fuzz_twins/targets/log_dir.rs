//! A log in a directory of its own, made by appending what the input says: its content is known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hermitmq::metrics::Metrics;
use hermitmq::record::{FrameBuilder, FrameLimits, Frames, Run};
use hermitmq::storage::{
    Cleanup, Durability, Environment, Log, LogOptions, ManualClock, OnCorruption, OpenError,
    OsDisk, Retention, Timestamps,
};

use super::input::Input;

/// Runs that a recipe can ask for at most: every run costs time, and no fault needs many.
const RUNS: u8 = 24;

/// A frame as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub first: u64,
    pub next: u64,
    pub bytes: Vec<u8>,
}

/// The frames at the start of `bytes`, and how many bytes they take.
pub fn frames_of(bytes: &[u8]) -> (Vec<Frame>, usize) {
    let mut frames = Vec::new();
    let mut at = 0;
    for (header, ..) in Frames::new(bytes) {
        let end = at + usize::try_from(header.frame_len()).unwrap();
        let bytes = bytes[at..end].to_vec();
        frames.push(Frame { first: header.offset, next: header.next_offset(), bytes });
        at = end;
    }
    (frames, at)
}

/// Names and contents of a directory's files.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A scratch directory in memory, where there is one.
#[derive(Debug)]
pub struct LogDir {
    dir: tempfile::TempDir,
    pub options: LogOptions,
}

/// An open log and what it counts.
#[derive(Debug)]
pub struct Opened {
    pub log: Log,
    pub metrics: Arc<Metrics>,
}

/// What a log was made of.
#[derive(Debug, Default)]
pub struct Content {
    pub frames: Vec<Frame>,
    /// Offset after the last record that was flushed.
    pub flushed: u64,
}

impl Content {
    /// Offset after the last record.
    pub fn next(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.next)
    }
}

impl LogDir {
    /// An empty directory; the input says how a log is to be kept in it.
    pub fn new(input: &mut Input<'_>) -> Self {
        let how = input.byte();
        let options = LogOptions {
            timestamps: Timestamps::Create,
            segment_bytes: [600, 3000, 9000, 1 << 20][usize::from(how & 3)],
            durability: if how & 4 == 0 { Durability::Interval } else { Durability::Always },
            on_corruption: if how & 8 == 0 { OnCorruption::Disconnect } else { OnCorruption::Skip },
            retention: Retention::default(),
            cleanup: Cleanup::Delete,
        };
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("hermitmq-fuzz-").tempdir_in(parent).unwrap();
        Self { dir, options }
    }

    pub fn open(&self) -> Result<Opened, OpenError> {
        let metrics = Arc::new(Metrics::default());
        let env = Environment {
            disk: Arc::new(OsDisk),
            clock: Arc::new(ManualClock::new(1)),
            metrics: Arc::clone(&metrics),
        };
        Ok(Opened { log: Log::open(env, self.dir.path(), self.options)?, metrics })
    }

    pub fn files(&self) -> Files {
        let entries = std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap);
        let read = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        };
        entries.map(read).collect()
    }

    /// Makes the directory hold exactly these files.
    pub fn put(&self, files: &Files) {
        let there = self.files();
        for name in there.keys().filter(|name| !files.contains_key(*name)) {
            std::fs::remove_file(self.dir.path().join(name)).unwrap();
        }
        for (name, bytes) in files.iter().filter(|(name, bytes)| there.get(*name) != Some(bytes)) {
            std::fs::write(self.dir.path().join(name), bytes).unwrap();
        }
    }

    /// Makes a log as the input says. It is left as by a process that was killed, or by one that ended well.
    pub fn build(&self, input: &mut Input<'_>) -> Content {
        let mut content = Content::default();
        let how = input.byte();
        let log = self.open().unwrap().log;
        for number in 0..(how & 0x3f).min(RUNS) {
            let (size, kind) = (input.byte(), input.byte());
            let mut run = Vec::new();
            for twin in 0..=kind >> 4 & 3 {
                write_frame(size, kind, number.wrapping_add(twin), &mut run);
            }
            content.frames.extend(append(&log, &mut run).expect("a new log takes records"));
            if kind & 0x40 != 0 {
                log.flush().unwrap();
                content.flushed = content.next();
            }
        }
        if how & 0x80 != 0 {
            log.close().unwrap();
            content.flushed = content.next();
        }
        content
    }
}

/// A frame of a size from 29 to about 8,000 bytes.
fn write_frame(size: u8, kind: u8, number: u8, out: &mut Vec<u8>) {
    let len = match usize::from(size) {
        len @ 0..200 => len,
        more => (more - 199) * 143,
    };
    let mut state = u32::from(number) + 1;
    let payload: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    })
    .take(len)
    .collect();
    let key: &[u8] = if kind & 8 == 0 { b"" } else { b"key" };
    let frame = FrameBuilder::new(7).key(key).record_count(u32::from(kind & 7));
    frame.write(&payload, out).unwrap();
}

/// Appends frames as they come from a producer; returns them as they are stored.
pub fn append(log: &Log, frames: &mut [u8]) -> Result<Vec<Frame>, hermitmq::storage::AppendError> {
    let mut run = Run::parse(frames, &FrameLimits::STORED).unwrap();
    let appended = log.append(&mut run)?;
    let (stored, len) = frames_of(frames);
    assert_eq!(len, frames.len(), "what was appended are frames");
    assert_eq!(stored[0].first, appended.first);
    assert_eq!(stored.last().unwrap().next, appended.next);
    Ok(stored)
}
