//! Where a reader stands, in offsets and in times: for what it is told beside the records.

use std::io;
use std::sync::Arc;

use super::durability::OnCorruption;
use super::error::LocateError;
use super::index::IndexEntry;
use super::log::{Cursor, Log};
use super::segment::Segment;
use super::walk::Step;
use crate::model::Offset;
use crate::record::Header;

/// A record whose time is further ahead of the machine's clock than this, in ns, has it from its sender, not from a broker
/// whose clock was put back since: a day.
const STAMP_AHEAD_MAX: u64 = 24 * 3600 * 1_000_000_000;

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
                return self.offset_before(cursor);
            }
            if !sealed || !self.next_segment(cursor)? {
                return Ok(next_offset);
            }
        }
    }

    fn offset_before(&self, cursor: &Cursor) -> Result<Offset, LocateError> {
        let Cursor { segment, position, .. } = cursor;
        let damaged = LocateError::Damaged { segment: segment.base_offset, position: *position };
        if let Some(bad) = segment.bad_at(*position) {
            let skips = self.options.get().on_corruption == OnCorruption::Skip;
            return if skips { Ok(bad.offsets.end) } else { Err(damaged) };
        }
        match segment.frames().walk(*position, segment.base_offset).short().next()? {
            Step::Frame(_, header) => Ok(header.offset),
            Step::End | Step::Damaged(_) => {
                segment.meet_damage(*position);
                Err(damaged)
            }
        }
    }

    /// A cursor at the first record whose timestamp is `timestamp` or later; at the log end if there is none.
    ///
    /// Where the broker sets the timestamps, the index leads there: a few reads. (Records that carry their senders' time,
    /// from before that was so, are taken to be in order too.)
    ///
    /// Where senders set them, they come in any order, so no search by halves finds the first one: the frames' headers are
    /// read from the log start on. Of a sealed segment the newest timestamp is remembered, so each is read to its end once,
    /// and later lookups pass it by. Reads the disk, much of it the first time.
    pub fn locate_time(&self, timestamp: u64) -> Result<Cursor, LocateError> {
        let mut segments = self.segments.read().clone();
        if self.options.stamps() {
            let later = segments.partition_point(|segment| segment.begins_before(timestamp));
            segments.drain(..later.saturating_sub(1));
        }
        let ordered = self.options.stamps();
        let mut last = None;
        for segment in segments {
            let from = if ordered { segment.last_before(timestamp) } else { None };
            let found = segment.first_since(timestamp, from)?;
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

impl Log {
    /// The time of the last record, below which the broker's times do not go; 0 if there is none, or it is too far ahead of
    /// the machine's clock to be one of them. Reads the disk.
    pub(super) fn last_stamp(&self) -> u64 {
        let segments = self.segments.read().clone();
        let last = segments.iter().rev().find_map(|segment| segment.last_time()).unwrap_or(0);
        let ahead = last.saturating_sub(self.env.clock.wall_ns());
        if ahead > STAMP_AHEAD_MAX { 0 } else { last }
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

    /// Bytes to a place further on; 0 at or behind it, `None` if it is in a later segment. Where compaction has put another
    /// segment in the place's, that one's end is the place.
    pub fn distance_to(&self, place: &Self) -> Option<u64> {
        if Arc::ptr_eq(&self.segment, &place.segment) {
            return Some(place.position.saturating_sub(self.position));
        }
        if self.segment.base_offset > place.segment.base_offset {
            return Some(0);
        }
        let (end, next_offset) = self.segment.shown();
        (next_offset > place.segment.base_offset).then(|| end.saturating_sub(self.position))
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
    ///
    /// Begins at `from`, where a frame with an earlier timestamp stands.
    fn first_since(
        &self,
        timestamp: u64,
        from: Option<IndexEntry>,
    ) -> io::Result<Result<u64, u64>> {
        // In this order: once a segment is seen sealed, its end is final.
        let sealed = self.is_sealed();
        let frames = self.frames();
        let end = frames.end;
        if self.newest.get().is_some_and(|newest| *newest < timestamp) {
            return Ok(Err(end));
        }
        let (position, first) =
            from.map_or((0, self.base_offset), |from| (from.position, from.offset));
        let mut walk = frames.walk(position, first);
        let mut newest = 0;
        loop {
            if let Some(bad) = self.bad_at(walk.position()) {
                walk = frames.walk(bad.positions.end.min(end), bad.offsets.end);
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
        if sealed && from.is_none() {
            // Another thread has found the same.
            let _ = self.newest.set(newest);
        }
        Ok(Err(end))
    }

    /// Whether its first record is from before this time. Of one that cannot be read it is not known: the search begins
    /// before it.
    fn begins_before(&self, timestamp: u64) -> bool {
        // One that was compacted may begin with a later offset than its name says.
        self.end() > 0
            && self.frame_at(0, self.base_offset).is_some_and(|first| first.timestamp < timestamp)
    }

    /// The timestamp of its last good frame; `None` if there is none.
    fn last_time(&self) -> Option<u64> {
        let end = self.end();
        let count = self.index.count_before(end);
        let (mut position, mut first) = count
            .checked_sub(1)
            .and_then(|last| self.index.get(last))
            .map_or((0, self.base_offset), |entry| (entry.position, entry.offset));
        let mut time = None;
        while let Some(header) = self.frame_at(position, first) {
            time = Some(header.timestamp);
            position += header.frame_len();
            first = header.offset + u64::from(header.records());
        }
        time
    }

    /// The last index entry of a frame from before this time, if timestamps never go back.
    fn last_before(&self, timestamp: u64) -> Option<IndexEntry> {
        if !self.index.is_whole() {
            return None;
        }
        let (mut low, mut high) = (0, self.index.count_before(self.end()));
        while low < high {
            let middle = usize::midpoint(low, high);
            // Where it cannot be read, an earlier one has to do.
            let time = self.index.get(middle).and_then(|entry| self.time_at(entry));
            if time.is_some_and(|time| time < timestamp) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1).and_then(|last| self.index.get(last))
    }

    /// The timestamp of the frame that the index lists there; `None` if it is not there, or is damaged.
    fn time_at(&self, entry: IndexEntry) -> Option<u64> {
        let header = self.frame_at(entry.position, entry.offset)?;
        (header.offset == entry.offset).then_some(header.timestamp)
    }

    /// The header of the frame at a position, of which the offset is `first` or larger; `None` if it is damaged.
    fn frame_at(&self, position: u64, first: Offset) -> Option<Header> {
        let frames = self.frames();
        if position >= frames.end || self.bad_at(position).is_some() {
            return None;
        }
        match frames.walk(position, first).short().next() {
            Ok(Step::Frame(_, header)) => Some(header),
            _ => None,
        }
    }
}
