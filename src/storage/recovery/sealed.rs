//! Opening a segment that is followed by another.

use std::io;
use std::sync::Arc;

use super::{
    Checksums, File, Frames, Mark, Marked, OffsetIndex, Open, Recovery, Segment, Survey,
    bad_blocks, believed, coverage, index, index_agrees, mark_found, mark_known, segment, survey,
    tell_lost, unpaced,
};
use crate::model::Offset;
use crate::storage::compare::is_medium_error;
use crate::storage::damage::BadRange;
use crate::storage::forgiving::Forgiving;

/// The mark of a sealed segment of `len` bytes that has lost it: an older one is left, and the entries behind that one speak
/// for all the rest.
pub(in crate::storage) fn lost_mark(
    file: &dyn File,
    sums: &Checksums,
    older: &Mark,
    len: u64,
    next_offset: Offset,
) -> io::Result<Option<Mark>> {
    if older.position >= len {
        return Ok(None);
    }
    let covered = match coverage(file, sums, older, len) {
        Err(error) if is_medium_error(&error) => return Ok(None),
        covered => covered?,
    };
    let whole = covered.end == len && covered.rot.is_none();
    Ok(whole.then(|| Mark { at_ns: older.at_ns, ..sums.mark_of_entries(len, next_offset) }))
}

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
        let mark = match sums.as_ref().map(|sums| (sums, sums.marked())) {
            Some((sums, Marked::Upto(mark))) => {
                let latest = self.latest(base, &*file, sums, mark, len, next_base)?;
                Some(latest).filter(|mark| mark.position > 0 || len == 0)
            }
            // The checksums are made anew in the background.
            _ => None,
        };
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
            Self::tell_length(&segment, len, mark.position, next_base);
        }
        if let Some(sums) = sums {
            segment.date(sums.began_ns(), mark.map_or(0, |mark| mark.at_ns));
            mark_known(&segment, &sums, len);
        }
        segment.set_note(note);
        Ok(segment)
    }

    /// The mark of the last flush, made anew if it is gone.
    fn latest(
        &self,
        base: Offset,
        file: &dyn File,
        sums: &Checksums,
        mark: Mark,
        len: u64,
        next_base: Offset,
    ) -> io::Result<Mark> {
        let Some(latest) = lost_mark(file, sums, &mark, len, next_base)? else { return Ok(mark) };
        let segment = self.path(base, segment::SUM);
        tracing::warn!(segment = %segment.display(), "the last mark of the checksums is gone; it is made anew");
        if let Err(error) = sums.sync_with(latest) {
            tracing::warn!(segment = %segment.display(), %error, "the mark is not written down");
        }
        Ok(latest)
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
        let walked = Forgiving(Arc::clone(&file));
        // A segment has a mark before it is followed by another: without one, something is wrong.
        let marked = known.mark.is_some() || known.sums.is_none();
        if marked
            && let Ok(index) = OffsetIndex::open_sealed(&*self.env.disk, &idx, len)
            && let Some(next_offset) = index_agrees(&walked, &index, base, len)?
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
        let bad = match (known.sums, known.mark) {
            (sums @ Some(_), None) => believed(&*file, sums, len, unpaced)?.1,
            (sums, mark) => bad_blocks(&*file, sums, mark)?,
        };
        let next_offset = known.mark.map_or(next_base, |mark| mark.next_offset).min(next_base);
        let no_index = OffsetIndex::none();
        let frames = Frames { file: &walked, index: &no_index, base, end: len, next_offset };
        let found = survey(&frames, bad, unpaced)?;
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
    fn tell_length(segment: &Segment, len: u64, flushed: u64, next_base: Offset) {
        tracing::error!(
            segment = %segment.path(segment::WAL).display(), len, flushed,
            "the file of a sealed segment has another length than was flushed; compaction leaves it alone until \
             `hermitmq log repair --quarantine` has taken out what is damaged"
        );
        let next = segment.next_offset();
        if len < flushed {
            tell_lost(segment, next_base);
        } else if segment.bad_at(flushed).is_none() {
            segment.mark_bad(&BadRange { positions: flushed..len, offsets: next..next });
        }
    }
}
