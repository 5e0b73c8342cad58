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
//! segment each), `provisional` (from one to the next), `survey` (walking frames past damage), `sums` (making checksums anew),
//! `torn` (cutting and keeping).

mod active;
mod leftovers;
mod provisional;
mod sealed;
mod sums;
mod survey;
mod torn;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::checksums::{BLOCK, Checksums, Mark, Marked};
use super::compare::compare;
use super::damage::{BadRange, Frames};
use super::disk::{File, Open};
use super::error::{OpenError, is_full};
use super::index::{self, COVERAGE_BYTES, IndexEntry, OffsetIndex};
use super::log::{Environment, LogOptions};
use super::replace;
use super::segment::{self, Segment, SegmentParts};
use super::walk::{Offsets, Step, Walk};
use super::writer::Settling;
use crate::model::Offset;

pub(super) use active::coverage;
pub(super) use sealed::lost_mark;
pub(super) use sums::{Build, believed, build as build_sums};
pub(super) use survey::{Survey, survey};
pub(super) use torn::{TORN, keep};

/// The segments of a log.
pub(super) struct Recovered {
    /// Oldest first.
    pub(super) sealed: Vec<Arc<Segment>>,
    pub(super) active: Active,
    /// The last of `sealed`, as many as are followed by a segment whose name is provisional, for want of space.
    pub(super) settling: VecDeque<Settling>,
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
        let at = OpenError::at(self.path(last, segment::WAL));
        let active = self.active(last, segment::WAL).map_err(at)?;
        let mut log = Recovered { sealed, active, settling: VecDeque::new() };
        for base in self.bases(segment::PROVISIONAL).map_err(OpenError::at(&**self.dir))? {
            let at = OpenError::at(self.path(base, segment::PROVISIONAL));
            if !log.active.whole {
                // Left for the restart that has space.
                break;
            }
            self.follow(&mut log, base).map_err(at)?;
        }
        let Active { rolls, whole, next_offset, .. } = log.active;
        if rolls && whole && next_offset > log.active.segment.base_offset {
            let at = OpenError::at(self.path(next_offset, segment::WAL));
            match self.roll(&mut log) {
                Err(error) if is_full(&error) => {
                    tracing::error!(
                        dir = %self.dir.display(), offset = next_offset, %error,
                        "no space for the next segment; the partition is read-only until a restart with some"
                    );
                    log.active.whole = false;
                }
                rolled => rolled.map_err(at)?,
            }
        }
        Ok(log)
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
            Err(error) if is_full(&error) => {
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
        (Some(sums), Some(mark)) => Ok(compare(file, sums, 0, mark, unpaced)?.bad),
        _ => Ok(Vec::new()),
    }
}

/// A start waits for what it reads.
#[expect(clippy::unnecessary_wraps, reason = "it stands for those that end what they pace")]
fn unpaced(_position: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

/// What was flushed behind the end of a segment is gone: it counts as damaged from here on, and compaction leaves it alone,
/// although nothing in it looks wrong.
fn tell_lost(segment: &Segment, next: Offset) {
    let (end, next_offset) = (segment.end(), segment.next_offset());
    segment
        .mark_bad(&BadRange { positions: end..end, offsets: next_offset..next.max(next_offset) });
}

/// Keeps readers from what was found damaged at some time before.
pub(super) fn mark_known(segment: &Segment, sums: &Checksums, end: u64) {
    for bad in sums.known_bad(end) {
        segment.mark_bad(&segment.frames().over(&bad));
    }
}

/// Keeps readers from what walking the frames has found, now and, where there are checksums, after every start to come.
fn mark_found(segment: &Segment, sums: Option<&Checksums>, found: &Survey) {
    found.bad.iter().for_each(|bad| segment.mark_bad(bad));
    if let Some(sums) = sums {
        let blocks = found.blocks.iter().flat_map(|bad| bad.start / BLOCK..bad.end.div_ceil(BLOCK));
        if let Err(error) = sums.put_all_bad(blocks, segment.end()) {
            let segment = segment.path(segment::SUM);
            tracing::warn!(segment = %segment.display(), %error, "damage is not written down");
        }
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
