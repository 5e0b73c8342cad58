//! A segment: one `.wal` file and its index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::disk::File;
use super::error::LocateError;
use super::file_slice::FileSlice;
use super::index::OffsetIndex;
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

    /// At most `max` bytes from `position` on, if there are any to be seen.
    pub(super) fn slice(&self, position: u64, max: u64) -> Option<FileSlice> {
        let len = self.end().saturating_sub(position).min(max);
        (len > 0).then(|| FileSlice::new(Arc::clone(&self.file), position, len))
    }

    /// Position of the frame that holds `offset`, or of the first one after it; [`Segment::end`] if there is none.
    pub(super) fn locate(&self, offset: Offset) -> Result<u64, LocateError> {
        let end = self.end();
        let (start, first) =
            self.index.floor(offset).map_or((0, self.base_offset), |e| (e.position, e.offset));
        let mut walk = Walk::new(&*self.file, start.min(end)..end, first, Offsets::Growing).short();
        loop {
            match walk.next()? {
                Step::Frame(position, header) if header.next_offset() > offset => {
                    return Ok(position);
                }
                Step::Frame(..) => {}
                Step::End => return Ok(end),
                Step::Damaged(_) => {
                    return Err(LocateError::Damaged {
                        segment: self.base_offset,
                        position: walk.position(),
                    });
                }
            }
        }
    }
}

/// Path of a segment's file with this extension.
pub(super) fn path(dir: &Path, base_offset: Offset, extension: &str) -> PathBuf {
    dir.join(format!("{base_offset:020}.{extension}"))
}

/// The base offset in the name of a `.wal` file; `None` for any other name.
pub(super) fn parse_wal_name(name: &str) -> Option<Offset> {
    let digits = name.strip_suffix(".wal")?;
    let canonical = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if canonical { digits.parse().ok() } else { None }
}
