//! Appending: the writer's end of a log, and the roll from one segment to the next.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checksums::{BLOCK, Checksums, Mark};
use super::disk::Open;
use super::durability::Durability;
use super::error::AppendError;
use super::index::{IndexEntry, IndexPolicy, OffsetIndex};
use super::log::Log;
use super::recovery::Active;
use super::segment::{self, Segment, SegmentParts};
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
    /// Bytes that the active segment has room for: its index and its checksums were made for so many.
    segment_bytes: u64,
    /// End of the active segment, in bytes.
    pub(super) position: u64,
    pub(super) next_offset: Offset,
    /// The latest time that was written into records, in nanoseconds since the Unix epoch: what is appended next is not
    /// from before it.
    pub(super) stamped: u64,
    /// The active segment's checksums; `None` if there was no space for their file: the next append begins a segment
    /// that has some.
    pub(super) sums: Option<Arc<Checksums>>,
    /// Checksum of the last block so far.
    tail: u32,
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
#[derive(Debug, Clone)]
pub(super) struct Settling {
    pub(super) segment: Arc<Segment>,
    pub(super) sums: Option<Arc<Checksums>>,
    /// Its end.
    pub(super) mark: Mark,
    /// Its bytes are durable and its successor has its name; the directory may not be flushed.
    pub(super) synced: bool,
}

impl Settling {
    /// Shows readers the whole of it, if they do not see it yet.
    pub(super) fn show(&self) {
        let Self { segment, mark, .. } = self;
        if !segment.is_sealed() {
            segment.publish(mark.position, mark.next_offset);
            segment.seal();
        }
    }
}

/// A sealed segment that is not durable, and its successor.
pub(super) struct Unsynced {
    pub(super) settling: Settling,
    pub(super) next_base: Offset,
    pub(super) next_sums: Option<Arc<Checksums>>,
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
        let room = writer.segment_bytes.min(self.options.segment_bytes());
        let full = writer.position > 0 && writer.position + len > room;
        if full || writer.must_roll {
            self.roll(&mut writer)?;
        } else if !writer.has_sums() {
            self.begin_sums(&mut writer)?;
        }
        if self.options.stamps() {
            // Under the lock: of two runs the later one does not carry the earlier time. People look records up by it, so
            // it is the machine's time, not the one that ages are counted in, which is behind after the broker was down.
            writer.stamped = writer.stamped.max(self.env.clock.wall_ns());
            run.set_timestamps(writer.stamped);
        }
        let next = writer.write(run)?;
        if self.options.durability() == Durability::Interval {
            writer.active.publish(writer.position, next);
            self.end_offset.store(next, Ordering::Release);
        }
        Ok(Appended { first, next })
    }

    /// Seals the active segment if it has records, so that it can be deleted one day. True if it had.
    pub(super) fn roll_if(
        &self,
        wanted: impl FnOnce(&Segment) -> bool,
    ) -> Result<bool, AppendError> {
        let mut writer = self.writer.lock();
        let idle = writer.position == 0 || writer.torn || !wanted(&writer.active);
        if idle || self.is_read_only() || self.closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.roll(&mut writer)?;
        Ok(true)
    }

    /// Seals the active segment and begins the next one, without waiting for the disk: a flush makes them durable in
    /// order, and the new file has a provisional name until the old one is.
    fn roll(&self, writer: &mut Writer) -> Result<(), AppendError> {
        writer.must_roll = true;
        let segment_bytes = self.options.segment_bytes();
        let (segment, sums) = self.create_segment(writer.next_offset, segment_bytes)?;
        // Readers that see the old segment sealed must find its successor.
        self.segments.write().push(Arc::clone(&segment));
        let old = writer.switch_to(segment, sums, self.env.clock.now_ns());
        writer.segment_bytes = segment_bytes;
        if self.options.durability() == Durability::Interval {
            // Else readers must not pass its end before they have been shown it: the flush seals it.
            old.seal();
        }
        if let Err(error) = old.index.seal() {
            tracing::debug!(segment = old.base_offset, %error, "index not trimmed");
        }
        Ok(())
    }

    fn create_segment(
        &self,
        base: Offset,
        segment_bytes: u64,
    ) -> io::Result<(Arc<Segment>, Arc<Checksums>)> {
        let disk = &*self.env.disk;
        // Before the log: a log without checksums of its own is somebody else's, or lost them.
        let sums = self.create_sums(base, segment_bytes)?;
        let wal = segment::path(&self.dir, base, segment::PROVISIONAL);
        // A leftover of an earlier attempt holds nothing that was ever acked.
        let file = disk.open(&wal, Open::Truncate)?;
        let idx = segment::path(&self.dir, base, segment::IDX);
        disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(disk, &idx, 0, segment_bytes)?;
        let segment = Segment::new(SegmentParts {
            base_offset: base,
            dir: Arc::clone(&self.dir),
            file,
            index,
            end: 0,
            next_offset: base,
            sealed: false,
            now_ns: self.env.clock.now_ns(),
            metrics: Arc::clone(&self.env.metrics),
        });
        Ok((Arc::new(segment), sums))
    }

    fn create_sums(&self, base: Offset, segment_bytes: u64) -> io::Result<Arc<Checksums>> {
        let path = segment::path(&self.dir, base, segment::SUM);
        let (disk, now_ns) = (&*self.env.disk, self.env.clock.now_ns());
        Ok(Arc::new(Checksums::create(disk, &path, base, now_ns, segment_bytes)?))
    }

    /// There was no space for the checksums of the active segment: perhaps there is now.
    fn begin_sums(&self, writer: &mut Writer) -> Result<(), AppendError> {
        if writer.position > 0 {
            // What is there already has none. The next segment has.
            return self.roll(writer);
        }
        writer.sums = Some(self.create_sums(writer.active.base_offset, writer.segment_bytes)?);
        Ok(())
    }
}

impl Writer {
    /// Goes on at the end of the active segment.
    pub(super) fn new(active: Active, settling: VecDeque<Settling>, segment_bytes: u64) -> Self {
        let Active { segment: active, sums, tail, next_offset, flushed, .. } = active;
        let position = active.end();
        Self {
            segment_bytes,
            position,
            next_offset,
            stamped: 0,
            sums: sums.map(Arc::new),
            tail,
            policy: IndexPolicy::after(&active.index),
            entries: Vec::new(),
            reserved: position,
            flushed,
            dir_dirty: flushed < position || !settling.is_empty(),
            settling,
            must_roll: false,
            torn: false,
            active: Arc::new(active),
        }
    }

    /// Writes a run at the end of the active segment. Readers do not see it yet.
    fn write(&mut self, run: &mut Run<'_>) -> io::Result<Offset> {
        let Self { active, position, policy, entries, sums, tail, .. } = self;
        let end = *position + run.bytes().len() as u64;
        let sums = sums.as_ref().ok_or(io::ErrorKind::StorageFull)?;
        sums.reserve(end)?;
        let before = *policy;
        entries.clear();
        let start = *position;
        let next = run.assign_offsets(self.next_offset, |offset, at| {
            let position = start + at as u64;
            if policy.wants(position) {
                entries.push(IndexEntry { offset, position });
            }
        });
        if end > self.reserved {
            let ahead = end + end.clamp(RESERVE_MIN, RESERVE_MAX);
            let until = ahead.min(self.segment_bytes).max(end);
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
        sums.extend(start, run.bytes(), tail);
        active.index.push_all(entries.drain(..));
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

    /// The oldest sealed segment that is not durable, and the one after it.
    pub(super) fn first_unsynced(&self) -> Option<Unsynced> {
        let number = self.settling.iter().position(|settling| !settling.synced)?;
        let settling = self.settling.get(number)?.clone();
        let (next, next_sums) = match self.settling.get(number + 1) {
            Some(next) => (&next.segment, &next.sums),
            None => (&self.active, &self.sums),
        };
        Some(Unsynced { settling, next_base: next.base_offset, next_sums: next_sums.clone() })
    }

    /// The same, if the segment begins at or before `last`.
    pub(super) fn first_unsynced_until(&self, last: Offset) -> Option<Unsynced> {
        self.first_unsynced().filter(|unsynced| unsynced.settling.segment.base_offset <= last)
    }

    /// Whether the active segment has checksums that can be kept up.
    fn has_sums(&mut self) -> bool {
        if self.sums.as_ref().is_some_and(|sums| !sums.is_whole()) {
            let segment = self.active.path(segment::SUM);
            tracing::error!(
                segment = %segment.display(),
                "somebody has cut the file of checksums; the log goes on in a new segment"
            );
            self.sums = None;
        }
        self.sums.is_some()
    }

    /// What a flush that begins now makes durable. The time is that of the last record: it stands if there is no new one.
    pub(super) fn mark(&self, now_ns: u64) -> Mark {
        if self.position != self.flushed {
            self.active.touch(now_ns);
        }
        let at_ns = self.active.last_ns();
        let partial = if self.position.is_multiple_of(BLOCK) { 0 } else { self.tail };
        Mark { position: self.position, next_offset: self.next_offset, at_ns, partial }
    }

    /// Notes that a sealed segment is durable and its successor has its name.
    pub(super) fn synced(&mut self, base_offset: Offset) {
        self.dir_dirty = true;
        for settling in &mut self.settling {
            settling.synced |= settling.segment.base_offset == base_offset;
        }
    }

    /// Goes on in a new segment; returns the old one, which is to be sealed.
    fn switch_to(
        &mut self,
        segment: Arc<Segment>,
        sums: Arc<Checksums>,
        at_ns: u64,
    ) -> Arc<Segment> {
        let mark = self.mark(at_ns);
        self.position = 0;
        self.reserved = 0;
        self.flushed = 0;
        self.tail = 0;
        self.policy = IndexPolicy::default();
        self.dir_dirty = true;
        self.must_roll = false;
        let old = std::mem::replace(&mut self.active, segment);
        let old_sums = self.sums.replace(sums);
        let settling = Settling { segment: Arc::clone(&old), sums: old_sums, mark, synced: false };
        self.settling.push_back(settling);
        old
    }
}
