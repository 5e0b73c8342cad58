//! A segment: one `.wal` file and its index.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};

use super::checksums::{BLOCK, Note};
use super::damage::{BadRange, BadRanges, Frames};
use super::disk::File;
use super::error::LocateError;
use super::file_slice::FileSlice;
use super::index::{IndexEntry, OffsetIndex};
use super::walk::Step;
use crate::metrics::Metrics;
use crate::model::Offset;

/// One segment. Its bytes up to [`Segment::end`] are whole frames and never change.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: Offset,
    pub(super) dir: Arc<Path>,
    pub(super) file: Arc<dyn File>,
    pub(super) index: OffsetIndex,
    /// Bytes that readers may see.
    end: AtomicU64,
    /// The same, with the offset after the last record: for those who need both of one moment.
    pub(super) shown: Mutex<(u64, Offset)>,
    /// No byte will be added: `end` is final once this is seen.
    sealed: AtomicBool,
    /// When it began, in the broker's time, in ns since the Unix epoch.
    began_ns: AtomicU64,
    /// When it was last appended to, as far as a flush has noted.
    last_ns: AtomicU64,
    /// It is not part of the log any more. Those who still read it go on to its end.
    deleted: AtomicBool,
    bad: RwLock<BadRanges>,
    /// First byte of the first bad range: what is read before it needs no look at the list.
    bad_from: AtomicU64,
    /// A wrong index entry was met, and said so.
    index_distrusted: AtomicBool,
    /// What compaction has done to it.
    note: Mutex<Option<Note>>,
    /// Compaction has put another one in its place.
    successor: OnceLock<Successor>,
    /// The newest timestamp of its records, once somebody has looked and it is sealed.
    pub(super) newest: OnceLock<u64>,
    metrics: Arc<Metrics>,
}

/// Where readers of a segment that was replaced go on once they have read it.
#[derive(Debug)]
struct Successor {
    /// Not kept for them: what was replaced itself may be gone before they come.
    segment: Weak<Segment>,
    /// First byte behind what the segment's records have become.
    position: u64,
}

/// What a segment starts with.
#[derive(Debug)]
pub(super) struct SegmentParts {
    pub(super) base_offset: Offset,
    pub(super) dir: Arc<Path>,
    pub(super) file: Arc<dyn File>,
    pub(super) index: OffsetIndex,
    pub(super) end: u64,
    pub(super) next_offset: Offset,
    pub(super) sealed: bool,
    /// The broker's time: what is not known better is as new as that.
    pub(super) now_ns: u64,
    pub(super) metrics: Arc<Metrics>,
}

/// What comes next in a segment.
#[derive(Debug)]
pub(super) enum Next {
    /// Bytes that may be sent.
    Slice(FileSlice),
    /// Records that are damaged: none of them may be sent.
    Bad(BadRange),
    /// Nothing, or nothing yet.
    Nothing,
}

impl Segment {
    pub(super) fn new(parts: SegmentParts) -> Self {
        let SegmentParts {
            base_offset,
            dir,
            file,
            index,
            end,
            next_offset,
            sealed,
            now_ns,
            metrics,
        } = parts;
        Self {
            base_offset,
            dir,
            file,
            index,
            end: AtomicU64::new(end),
            shown: Mutex::new((end, next_offset)),
            sealed: AtomicBool::new(sealed),
            began_ns: AtomicU64::new(now_ns),
            last_ns: AtomicU64::new(now_ns),
            deleted: AtomicBool::new(false),
            bad: RwLock::default(),
            bad_from: AtomicU64::new(u64::MAX),
            index_distrusted: AtomicBool::new(false),
            note: Mutex::default(),
            successor: OnceLock::new(),
            newest: OnceLock::new(),
            metrics,
        }
    }

    /// Path of the segment's file with this extension.
    pub(super) fn path(&self, extension: &str) -> PathBuf {
        path(&self.dir, self.base_offset, extension)
    }

    /// Bytes of whole frames that readers may see.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Offset after the last record that readers may see in this segment.
    pub(super) fn next_offset(&self) -> Offset {
        self.shown.lock().1
    }

    /// Shows readers the bytes up to `end`, which hold the records before `next_offset`.
    pub(super) fn publish(&self, end: u64, next_offset: Offset) {
        debug_assert!(!self.is_sealed() && end >= self.end());
        *self.shown.lock() = (end, next_offset);
        self.end.store(end, Ordering::Release);
    }

    /// Takes back from readers what is behind `shown`: bytes, and the offset after their last record. They go no further, not
    /// to the next segment either.
    pub(super) fn withhold(&self, shown: (u64, Offset)) {
        debug_assert!(shown.0 <= self.end());
        self.sealed.store(false, Ordering::Release);
        *self.shown.lock() = shown;
        self.end.store(shown.0, Ordering::Release);
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(super) fn set_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    /// What compaction has done to it.
    pub(super) fn note(&self) -> Option<Note> {
        *self.note.lock()
    }

    pub(super) fn set_note(&self, note: Option<Note>) {
        *self.note.lock() = note;
    }

    /// Another one takes its place. Those who read it go on to its end, and then at `position` of the other one. Under the
    /// lock of the log's list, together with the change there.
    pub(super) fn replaced_by(&self, segment: &Arc<Self>, position: u64) {
        // Replaced once: what is not in the list is not compacted.
        let _ = self.successor.set(Successor { segment: Arc::downgrade(segment), position });
        self.set_deleted();
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.successor.get().is_some()
    }

    /// Where readers go on behind a segment that was replaced, if what replaced it is there still.
    pub(super) fn successor(&self) -> Option<(Arc<Self>, u64)> {
        let Successor { segment, position } = self.successor.get()?;
        Some((segment.upgrade()?, *position))
    }

    /// When the segment began.
    pub(super) fn began_ns(&self) -> u64 {
        self.began_ns.load(Ordering::Relaxed)
    }

    /// When the segment was last appended to.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }

    /// Notes that what was appended by then is in the segment.
    pub(super) fn touch(&self, at_ns: u64) {
        self.last_ns.store(at_ns, Ordering::Relaxed);
    }

    /// Takes over what the checksums say: when they were begun, and when they were marked (0 if never).
    pub(super) fn date(&self, began_ns: u64, marked_ns: u64) {
        self.began_ns.store(began_ns, Ordering::Relaxed);
        self.last_ns.store(began_ns.max(marked_ns), Ordering::Relaxed);
    }

    /// A time that has not come yet counts as now: a clock was wrong once, and nothing is to be kept for ever by that.
    pub(super) fn date_at_most(&self, now_ns: u64) {
        self.began_ns.fetch_min(now_ns, Ordering::Relaxed);
        self.last_ns.fetch_min(now_ns, Ordering::Relaxed);
    }

    /// What a reader at `position` gets: at most `max` bytes.
    pub(super) fn next(&self, position: u64, max: u64) -> Next {
        let end = self.end();
        if end <= position {
            return Next::Nothing;
        }
        let mut until = end.min(position.saturating_add(max));
        if until > self.bad_from.load(Ordering::Acquire)
            && let Some(bad) = self.bad.read().next(position)
        {
            if bad.positions.start <= position {
                return Next::Bad(bad.clone());
            }
            until = until.min(bad.positions.start);
        }
        Next::Slice(FileSlice::new(Arc::clone(&self.file), position, until - position))
    }

    /// The frames that readers may see, for whoever looks for damage.
    pub(super) fn frames(&self) -> Frames<'_> {
        let (end, next_offset) = *self.shown.lock();
        Frames { file: &*self.file, index: &self.index, base: self.base_offset, end, next_offset }
    }

    /// Keeps readers from records that were found damaged, and says so the first time.
    pub(super) fn mark_bad(&self, range: &BadRange) {
        let mut bad = self.bad.write();
        let first = bad.all().is_empty();
        let Some(bytes) = bad.add(range.clone()) else { return };
        self.bad_from.store(bad.first().unwrap_or(u64::MAX), Ordering::Release);
        drop(bad);
        if first {
            self.metrics.segments_damaged.inc();
        }
        self.metrics.damaged_bytes.add(bytes);
        tracing::error!(
            segment = %self.path(WAL).display(),
            bytes = ?range.positions, offsets = ?range.offsets,
            "records are damaged on disk; they are not served, and nothing was removed"
        );
    }

    /// Whether damage was found in it.
    pub(super) fn is_damaged(&self) -> bool {
        self.bad_from.load(Ordering::Acquire) != u64::MAX
    }

    /// All that was found damaged.
    pub(super) fn bad_ranges(&self) -> Vec<BadRange> {
        self.bad.read().all().to_vec()
    }

    /// The bad range that holds the byte at `position`.
    pub(super) fn bad_at(&self, position: u64) -> Option<BadRange> {
        if position < self.bad_from.load(Ordering::Acquire) {
            return None;
        }
        let bad = self.bad.read();
        bad.next(position).filter(|bad| bad.positions.start <= position).cloned()
    }

    /// Position of the frame that holds `offset`, or of the first one after it; [`Segment::end`] if there is none. Where
    /// the frame is damaged, the beginning of the damage.
    ///
    /// Opening a sealed segment compares only the beginning and the end of its index with the log. So an entry is
    /// believed only if its frame is where it says; otherwise the segment is walked from its start.
    pub(super) fn locate(&self, offset: Offset) -> Result<u64, LocateError> {
        let frames = self.frames();
        if let Some(entry) = self.index.floor(offset) {
            if entry.position >= frames.end {
                // The writer lists a frame before it shows it: this one is being shown just now.
                return Ok(frames.end);
            }
            if self.bad_at(entry.position).is_some() {
                return self.find(offset, entry, &frames);
            }
            let first = frames.walk(entry.position, entry.offset).short().next()?;
            if matches!(first, Step::Frame(_, header) if header.offset == entry.offset) {
                return self.find(offset, entry, &frames);
            }
            self.distrust_index(entry);
        }
        self.find(offset, IndexEntry { offset: self.base_offset, position: 0 }, &frames)
    }

    /// Walks from a frame on to the one that holds `offset` or to the first one after it.
    fn find(
        &self,
        offset: Offset,
        from: IndexEntry,
        frames: &Frames<'_>,
    ) -> Result<u64, LocateError> {
        let mut walk = frames.walk(from.position, from.offset);
        if from.position > 0 {
            // From an entry of the index it is not far.
            walk = walk.short();
        }
        loop {
            if let Some(bad) = self.bad_at(walk.position()) {
                if bad.offsets.end > offset || bad.positions.end >= frames.end {
                    return Ok(bad.positions.start);
                }
                walk = frames.walk(bad.positions.end, bad.offsets.end);
            }
            match walk.next()? {
                Step::Frame(position, header) if header.next_offset() > offset => {
                    return Ok(position);
                }
                Step::Frame(..) => {}
                Step::End => return Ok(walk.position()),
                Step::Damaged(_) => self.meet_damage(walk.position()),
            }
        }
    }

    /// What stands at `position` is no frame. If that is wrong, nobody knows what else is in its block.
    pub(super) fn meet_damage(&self, position: u64) {
        let block = position / BLOCK * BLOCK;
        self.mark_bad(&self.frames().over(&(block..block + BLOCK)));
    }

    fn distrust_index(&self, entry: IndexEntry) {
        if !self.index_distrusted.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                segment = self.base_offset,
                offset = entry.offset,
                position = entry.position,
                "the offset index disagrees with the log; lookups walk the segment where it does"
            );
        }
    }
}

/// Path of a segment's file with this extension.
pub(super) fn path(dir: &Path, base_offset: Offset, extension: &str) -> PathBuf {
    dir.join(format!("{base_offset:020}.{extension}"))
}

/// Extension of a segment's log file.
pub(super) const WAL: &str = "wal";

/// Extension of a segment's offset index.
pub(super) const IDX: &str = "idx";

/// Extension of a segment's checksums.
pub(super) const SUM: &str = "sum";

/// Extension of a log file whose predecessor may not be durable yet: it is renamed to [`WAL`] once that is. So a power
/// cut that loses the end of one segment never leaves the next one behind a hole.
pub(super) const PROVISIONAL: &str = "wal.new";

/// The base offset in the name of a file with this extension; `None` for any other name.
pub(super) fn parse_name(name: &str, extension: &str) -> Option<Offset> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    let canonical = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if canonical { digits.parse().ok() } else { None }
}
