//! One partition's log: segments back to back, appended to at one end.

use std::collections::VecDeque;
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
/// change segments. Lock order: `syncing`, `writer`, `segments`.
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
    /// Nothing is appended any more. Set under the writer's lock.
    closed: AtomicBool,
    /// Held while flushing: segments become durable in order, and the system tells an error once, so whoever syncs next
    /// must know of it.
    syncing: Mutex<()>,
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
    /// Bytes of the active file that a flush has made durable.
    flushed: u64,
    /// A file was created or renamed and the directory not flushed since.
    dir_dirty: bool,
    /// Sealed segments that no flush has made durable, oldest first. The files of their successors are provisional.
    settling: VecDeque<Arc<Segment>>,
    /// The next segment is wanted, and its file may be there. Until it is in use nothing is appended to this one: the
    /// file's name is the offset of the next record.
    must_roll: bool,
    /// Behind `position`, the active file may hold a part of a run that was not stored.
    torn: bool,
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
            flushed: 0,
            dir_dirty: true,
            settling: VecDeque::new(),
            must_roll: false,
            torn: false,
            active,
        };
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            writer: Mutex::new(writer),
            segments: RwLock::new(recovered.segments),
            end_offset: AtomicU64::new(recovered.next_offset),
            failed: AtomicBool::new(recovered.read_only),
            closed: AtomicBool::new(false),
            syncing: Mutex::new(()),
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

    /// Offset after the last record, once no append is under way. Readers see a run a moment before
    /// [`Log::end_offset`] counts it; this one never lags behind them.
    pub fn settled_end_offset(&self) -> Offset {
        self.writer.lock().next_offset
    }

    /// Whether a failed flush has made the log read-only.
    pub fn is_read_only(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Gives the run its offsets and stores it with one positioned write: all of it or nothing.
    pub fn append(&self, run: &mut Run<'_>) -> Result<Appended, AppendError> {
        let mut writer = self.writer.lock();
        if self.is_read_only() || self.closed.load(Ordering::Acquire) {
            return Err(AppendError::ReadOnly);
        }
        let first = writer.next_offset;
        // Saturating: a file can be named after an offset that no record gets.
        if run.records() > OFFSET_MAX.saturating_sub(first) {
            return Err(AppendError::OffsetsExhausted(first));
        }
        writer.cut_torn()?;
        let len = run.bytes().len() as u64;
        let full = writer.position > 0 && writer.position + len > self.segment_bytes;
        if full || writer.must_roll {
            self.roll(&mut writer)?;
        }
        let next = writer.write(run, self.segment_bytes)?;
        self.end_offset.store(next, Ordering::Release);
        Ok(Appended { first, next })
    }

    /// Seals the active segment and begins the next one, without waiting for the disk: a flush makes them durable in
    /// order, and the new file has a provisional name until the old one is.
    fn roll(&self, writer: &mut Writer) -> Result<(), AppendError> {
        writer.must_roll = true;
        let segment = self.create_segment(writer.next_offset)?;
        // Readers that see the old segment sealed must find its successor.
        self.segments.write().push(Arc::clone(&segment));
        let old = writer.switch_to(segment);
        old.seal();
        if let Err(error) = old.index.seal() {
            tracing::debug!(segment = old.base_offset, %error, "index not trimmed");
        }
        Ok(())
    }

    fn create_segment(&self, base: Offset) -> io::Result<Arc<Segment>> {
        let wal = segment::path(&self.dir, base, segment::PROVISIONAL);
        // A leftover of an earlier attempt holds nothing that was ever acked.
        let file = self.disk.open(&wal, Open::Truncate)?;
        let idx = segment::path(&self.dir, base, "idx");
        self.disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(&*self.disk, &idx, 0, self.segment_bytes)?;
        let state = SegmentState { end: 0, sealed: false, damaged: false };
        Ok(Arc::new(Segment::new(base, file, index, &state)))
    }

    /// Makes everything appended so far durable. Blocks for the disk: never call it on a reactor.
    ///
    /// After an error the log is read-only: the kernel may have dropped the pages, so trying again would lie. Unless
    /// there was no descriptor to ask it with: then the next flush starts over.
    pub fn flush(&self) -> Result<(), FlushError> {
        let _syncing = self.syncing.lock();
        if self.is_read_only() {
            return Err(FlushError::Failed(io::Error::other("an earlier flush failed")));
        }
        self.sync_all().map_err(|error| {
            if FlushError::is_postponing(&error) {
                return FlushError::Postponed(error);
            }
            self.failed.store(true, Ordering::Release);
            FlushError::Failed(error)
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut writer = self.writer.lock();
        // What is there now and no more: a log that rolls as fast as it settles must not keep the flusher for itself.
        let last = Arc::clone(&writer.active);
        while let Some(sealed) = writer.settling.front().map(Arc::clone) {
            let next = writer.settling.get(1).unwrap_or(&writer.active).base_offset;
            drop(writer);
            // The length is the same; setting it gives back the space reserved behind it.
            if let Err(error) = sealed.file.set_len(sealed.end()) {
                tracing::debug!(segment = sealed.base_offset, %error, "not trimmed");
            }
            sealed.file.sync_data()?;
            self.settle(next)?;
            writer = self.writer.lock();
            writer.settling.pop_front();
            writer.dir_dirty = true;
            if Arc::ptr_eq(&sealed, &last) {
                break;
            }
        }
        if writer.is_clean() {
            return Ok(());
        }
        let active = Arc::clone(&writer.active);
        let position = writer.position;
        let dir_dirty = std::mem::take(&mut writer.dir_dirty);
        drop(writer);
        active.file.sync_data()?;
        if dir_dirty && let Err(error) = self.disk.sync_dir(&self.dir) {
            self.writer.lock().dir_dirty = true;
            return Err(error);
        }
        let mut writer = self.writer.lock();
        // Else it was rolled meanwhile, and the next flush comes to it.
        if Arc::ptr_eq(&writer.active, &active) {
            writer.flushed = position;
        }
        Ok(())
    }

    /// Gives a segment its name for good: its predecessor is durable.
    fn settle(&self, base: Offset) -> io::Result<()> {
        let provisional = segment::path(&self.dir, base, segment::PROVISIONAL);
        self.disk.rename(&provisional, &segment::path(&self.dir, base, segment::WAL))
    }

    /// Flushes, and trims what was set aside for growth. The log can still be read afterwards, not appended to.
    pub fn close(&self) -> Result<(), FlushError> {
        let writer = self.writer.lock();
        // Before the flush: what is appended is flushed.
        self.closed.store(true, Ordering::Release);
        drop(writer);
        self.flush()?;
        let writer = self.writer.lock();
        // The length is the same; setting it gives back the space reserved behind it.
        let trimmed = writer.active.file.set_len(writer.position);
        if let Err(error) = trimmed.and_then(|()| writer.active.index.seal()) {
            tracing::debug!(segment = writer.active.base_offset, %error, "not trimmed");
        }
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
            if !self.skip_segment(cursor) {
                return Fetch::Tail;
            }
        }
    }

    /// Moves a cursor to the beginning of the next segment, over what is left of this one; false if there is none.
    pub fn skip_segment(&self, cursor: &mut Cursor) -> bool {
        match self.segment_after(cursor.segment.base_offset) {
            Some(segment) => *cursor = Cursor { segment, position: 0 },
            None => return false,
        }
        true
    }

    fn segment_after(&self, base_offset: Offset) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let number = segments.partition_point(|segment| segment.base_offset <= base_offset);
        segments.get(number).map(Arc::clone)
    }
}

impl Writer {
    /// Writes a run at the end of the active segment and shows it to readers.
    fn write(&mut self, run: &mut Run<'_>, segment_bytes: u64) -> io::Result<Offset> {
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
            let ahead = end + end.clamp(RESERVE_MIN, RESERVE_MAX);
            let until = ahead.min(segment_bytes).max(end);
            // A hint: where it is refused, the write itself says so if there is no space.
            self.reserved = match active.file.reserve(until) {
                Ok(()) => until,
                // Not on this file system: not asked again for this segment.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => u64::MAX,
                Err(_) => end,
            };
        }
        if let Err(error) = active.file.write_all_at(run.bytes(), start) {
            *policy = before;
            self.torn = true;
            if let Err(error) = self.cut_torn() {
                let segment = self.active.base_offset;
                tracing::warn!(segment, %error, "partial write not cut off; no append until it is");
            }
            return Err(error);
        }
        for entry in entries.drain(..) {
            active.index.push(entry);
        }
        active.publish(end);
        self.position = end;
        self.next_offset = next;
        Ok(next)
    }

    /// Back to the previous end, so that nothing half-written is ever taken for a frame.
    fn cut_torn(&mut self) -> io::Result<()> {
        if self.torn {
            self.active.file.set_len(self.position)?;
            self.reserved = self.position;
            self.torn = false;
        }
        Ok(())
    }

    /// Whether everything in the active segment is durable, its name included.
    fn is_clean(&self) -> bool {
        self.position == self.flushed && !self.dir_dirty
    }

    /// Goes on in a new segment; returns the old one, which is to be sealed.
    fn switch_to(&mut self, segment: Arc<Segment>) -> Arc<Segment> {
        self.position = 0;
        self.reserved = 0;
        self.flushed = 0;
        self.policy = IndexPolicy::default();
        self.dir_dirty = true;
        self.must_roll = false;
        let old = std::mem::replace(&mut self.active, segment);
        self.settling.push_back(Arc::clone(&old));
        old
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
