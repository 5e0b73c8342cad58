//! From damaged bytes to the records in them, and to the first good record behind them.
//!
//! A checksum covers a block; readers move from frame to frame. So each bad range of bytes is widened to the frames it
//! touches. Where the next good frame begins is read off the frames' own lengths if those hold, else it is searched for.

use std::io;
use std::ops::Range;

use super::disk::File;
use super::index::{IndexEntry, OffsetIndex};
use super::walk::{Offsets, Step, Steps, Walk};
use crate::model::Offset;
use crate::record::{Check, FrameLimits, HEADER_LEN, Header, check};

/// Frames in a row that are enough to believe that the first of them is one.
const FRAMES_BELIEVED: usize = 32;

/// Records that cannot be read as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRange {
    /// Bytes of the segment, from the beginning of a frame to the beginning of one (or to the end).
    pub positions: Range<u64>,
    /// Offsets that readers do not get.
    pub offsets: Range<Offset>,
}

/// Where to look: a segment's frames.
pub(super) struct Frames<'a> {
    pub(super) file: &'a dyn File,
    pub(super) index: &'a OffsetIndex,
    pub(super) base: Offset,
    /// Bytes of frames.
    pub(super) end: u64,
    /// Offset after the last frame; at most this if compaction has left gaps.
    pub(super) next_offset: Offset,
}

impl<'a> Frames<'a> {
    /// Walks them from a position on, where the first one has the offset `first` or a later one.
    pub(super) fn walk(&self, position: u64, first: Offset) -> Walk<'a> {
        Walk::new(self.file, position..self.end, first, Offsets::Growing).below(self.next_offset)
    }

    /// The frames that a range of bad bytes touches.
    pub(super) fn over(&self, bad: &Range<u64>) -> BadRange {
        let (start, first) = self.frame_at(bad.start);
        let (end, next) = self.next_good(start, first, bad.end);
        BadRange { positions: start..end, offsets: first..next }
    }

    /// Where in a range of bytes no frame begins, and one should. Calls `before` with position and length of each step before
    /// it is read; an error of it ends the walk.
    pub(super) fn broken(
        &self,
        range: &Range<u64>,
        before: impl FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<Vec<u64>> {
        let mut broken = Vec::new();
        let mut steps = Steps::new(before);
        let walk_from = |(at, first)| self.walk(at, first);
        let mut walk = walk_from(self.frame_at(range.start));
        while walk.position() < range.end.min(self.end) {
            let (at, first) = (walk.position(), walk.next_offset());
            steps.come_to(at, range.end)?;
            if !matches!(walk.next(), Ok(Step::Frame(..))) {
                broken.push(at);
                walk = walk_from(self.next_good(at, first, at + 1));
            }
        }
        broken.retain(|at| range.contains(at));
        Ok(broken)
    }

    /// The frame that reaches beyond `position`, and its offset; or, if its header is among the bad bytes, where it begins.
    fn frame_at(&self, position: u64) -> (u64, Offset) {
        let from = self.listed_at(position);
        let mut walk = self.walk(from.position, from.offset).short();
        loop {
            let here = (walk.position(), walk.next_offset());
            match walk.next() {
                Ok(Step::Frame(..)) if walk.position() <= position => {}
                Ok(Step::Frame(at, header)) if at + HEADER_LEN as u64 <= position => {
                    return (at, header.offset);
                }
                // A header among the bad bytes says nothing. One before them is other damage.
                _ => {
                    let (next, offset) = self.next_good(here.0, here.1, here.0 + 1);
                    if next > position {
                        return here;
                    }
                    walk = self.walk(next, offset).short();
                }
            }
        }
    }

    /// The last place in the index at or before `position` where there is a frame; the beginning if there is none. An index may be
    /// wrong, and a frame damaged where it is right.
    fn listed_at(&self, position: u64) -> IndexEntry {
        let mut before = Some(position);
        while let Some(entry) = before.and_then(|before| self.index.floor_position(before)) {
            let first = self.walk(entry.position, entry.offset).short().next();
            if matches!(first, Ok(Step::Frame(_, header)) if header.offset == entry.offset) {
                return entry;
            }
            before = entry.position.checked_sub(1);
        }
        IndexEntry { offset: self.base, position: 0 }
    }

    /// The first frame at or behind `from` that can be believed; the end if there is none.
    pub(super) fn next_good(&self, start: u64, first: Offset, from: u64) -> (u64, Offset) {
        let from = from.min(self.end);
        let by_lengths = self.by_lengths(start, from);
        let believed = by_lengths.and_then(|at| Some((at, self.believed(at, first)?)));
        believed.unwrap_or_else(|| self.search(start, first, from))
    }

    /// Follows the lengths in the frames from `start` on to the first frame at or behind `from`.
    fn by_lengths(&self, start: u64, from: u64) -> Option<u64> {
        let mut walk = Walk::new(self.file, start..self.end, 0, Offsets::Any);
        while walk.position() < from {
            match walk.next() {
                Ok(Step::Frame(..)) => {}
                Ok(Step::End | Step::Damaged(_)) | Err(_) => return None,
            }
        }
        Some(walk.position())
    }

    /// The offset of the frame at `position`, if what follows it shows that it is one: a place in the index, the end of
    /// the log, or many frames in a row.
    fn believed(&self, position: u64, at_least: Offset) -> Option<Offset> {
        let mut walk = self.walk(position, at_least).short();
        let mut offset = None;
        for _ in 0..FRAMES_BELIEVED {
            match walk.next() {
                Ok(Step::Frame(at, header)) => {
                    offset.get_or_insert(header.offset);
                    let listed = self.index.floor_position(at).filter(|entry| entry.position == at);
                    if let Some(entry) = listed {
                        return offset.filter(|_| entry.offset == header.offset);
                    }
                }
                Ok(Step::End) => {
                    let fits = walk.next_offset() <= self.next_offset;
                    return fits.then_some(offset.unwrap_or(self.next_offset));
                }
                Ok(Step::Damaged(_)) | Err(_) => return None,
            }
        }
        offset.filter(|_| walk.next_offset() <= self.next_offset)
    }

    /// Tries every byte from `from` on.
    fn search(&self, start: u64, first: Offset, from: u64) -> (u64, Offset) {
        const STEP: usize = 64 * 1024;
        let mut buf = vec![0; STEP + HEADER_LEN];
        let mut at = from.max(start + 1);
        while at + HEADER_LEN as u64 <= self.end {
            let want = usize::try_from(self.end - at).unwrap_or(usize::MAX).min(buf.len());
            // What cannot be read holds no frame.
            let read = self.file.read_full_at(&mut buf[..want], at).unwrap_or(0);
            let windows = buf[..read].windows(HEADER_LEN).take(STEP).enumerate();
            for (number, bytes) in windows.filter(|(_, bytes)| self.is_plausible(bytes, first)) {
                let position = at + number as u64;
                debug_assert!(bytes.len() == HEADER_LEN);
                if let Some(offset) = self.believed(position, first) {
                    return (position, offset);
                }
            }
            at += STEP as u64;
        }
        (self.end, self.next_offset.max(first))
    }

    fn is_plausible(&self, bytes: &[u8], first: Offset) -> bool {
        let in_range = |header: Header| header.offset > first && header.offset < self.next_offset;
        let found = check(bytes, &FrameLimits::STORED);
        found.is_ok_and(|found| match found {
            Check::Complete(header) => in_range(header),
            Check::Incomplete { .. } => Header::read(bytes).is_some_and(in_range),
        })
    }
}

/// What is known to be damaged in one segment: ascending, apart from each other.
#[derive(Debug, Default)]
pub(super) struct BadRanges(Vec<BadRange>);

impl BadRanges {
    /// Adds a range; those that touch become one. Returns how many bytes were not known to be bad; `None` if the range was
    /// known.
    pub(super) fn add(&mut self, mut range: BadRange) -> Option<u64> {
        let bytes = |range: &BadRange| range.positions.end - range.positions.start;
        let known = |known: &BadRange| {
            known.positions.start <= range.positions.start
                && known.positions.end >= range.positions.end
        };
        if self.0.iter().any(known) {
            return None;
        }
        let mut before = 0;
        self.0.retain(|other| {
            let apart = other.positions.end < range.positions.start
                || other.positions.start > range.positions.end;
            if !apart {
                before += bytes(other);
                range.positions.start = range.positions.start.min(other.positions.start);
                range.positions.end = range.positions.end.max(other.positions.end);
                range.offsets.start = range.offsets.start.min(other.offsets.start);
                range.offsets.end = range.offsets.end.max(other.offsets.end);
            }
            apart
        });
        let at = self.0.partition_point(|other| other.positions.start < range.positions.start);
        let grown = bytes(&range) - before;
        self.0.insert(at, range);
        Some(grown)
    }

    /// The first one that ends behind `position`.
    pub(super) fn next(&self, position: u64) -> Option<&BadRange> {
        self.0.get(self.0.partition_point(|range| range.positions.end <= position))
    }

    /// The first byte of the first one.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first().map(|range| range.positions.start)
    }

    /// All of them.
    pub(super) fn all(&self) -> &[BadRange] {
        &self.0
    }
}
