//! Opening the segments of a log: every start goes through here, clean or not.
//!
//! What was flushed is taken as it is: its checksums say later, piece by piece, whether it still is what it was. What was
//! written behind that is compared with its checksums now. Where they end, or where they disagree, is a torn tail: it is
//! cut, and the bytes cut are kept beside it. Nothing that was flushed is ever cut.
//!
//! A log without checksums of its own was written by the original (or lost them): its frames are walked instead, and
//! it gets some.
//!
//! Segments with a provisional name follow on the last one if it ends where they begin: then nothing is missing between
//! them. Otherwise a power cut has lost what was, and they are set aside.
//!
//! Reading order: this file, `leftovers` (what an end in the middle of something has left), `active` and `sealed` (one
//! segment each), `survey` (walking frames past damage), `sums` (making checksums anew), `torn` (cutting and keeping).

mod active;
mod leftovers;
mod sealed;
mod sums;
mod survey;
mod torn;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::checksums::{BLOCK, Checksums, Mark, Marked};
use super::compare::compare;
use super::damage::Frames;
use super::disk::{File, Open};
use super::error::OpenError;
use super::index::{self, COVERAGE_BYTES, IndexEntry, OffsetIndex};
use super::log::{Environment, LogOptions};
use super::replace;
use super::segment::{self, Segment, SegmentParts};
use super::walk::{Offsets, Step, Walk};
use crate::model::Offset;

pub(super) use active::coverage;
pub(super) use sums::{Build, build as build_sums};
pub(super) use survey::{Survey, survey};
pub(super) use torn::{TORN, keep};

/// The segments of a log.
pub(super) struct Recovered {
    /// Oldest first.
    pub(super) sealed: Vec<Arc<Segment>>,
    pub(super) active: Active,
}

/// The last segment.
pub(super) struct Active {
    pub(super) segment: Segment,
    /// `None` if there is no space for them.
    pub(super) sums: Option<Checksums>,
    /// Checksum of the last block so far.
    pub(super) tail: u32,
    pub(super) next_offset: Offset,
    /// Bytes that are known to be durable, and marked so.
    pub(super) flushed: u64,
    /// Nothing is behind its end.
    pub(super) whole: bool,
    /// Flushed records are missing or damaged at its end: what comes next begins a segment, so that offsets stay what they
    /// were and what is damaged stays apart.
    pub(super) rolls: bool,
}

/// What recovery works with.
pub(super) struct Recovery<'a> {
    pub(super) env: &'a Environment,
    pub(super) dir: &'a Arc<Path>,
    pub(super) options: LogOptions,
}

impl Recovery<'_> {
    /// Opens all segments. An empty directory gets its first one.
    pub(super) fn run(&self) -> Result<Recovered, OpenError> {
        self.finish_replacements().map_err(OpenError::at(&**self.dir))?;
        self.remove_merged().map_err(OpenError::at(&**self.dir))?;
        let mut bases = self.bases(segment::WAL).map_err(OpenError::at(&**self.dir))?;
        self.sweep(bases.first().copied()).map_err(OpenError::at(&**self.dir))?;
        let last = bases.pop().unwrap_or(0);
        let mut sealed = Vec::with_capacity(bases.len() + 1);
        for (number, &base) in bases.iter().enumerate() {
            let next = bases.get(number + 1).copied().unwrap_or(last);
            let at = OpenError::at(self.path(base, segment::WAL));
            sealed.push(Arc::new(self.sealed(base, next).map_err(at)?));
        }
        let mut active = self.active(last).map_err(OpenError::at(self.path(last, segment::WAL)))?;
        for base in self.bases(segment::PROVISIONAL).map_err(OpenError::at(&**self.dir))? {
            let at = OpenError::at(self.path(base, segment::PROVISIONAL));
            if !active.whole {
                // Left for the restart that has space.
                break;
            }
            if let Some(next) = self.follow(&active, base).map_err(at)? {
                sealed.push(Arc::new(std::mem::replace(&mut active, next).segment));
            }
        }
        if active.rolls && active.whole && active.next_offset > active.segment.base_offset {
            let base = active.next_offset;
            let next = self.active(base).map_err(OpenError::at(self.path(base, segment::WAL)))?;
            active.segment.seal();
            self.tell_gap(active.segment.base_offset, active.segment.next_offset(), base);
            sealed.push(Arc::new(std::mem::replace(&mut active, next).segment));
        }
        Ok(Recovered { sealed, active })
    }

    fn path(&self, base: Offset, extension: &str) -> std::path::PathBuf {
        segment::path(self.dir, base, extension)
    }

    /// Base offsets of the segments with this extension, ascending.
    fn bases(&self, extension: &str) -> io::Result<Vec<Offset>> {
        let entries = self.env.disk.list(self.dir)?;
        let mut bases: Vec<_> = entries
            .iter()
            .filter(|entry| !entry.is_dir)
            .filter_map(|entry| segment::parse_name(&entry.name, extension))
            .collect();
        bases.sort_unstable();
        Ok(bases)
    }

    /// Makes a provisional segment the one after `before`, if it is; sets it aside otherwise.
    fn follow(&self, before: &Active, base: Offset) -> io::Result<Option<Active>> {
        // A power cut can leave a file whose checksums it has taken: then nobody knows what is in it.
        let is_next = base == before.next_offset && base != before.segment.base_offset;
        if !is_next || self.open_sums(base, 0)?.is_none() {
            self.set_aside(base)?;
            return Ok(None);
        }
        before.segment.file.sync_data()?;
        if let Some(sums) = before.sums.as_ref().filter(|_| !before.rolls) {
            let (position, next_offset) = (before.segment.end(), before.next_offset);
            let at_ns = self.env.clock.now_ns();
            let partial = partial(position, before.tail);
            sums.sync_with(Mark { position, next_offset, at_ns, partial })?;
            before.segment.touch(at_ns);
            sums.seal(position)?;
        }
        let wal = self.path(base, segment::WAL);
        self.env.disk.sync_dir(self.dir)?;
        self.env.disk.rename(&self.path(base, segment::PROVISIONAL), &wal)?;
        self.env.disk.sync_dir(self.dir)?;
        before.segment.seal();
        before.segment.index.seal()?;
        self.active(base).map(Some)
    }

    fn open_sums(&self, base: Offset, log_len: u64) -> io::Result<Option<Checksums>> {
        let path = self.path(base, segment::SUM);
        Checksums::open(&*self.env.disk, &path, base, self.options.segment_bytes, log_len)
    }

    fn segment(
        &self,
        base_offset: Offset,
        file: Arc<dyn File>,
        index: OffsetIndex,
        end: u64,
        next_offset: Offset,
        sealed: bool,
    ) -> Segment {
        let (dir, metrics) = (Arc::clone(self.dir), Arc::clone(&self.env.metrics));
        let now_ns = self.env.clock.now_ns();
        let parts = SegmentParts {
            base_offset,
            dir,
            file,
            index,
            end,
            next_offset,
            sealed,
            now_ns,
            metrics,
        };
        Segment::new(parts)
    }

    /// Says that offsets are missing between a segment and the next one. Compaction does that, and so does losing the end
    /// of a file: readers go on behind the gap either way.
    fn tell_gap(&self, base: Offset, end: Offset, next: Offset) {
        if end < next {
            self.env.metrics.offset_gaps.inc();
            tracing::warn!(
                dir = %self.dir.display(), segment = base, from = end, to = next,
                "offsets are missing between two segments; readers skip them"
            );
        }
    }

    /// Writes an index anew. `false` if the disk is full: an index is worth no failed start.
    fn replace_index(&self, base: Offset, entries: &[IndexEntry]) -> io::Result<bool> {
        let idx = self.path(base, segment::IDX);
        match index::replace(&*self.env.disk, &idx, entries) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(index = %idx.display(), %error, "no offset index; lookups walk the segment");
                return Ok(false);
            }
            result => result?,
        }
        self.env.metrics.indexes_rebuilt.inc();
        tracing::info!(index = %idx.display(), entries = entries.len(), "offset index rebuilt");
        Ok(true)
    }
}

/// The blocks of what was flushed that are not what they were.
fn bad_blocks(
    file: &dyn File,
    sums: Option<&Checksums>,
    mark: Option<&Mark>,
) -> io::Result<Vec<Range<u64>>> {
    match (sums, mark) {
        (Some(sums), Some(mark)) => Ok(compare(file, sums, 0, mark, |_, _| Ok(()))?.bad),
        _ => Ok(Vec::new()),
    }
}

/// Keeps readers from what was found damaged at some time before.
fn mark_known(segment: &Segment, sums: &Checksums, end: u64) {
    for bad in sums.known_bad(end) {
        segment.mark_bad(&segment.frames().over(&bad));
    }
}

/// Keeps readers from what walking the frames has found, now and, where there are checksums, after every start to come.
fn mark_found(segment: &Segment, sums: Option<&Checksums>, found: &Survey) {
    found.bad.iter().for_each(|bad| segment.mark_bad(bad));
    if let Some(sums) = sums {
        let blocks = found.blocks.iter().flat_map(|bad| bad.start / BLOCK..bad.end.div_ceil(BLOCK));
        blocks.for_each(|block| sums.put_bad(block));
    }
}

/// What a mark says of the last block of a log of `position` bytes.
fn partial(position: u64, tail: u32) -> u32 {
    if position.is_multiple_of(BLOCK) { 0 } else { tail }
}

/// The offset behind a sealed segment, if its index fits its log: it begins at the first frame, and walking on from its last entry,
/// which is near the end, ends exactly at the end of the file.
fn index_agrees(
    file: &dyn File,
    index: &OffsetIndex,
    base: Offset,
    len: u64,
) -> io::Result<Option<Offset>> {
    let (Some(first), Some(last)) = (index.get(0), index.last()) else {
        return Ok((len == 0).then_some(base));
    };
    let mut head = Walk::new(file, 0..len, base, Offsets::Growing).short();
    if !matches!(head.next()?, Step::Frame(_, header) if header.offset == first.offset) {
        return Ok(None);
    }
    let mut tail = Walk::new(file, last.position..len, last.offset, Offsets::Growing).short();
    if !matches!(tail.next()?, Step::Frame(_, header) if header.offset == last.offset) {
        return Ok(None);
    }
    loop {
        match tail.next()? {
            // An index that lost its end: every lookup behind it would walk that far.
            Step::Frame(position, _) if position - last.position > COVERAGE_BYTES => {
                return Ok(None);
            }
            Step::Frame(..) => {}
            Step::End => return Ok(Some(tail.next_offset())),
            Step::Damaged(_) => return Ok(None),
        }
    }
}
