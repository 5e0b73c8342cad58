//! Opening a segment that is followed by another.

use std::io;
use std::sync::Arc;

use super::{
    Checksums, File, Frames, Mark, Marked, OffsetIndex, Open, Recovery, Segment, Survey,
    bad_blocks, index, index_agrees, mark_found, mark_known, segment, survey,
};
use crate::model::Offset;
use crate::storage::damage::BadRange;

/// What the checksums say, if there are some, and where the next segment begins.
struct Known<'a> {
    sums: Option<&'a Checksums>,
    mark: Option<&'a Mark>,
    next_base: Offset,
    /// Compaction has left it so: its last records are not missing before this offset.
    covers: Offset,
}

impl Recovery<'_> {
    /// A sealed segment is flushed whole before its successor has a name. So it is taken as it is, if its length and the
    /// two ends of its index are what they should be.
    pub(super) fn sealed(&self, base: Offset, next_base: Offset) -> io::Result<Segment> {
        let file = self.env.disk.open(&self.path(base, segment::WAL), Open::Existing)?;
        let len = file.len()?;
        let sums = self.open_sums(base, len)?;
        let mark = sums.as_ref().and_then(|sums| match sums.marked() {
            Marked::Upto(mark) if mark.position > 0 || len == 0 => Some(mark),
            // The checksums are made anew in the background.
            Marked::Upto(_) | Marked::Damaged => None,
        });
        let note = sums.as_ref().and_then(Checksums::note).filter(|_| mark.is_some());
        if let Some(sums) = sums.as_ref().filter(|_| note.is_none()) {
            // One that was torn, or of a log that nobody knows: what is there is compacted again.
            sums.set_note(None);
        }
        let covers = note.map_or(base, |note| note.covers);
        let known = Known { sums: sums.as_ref(), mark: mark.as_ref(), next_base, covers };
        let (segment, found) = self.sealed_frames(base, file, len, &known)?;
        mark_found(&segment, sums.as_ref(), &found);
        if let Some(mark) = mark.filter(|mark| mark.position != len) {
            self.tell_length(&segment, len, mark.position);
        }
        if let Some(sums) = sums {
            segment.date(sums.began_ns(), mark.map_or(0, |mark| mark.at_ns));
            mark_known(&segment, &sums, len);
        }
        segment.set_note(note);
        Ok(segment)
    }

    fn sealed_frames(
        &self,
        base: Offset,
        file: Arc<dyn File>,
        len: u64,
        known: &Known<'_>,
    ) -> io::Result<(Segment, Survey)> {
        let next_base = known.next_base;
        let idx = self.path(base, segment::IDX);
        if let Ok(index) = OffsetIndex::open_sealed(&*self.env.disk, &idx, len)
            && let Some(next_offset) = index_agrees(&*file, &index, base, len)?
            && next_offset <= next_base
        {
            let next_offset = next_offset.max(known.covers.min(next_base));
            self.tell_gap(base, next_offset, next_base);
            return Ok((
                self.segment(base, file, index, len, next_offset, true),
                Survey::default(),
            ));
        }
        // Something is wrong: now every byte counts.
        let bad = bad_blocks(&*file, known.sums, known.mark)?;
        let next_offset = known.mark.map_or(next_base, |mark| mark.next_offset).min(next_base);
        let no_index = OffsetIndex::none();
        let frames = Frames { file: &*file, index: &no_index, base, end: len, next_offset };
        let found = survey(&frames, bad)?;
        // A damaged segment comes here at every start; its index was made right at the first.
        let index = if index::holds(&*self.env.disk, &idx, &found.entries)
            || self.replace_index(base, &found.entries)?
        {
            OffsetIndex::open_sealed(&*self.env.disk, &idx, len)?
        } else {
            OffsetIndex::none()
        };
        let next_offset = found.next_offset.max(known.covers.min(next_base));
        if found.torn(len).is_none() {
            self.tell_gap(base, next_offset, next_base);
        }
        let segment = self.segment(base, file, index, len, next_offset, true);
        Ok((segment, found))
    }

    /// Somebody has changed the file.
    fn tell_length(&self, segment: &Segment, len: u64, flushed: u64) {
        tracing::error!(
            segment = %segment.path(segment::WAL).display(), len, flushed,
            "the file of a sealed segment has another length than was flushed"
        );
        if len > flushed && segment.bad_at(flushed).is_none() {
            let next = segment.next_offset();
            segment.mark_bad(&BadRange { positions: flushed..len, offsets: next..next });
        } else if segment.bad_ranges().is_empty() {
            self.env.metrics.segments_damaged.inc();
        }
    }
}
