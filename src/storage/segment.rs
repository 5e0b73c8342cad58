//! A segment: one `.wal` file and its index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::disk::File;
use super::error::LocateError;
use super::file_slice::FileSlice;
use super::index::{IndexEntry, OffsetIndex};
use super::walk::{Offsets, Step, Walk};
use crate::model::Offset;

/// One segment. Its bytes up to [`Segment::end`] are whole frames and never change.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: Offset,
    pub(super) file: Arc<dyn File>,
    pub(super) index: OffsetIndex,
    /// Bytes that readers may see.
    end: AtomicU64,
    /// No byte will be added: `end` is final once this is seen.
    sealed: AtomicBool,
    /// The file goes on behind `end`, with bytes that are no frames.
    pub(super) damaged: bool,
    /// A wrong index entry was met, and said so.
    index_distrusted: AtomicBool,
}

/// The state a segment starts in.
#[derive(Debug)]
pub(super) struct SegmentState {
    pub(super) end: u64,
    pub(super) sealed: bool,
    pub(super) damaged: bool,
}

impl Segment {
    pub(super) fn new(
        base_offset: Offset,
        file: Arc<dyn File>,
        index: OffsetIndex,
        state: &SegmentState,
    ) -> Self {
        Self {
            base_offset,
            file,
            index,
            end: AtomicU64::new(state.end),
            sealed: AtomicBool::new(state.sealed),
            damaged: state.damaged,
            index_distrusted: AtomicBool::new(false),
        }
    }

    /// Bytes of whole frames that readers may see.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Shows readers the bytes up to `end`.
    pub(super) fn publish(&self, end: u64) {
        debug_assert!(!self.is_sealed() && end >= self.end());
        self.end.store(end, Ordering::Release);
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// At most `max` bytes from `position` on; `None` if there are none to be seen there (yet).
    pub(super) fn slice(&self, position: u64, max: u64) -> Option<FileSlice> {
        let left = self.end().saturating_sub(position);
        (left > 0).then(|| FileSlice::new(Arc::clone(&self.file), position, left.min(max)))
    }

    /// Position of the frame that holds `offset`, or of the first one after it; [`Segment::end`] if there is none.
    ///
    /// Opening a sealed segment compares only the beginning and the end of its index with the log. So an entry is
    /// believed only if its frame is where it says; otherwise the segment is walked from its start.
    pub(super) fn locate(&self, offset: Offset) -> Result<u64, LocateError> {
        let end = self.end();
        if let Some(entry) = self.index.floor(offset) {
            if entry.position >= end {
                // The writer lists a frame before it shows it: this one is being shown just now.
                return Ok(end);
            }
            let range = entry.position..end;
            let mut walk = Walk::new(&*self.file, range, entry.offset, Offsets::Growing).short();
            let first = walk.next()?;
            if matches!(first, Step::Frame(_, header) if header.offset == entry.offset) {
                return self.find(offset, walk, first);
            }
            self.distrust_index(entry);
        }
        let mut walk = Walk::new(&*self.file, 0..end, self.base_offset, Offsets::Growing);
        let first = walk.next()?;
        self.find(offset, walk, first)
    }

    /// Walks on from `step`, which `walk` gave last, to the frame that holds `offset` or to the first one after it.
    fn find(&self, offset: Offset, mut walk: Walk<'_>, mut step: Step) -> Result<u64, LocateError> {
        loop {
            match step {
                Step::Frame(position, header) if header.next_offset() > offset => {
                    return Ok(position);
                }
                Step::Frame(..) => step = walk.next()?,
                Step::End => return Ok(walk.position()),
                Step::Damaged(_) => {
                    return Err(LocateError::Damaged {
                        segment: self.base_offset,
                        position: walk.position(),
                    });
                }
            }
        }
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

/// Extension of a log file whose predecessor may not be durable yet: it is renamed to [`WAL`] once that is. So a power
/// cut that loses the end of one segment never leaves the next one behind a hole.
pub(super) const PROVISIONAL: &str = "wal.new";

/// The base offset in the name of a file with this extension; `None` for any other name.
pub(super) fn parse_name(name: &str, extension: &str) -> Option<Offset> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    let canonical = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if canonical { digits.parse().ok() } else { None }
}
