//! Where a reader stands, in offsets and in times: for what it is told beside the records.

use std::io;
use std::sync::Arc;

use super::durability::OnCorruption;
use super::error::LocateError;
use super::log::{Cursor, Log};
use super::segment::Segment;
use super::walk::{Offsets, Step, Walk};
use crate::model::Offset;

impl Log {
    /// Offset of the next record that is appended.
    pub fn next_offset(&self) -> Offset {
        self.writer.lock().next_offset
    }

    /// Offset of the first frame that a reader gets, which stands at the beginning of one; the log end if there is none
    /// yet. Reads the disk.
    pub fn offset_at(&self, cursor: &mut Cursor) -> Result<Offset, LocateError> {
        loop {
            // In this order: once a segment is seen sealed, its end is final.
            let sealed = cursor.segment.is_sealed();
            let (end, next_offset) = cursor.segment.shown();
            if cursor.position < end {
                return self.offset_before(cursor, end);
            }
            if !sealed || !self.next_segment(cursor) {
                return Ok(next_offset);
            }
        }
    }

    fn offset_before(&self, cursor: &Cursor, end: u64) -> Result<Offset, LocateError> {
        let Cursor { segment, position, .. } = cursor;
        let damaged = LocateError::Damaged { segment: segment.base_offset, position: *position };
        if let Some(bad) = segment.bad_at(*position) {
            let skips = self.options.get().on_corruption == OnCorruption::Skip;
            return if skips { Ok(bad.offsets.end) } else { Err(damaged) };
        }
        let range = *position..end;
        match Walk::new(&*segment.file, range, segment.base_offset, Offsets::Growing)
            .short()
            .next()?
        {
            Step::Frame(_, header) => Ok(header.offset),
            Step::End | Step::Damaged(_) => {
                segment.meet_damage(*position);
                Err(damaged)
            }
        }
    }

    /// A cursor at the first record whose timestamp is `timestamp` or later; at the log end if there is none.
    ///
    /// Senders set timestamps, in any order, so no search by halves finds the first one: the frames' headers are read from
    /// the log start on. Of a sealed segment the newest timestamp is remembered, so each is read to its end once, and
    /// later lookups pass it by. Reads the disk, much of it the first time.
    pub fn locate_time(&self, timestamp: u64) -> Result<Cursor, LocateError> {
        let segments = self.segments.read().clone();
        let mut last = None;
        for segment in segments {
            let found = segment.first_since(timestamp)?;
            let (Ok(position) | Err(position)) = found;
            let cursor = Cursor::new(segment, position);
            if found.is_ok() {
                return Ok(cursor);
            }
            last = Some(cursor);
        }
        // A log has a segment at all times.
        last.map_or_else(|| self.locate(self.end_offset()), Ok)
    }
}

impl Cursor {
    pub(super) fn new(segment: Arc<Segment>, position: u64) -> Self {
        Self { segment, position, skipped: None, moved: None }
    }

    /// The log end, if the reader has all there is: then it stands between two frames.
    pub fn tail_offset(&self) -> Option<Offset> {
        let (end, next_offset) = self.segment.shown();
        (self.position == end).then_some(next_offset)
    }

    /// Bytes to a place further on; 0 at or behind it, `None` if it is in a later segment.
    pub fn distance_to(&self, place: &Self) -> Option<u64> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match place.segment.base_offset.cmp(&self.segment.base_offset) {
            Equal => Some(place.position.saturating_sub(self.position)),
            Less => Some(0),
            Greater => None,
        }
    }

    /// Where the reader goes on that was moved past damaged records since it was last asked. Between two frames, which is
    /// where the next bytes begin.
    pub fn take_skipped(&mut self) -> Option<Offset> {
        self.skipped.take()
    }

    /// The offset of the damage that the reader stands at, if it got all before it: then it stands between two frames.
    pub fn damage_offset(&self) -> Option<Offset> {
        let bad = self.segment.bad_at(self.position)?;
        (bad.positions.start == self.position).then_some(bad.offsets.start)
    }
}

impl Segment {
    /// Bytes that readers may see, and the offset behind them, of one moment.
    pub(super) fn shown(&self) -> (u64, Offset) {
        *self.shown.lock()
    }

    /// Position of the first frame whose timestamp is `timestamp` or later; else, as the error, the end of those that
    /// were looked at. Passes damaged records by.
    fn first_since(&self, timestamp: u64) -> io::Result<Result<u64, u64>> {
        // In this order: once a segment is seen sealed, its end is final.
        let sealed = self.is_sealed();
        let end = self.end();
        if self.newest.get().is_some_and(|newest| *newest < timestamp) {
            return Ok(Err(end));
        }
        let start =
            |position, first| Walk::new(&*self.file, position..end, first, Offsets::Growing);
        let mut walk = start(0, self.base_offset);
        let mut newest = 0;
        loop {
            if let Some(bad) = self.bad_at(walk.position()) {
                walk = start(bad.positions.end.min(end), bad.offsets.end);
            }
            match walk.next()? {
                Step::Frame(position, header) if header.timestamp >= timestamp => {
                    return Ok(Ok(position));
                }
                Step::Frame(_, header) => newest = newest.max(header.timestamp),
                Step::End => break,
                Step::Damaged(_) => self.meet_damage(walk.position()),
            }
        }
        if sealed {
            // Another thread has found the same.
            let _ = self.newest.set(newest);
        }
        Ok(Err(end))
    }
}
