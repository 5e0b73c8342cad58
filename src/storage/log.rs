//! One partition's log: segments back to back, appended to at one end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, Open};
use super::error::{AppendError, FlushError, LocateError, OpenError};
use super::file_slice::FileSlice;
use super::index::{IndexEntry, IndexPolicy, OffsetIndex};
use super::recovery::Recovery;
use super::segment::{self, Segment, SegmentState};
use crate::metrics::Metrics;
use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::record::Run;

/// Disk space is set aside in steps that double, from this many bytes …
const RESERVE_MIN: u64 = 64 * 1024;
/// … up to this many.
const RESERVE_MAX: u64 = 16 * 1024 * 1024;

/// The log of one partition.
///
/// Appends take the writer's lock; readers take none on their way through a segment, and the list's lock when they
/// change segments. Lock order: `flusher`, `writer`, `segments`.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    writer: Mutex<Writer>,
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Offset after the last record that readers may see.
    end_offset: AtomicU64,
    /// A flush failed: pages may be lost, so nothing is appended any more.
    failed: AtomicBool,
    /// Held while flushing, so that two flushes do not overlap.
    flusher: Mutex<()>,
}

#[derive(Debug)]
struct Writer {
    active: Arc<Segment>,
    position: u64,
    next_offset: Offset,
    policy: IndexPolicy,
    /// Index entries of the run being written; kept for its memory.
    entries: Vec<IndexEntry>,
    /// The active file has disk space up to here.
    reserved: u64,
    /// Segments sealed since the last flush.
    unflushed: Vec<Arc<Segment>>,
    /// A segment file was created since the last flush.
    dir_dirty: bool,
    /// Something was appended since the last flush.
    dirty: bool,
}

/// A run that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub next: Offset,
}

/// A reader's place in a log. See [`Log::fetch`].
#[derive(Debug, Clone)]
pub struct Cursor {
    segment: Arc<Segment>,
    position: u64,
}

/// What a reader gets next.
#[derive(Debug)]
pub enum Fetch {
    /// Bytes to send.
    Slice(FileSlice),
    /// Nothing yet: the reader has all there is.
    Tail,
    /// The bytes that come next are damaged.
    Damaged,
}

impl Log {
    /// Opens the log in `dir`, which must exist, or begins a new one there. Recovers from an unclean end.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        segment_bytes: u64,
        metrics: &Metrics,
    ) -> Result<Self, OpenError> {
        let recovered = Recovery { disk: &*disk, dir, segment_bytes, metrics }.run()?;
        let Some(active) = recovered.segments.last().map(Arc::clone) else {
            return Err(OpenError::at(dir)(io::ErrorKind::NotFound.into()));
        };
        let position = active.end();
        let writer = Writer {
            position,
            next_offset: recovered.next_offset,
            policy: IndexPolicy::after(&active.index),
            entries: Vec::new(),
            reserved: position,
            unflushed: Vec::new(),
            dir_dirty: true,
            dirty: true,
            active,
        };
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            writer: Mutex::new(writer),
            segments: RwLock::new(recovered.segments),
            end_offset: AtomicU64::new(recovered.next_offset),
            failed: AtomicBool::new(false),
            flusher: Mutex::new(()),
        })
    }

    /// Offset of the oldest record kept (or of the first to come).
    pub fn start_offset(&self) -> Offset {
        self.segments.read().first().map_or(0, |segment| segment.base_offset)
    }

    /// Offset after the last record that readers may see.
    pub fn end_offset(&self) -> Offset {
        self.end_offset.load(Ordering::Acquire)
    }

    /// Whether a failed flush has made the log read-only.
    pub fn is_read_only(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Gives the run its offsets and stores it with one positioned write: all of it or nothing.
    pub fn append(&self, run: &mut Run<'_>) -> Result<Appended, AppendError> {
        let mut writer = self.writer.lock();
        if self.is_read_only() {
            return Err(AppendError::ReadOnly);
        }
        let first = writer.next_offset;
        if run.records() > OFFSET_MAX - first {
            return Err(AppendError::OffsetsExhausted(first));
        }
        let len = run.bytes().len() as u64;
        if writer.position > 0 && writer.position + len > self.segment_bytes {
            self.roll(&mut writer)?;
        }
        let next = writer.write(run)?;
        self.end_offset.store(next, Ordering::Release);
        Ok(Appended { first, next })
    }

    /// Seals the active segment and begins the next one.
    fn roll(&self, writer: &mut Writer) -> io::Result<()> {
        let base = writer.next_offset;
        let wal = segment::path(&self.dir, base, "wal");
        // A leftover of an earlier attempt holds nothing that was ever acked.
        let file = self.disk.open(&wal, Open::Truncate)?;
        let idx = segment::path(&self.dir, base, "idx");
        self.disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(&*self.disk, &idx, 0, self.segment_bytes)?;
        let state = SegmentState { end: 0, sealed: false, damaged: false };
        let segment = Arc::new(Segment::new(base, file, index, &state));

        // Readers that see the old segment sealed must find its successor.
        self.segments.write().push(Arc::clone(&segment));
        let old = std::mem::replace(&mut writer.active, segment);
        old.seal();
        if let Err(error) = old.index.seal() {
            tracing::debug!(segment = old.base_offset, %error, "index not trimmed");
        }
        writer.unflushed.push(old);
        writer.position = 0;
        writer.reserved = 0;
        writer.policy = IndexPolicy::default();
        writer.dir_dirty = true;
        Ok(())
    }

    /// Makes everything appended so far durable. Blocks for the disk: never call it on a reactor.
    ///
    /// After an error the log is read-only: the kernel may have dropped the pages, so trying again would lie.
    pub fn flush(&self) -> Result<(), FlushError> {
        let _flushing = self.flusher.lock();
        if self.is_read_only() {
            return Ok(());
        }
        let (files, dir_dirty) = {
            let mut writer = self.writer.lock();
            if !writer.dirty && !writer.dir_dirty && writer.unflushed.is_empty() {
                return Ok(());
            }
            writer.dirty = false;
            let mut files = std::mem::take(&mut writer.unflushed);
            files.push(Arc::clone(&writer.active));
            (files, std::mem::take(&mut writer.dir_dirty))
        };
        let sync = || -> io::Result<()> {
            for segment in &files {
                segment.file.sync_data()?;
            }
            if dir_dirty { self.disk.sync_dir(&self.dir) } else { Ok(()) }
        };
        sync().map_err(|error| {
            self.failed.store(true, Ordering::Release);
            FlushError(error)
        })
    }

    /// Flushes, and trims what was set aside for growth. The log can still be read afterwards, not appended to.
    pub fn close(&self) -> Result<(), FlushError> {
        self.flush()?;
        let writer = self.writer.lock();
        self.failed.store(true, Ordering::Release);
        // The length is the same; setting it gives back the space reserved behind it.
        writer.active.file.set_len(writer.position)?;
        writer.active.index.seal()?;
        Ok(())
    }

    /// A cursor at the frame that holds `offset`, or at the first one after it. The log end is a valid place.
    pub fn locate(&self, offset: Offset) -> Result<Cursor, LocateError> {
        // Read before the list: a segment list taken later covers it.
        let end = self.end_offset();
        let segments = self.segments.read();
        let start = segments.first().map_or(0, |segment| segment.base_offset);
        let out_of_range = LocateError::OutOfRange { offset, start, end };
        if offset < start || offset > end {
            return Err(out_of_range);
        }
        let number = segments.partition_point(|segment| segment.base_offset <= offset);
        let segment = number.checked_sub(1).and_then(|number| segments.get(number)).map(Arc::clone);
        drop(segments);
        let segment = segment.ok_or(out_of_range)?;
        let position = segment.locate(offset)?;
        Ok(Cursor { segment, position })
    }

    /// The next bytes for a reader, at most `max`, across as many records as they hold. Takes no lock within a segment.
    ///
    /// The slice begins where the cursor stands; [`Cursor::advance`] moves it by what was really sent. A slice shorter
    /// than `max` ends at the end of a frame.
    pub fn fetch(&self, cursor: &mut Cursor, max: u64) -> Fetch {
        loop {
            // In this order: once a segment is seen sealed, its end is final.
            let sealed = cursor.segment.is_sealed();
            if let Some(slice) = cursor.segment.slice(cursor.position, max) {
                return Fetch::Slice(slice);
            }
            if !sealed {
                return Fetch::Tail;
            }
            if cursor.segment.damaged {
                return Fetch::Damaged;
            }
            match self.segment_after(cursor.segment.base_offset) {
                Some(segment) => *cursor = Cursor { segment, position: 0 },
                None => return Fetch::Tail,
            }
        }
    }

    fn segment_after(&self, base_offset: Offset) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let number = segments.partition_point(|segment| segment.base_offset <= base_offset);
        segments.get(number).map(Arc::clone)
    }
}

impl Writer {
    /// Writes a run at the end of the active segment and shows it to readers.
    fn write(&mut self, run: &mut Run<'_>) -> io::Result<Offset> {
        let Self { active, position, policy, entries, .. } = self;
        let before = *policy;
        entries.clear();
        let start = *position;
        let next = run.assign_offsets(self.next_offset, |offset, at| {
            let position = start + at as u64;
            if policy.wants(position) {
                entries.push(IndexEntry { offset, position });
            }
        });
        let end = start + run.bytes().len() as u64;
        if end > self.reserved {
            let step = end.clamp(RESERVE_MIN, RESERVE_MAX);
            // A hint: where it is refused, the write itself says so if there is no space.
            self.reserved = match active.file.reserve(end + step) {
                Ok(()) => end + step,
                Err(_) => end,
            };
        }
        if let Err(error) = active.file.write_all_at(run.bytes(), start) {
            *policy = before;
            // Back to the previous end, so that nothing half-written is ever taken for a frame.
            if let Err(error) = active.file.set_len(start) {
                tracing::warn!(segment = active.base_offset, %error, "partial write not cut off");
            }
            self.reserved = start;
            return Err(error);
        }
        for entry in entries.drain(..) {
            active.index.push(entry);
        }
        active.publish(end);
        self.position = end;
        self.next_offset = next;
        self.dirty = true;
        Ok(next)
    }
}

impl Cursor {
    /// Moves on by bytes that were sent.
    pub fn advance(&mut self, bytes: u64) {
        self.position += bytes;
        debug_assert!(
            self.position <= self.segment.end(),
            "nothing past the published end is sent"
        );
    }
}
