//! Appending: the writer's end of a log, and the roll from one segment to the next.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::disk::Open;
use super::durability::Durability;
use super::error::AppendError;
use super::index::{IndexEntry, IndexPolicy, OffsetIndex};
use super::log::Log;
use super::segment::{self, Segment, SegmentState};
use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::record::Run;

/// Disk space is set aside in steps that double, from this many bytes …
const RESERVE_MIN: u64 = 64 * 1024;
/// … up to this many.
const RESERVE_MAX: u64 = 16 * 1024 * 1024;

/// Where the next run goes. Under the log's lock.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) active: Arc<Segment>,
    /// End of the active segment, in bytes.
    pub(super) position: u64,
    pub(super) next_offset: Offset,
    policy: IndexPolicy,
    /// Index entries of the run being written; kept for its memory.
    entries: Vec<IndexEntry>,
    /// The active file has disk space up to here.
    reserved: u64,
    /// Bytes of the active file that a flush has made durable.
    pub(super) flushed: u64,
    /// A file was created or renamed and the directory not flushed since.
    pub(super) dir_dirty: bool,
    /// Sealed segments that no flush has made durable, oldest first. The files of their successors are provisional.
    pub(super) settling: VecDeque<Settling>,
    /// The next segment is wanted, and its file may be there. Until it is in use nothing is appended to this one: the
    /// file's name is the offset of the next record.
    must_roll: bool,
    /// Behind `position`, the active file may hold a part of a run that was not stored.
    torn: bool,
}

/// A sealed segment on its way to the disk.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) segment: Arc<Segment>,
    /// Its length for good, in bytes.
    pub(super) end: u64,
    /// Its bytes are durable and its successor has its name; the directory may not be flushed.
    pub(super) synced: bool,
}

/// A run that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub next: Offset,
}

impl Log {
    /// Gives the run its offsets and stores it with one positioned write: all of it or nothing.
    ///
    /// When this returns the kernel has the bytes. With [`Durability::Always`] they count as stored, and readers see
    /// them, only once [`Log::flushed_offset`] has reached [`Appended::next`].
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
        let full = writer.position > 0 && writer.position + len > self.options.segment_bytes;
        if full || writer.must_roll {
            self.roll(&mut writer)?;
        }
        let next = writer.write(run, self.options.segment_bytes)?;
        if self.options.durability == Durability::Interval {
            writer.active.publish(writer.position);
            self.end_offset.store(next, Ordering::Release);
        }
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
        if self.options.durability == Durability::Interval {
            // Else readers must not pass its end before they have been shown it: the flush seals it.
            old.seal();
        }
        if let Err(error) = old.index.seal() {
            tracing::debug!(segment = old.base_offset, %error, "index not trimmed");
        }
        Ok(())
    }

    fn create_segment(&self, base: Offset) -> io::Result<Arc<Segment>> {
        let disk = &*self.env.disk;
        let wal = segment::path(&self.dir, base, segment::PROVISIONAL);
        // A leftover of an earlier attempt holds nothing that was ever acked.
        let file = disk.open(&wal, Open::Truncate)?;
        let idx = segment::path(&self.dir, base, segment::IDX);
        disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(disk, &idx, 0, self.options.segment_bytes)?;
        let state = SegmentState { end: 0, sealed: false, damaged: false };
        Ok(Arc::new(Segment::new(base, file, index, &state)))
    }
}

impl Writer {
    /// Goes on at the end of the active segment.
    pub(super) fn new(active: Arc<Segment>, next_offset: Offset) -> Self {
        let position = active.end();
        Self {
            position,
            next_offset,
            policy: IndexPolicy::after(&active.index),
            entries: Vec::new(),
            reserved: position,
            flushed: 0,
            dir_dirty: true,
            settling: VecDeque::new(),
            must_roll: false,
            torn: false,
            active,
        }
    }

    /// Writes a run at the end of the active segment. Readers do not see it yet.
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
    pub(super) fn is_clean(&self) -> bool {
        self.position == self.flushed && !self.dir_dirty
    }

    /// The oldest sealed segment that is not durable, its length, and the base offset of the one after it.
    pub(super) fn first_unsynced(&self) -> Option<(Arc<Segment>, u64, Offset)> {
        let number = self.settling.iter().position(|settling| !settling.synced)?;
        let Settling { segment, end, .. } = self.settling.get(number)?;
        let next = self.settling.get(number + 1).map_or(&self.active, |next| &next.segment);
        Some((Arc::clone(segment), *end, next.base_offset))
    }

    /// Notes that a sealed segment is durable and its successor has its name.
    pub(super) fn synced(&mut self, base_offset: Offset) {
        self.dir_dirty = true;
        for settling in &mut self.settling {
            settling.synced |= settling.segment.base_offset == base_offset;
        }
    }

    /// Goes on in a new segment; returns the old one, which is to be sealed.
    fn switch_to(&mut self, segment: Arc<Segment>) -> Arc<Segment> {
        let end = std::mem::take(&mut self.position);
        self.reserved = 0;
        self.flushed = 0;
        self.policy = IndexPolicy::default();
        self.dir_dirty = true;
        self.must_roll = false;
        let old = std::mem::replace(&mut self.active, segment);
        self.settling.push_back(Settling { segment: Arc::clone(&old), end, synced: false });
        old
    }
}
