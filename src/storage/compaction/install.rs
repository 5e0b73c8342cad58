//! The moment in which a segment takes the place of those it was made of.

use std::io;
use std::sync::Arc;

use super::output::{Done, discard};
use super::pass::Group;
use super::source::Source;
use crate::storage::checksums::{Checksums, Note};
use crate::storage::log::Log;
use crate::storage::replace;
use crate::storage::segment::{self, Segment, SegmentParts};

impl Log {
    /// Puts a segment in the place of its sources, on the disk and for readers. False, with nothing done, if retention has
    /// taken one of them or damage was found in one meanwhile.
    ///
    /// After an error it may be in place, and its files not: then they are put there before anything else is done.
    pub(super) fn install(&self, group: &Group, done: &Done) -> io::Result<bool> {
        let disk = &*self.env.disk;
        let _scrubbing = self.scrubbing.lock();
        let mut unfinished = self.unfinished.lock();
        let gone =
            |segment: &Arc<Segment>| segment.is_deleted() || !segment.bad_ranges().is_empty();
        if group.sources.iter().any(gone) {
            discard(disk, &self.dir, done.base);
            return Ok(false);
        }
        if let Err(error) = replace::decide(disk, &self.dir, done.base) {
            discard(disk, &self.dir, done.base);
            return Err(error);
        }
        let finished = replace::finish(disk, &self.dir, done.base);
        unfinished.replacement = finished.is_err().then_some(done.base);
        let index = done.index(disk);
        let segment = Segment::new(SegmentParts {
            base_offset: done.base,
            dir: Arc::clone(&self.dir),
            file: Arc::clone(&done.file),
            index,
            end: done.len,
            next_offset: done.note.covers,
            sealed: true,
            now_ns: done.at_ns,
            metrics: Arc::clone(&self.env.metrics),
        });
        segment.date(done.began_ns, done.at_ns);
        segment.set_note(Some(done.note));
        self.swap(&group.sources, &group.ends, segment);
        unfinished.doomed.extend(group.sources.iter().skip(1).map(Arc::clone));
        finished?;
        self.finish_files(&mut unfinished)?;
        Ok(true)
    }

    /// Readers find the new segment from here on. Those who are in an old one read on to its end.
    fn swap(&self, sources: &[Arc<Segment>], ends: &[u64], segment: Segment) {
        let segment = Arc::new(segment);
        let mut segments = self.segments.write();
        let first = segments.partition_point(|other| other.base_offset < segment.base_offset);
        let replaced = first..first + sources.len();
        debug_assert!(
            segments[replaced.clone()].iter().zip(sources).all(|(a, b)| Arc::ptr_eq(a, b)),
            "what is replaced is in the list"
        );
        segments.splice(replaced, [Arc::clone(&segment)]);
        for (source, &end) in sources.iter().zip(ends) {
            source.replaced_by(&segment, end);
        }
    }

    /// Has a segment that is left alone compacted as if it never was, once it can be.
    pub(super) fn forget_note(&self, segment: &Segment) -> io::Result<()> {
        let _unfinished = self.unfinished.lock();
        if segment.is_deleted() || segment.note().is_none() {
            return Ok(());
        }
        let path = segment.path(segment::SUM);
        let (disk, len) = (&*self.env.disk, segment.end());
        if let Some(sums) = Checksums::open(disk, &path, segment.base_offset, 0, len)? {
            sums.set_note(None);
            sums.sync()?;
        }
        segment.set_note(None);
        Ok(())
    }

    /// Notes that a segment was compacted and lost nothing.
    pub(super) fn note_compacted(&self, source: &Source, note: Note) -> io::Result<()> {
        let segment = &source.segment;
        let _unfinished = self.unfinished.lock();
        if segment.is_deleted() || segment.note() == Some(note) {
            return Ok(());
        }
        source.set_note(note)?;
        segment.set_note(Some(note));
        Ok(())
    }
}
