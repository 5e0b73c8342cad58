//! Opening the segments of a log: every start goes through here, clean or not.
//!
//! Sealed segments are taken as they are once their index agrees with them; the last segment is walked whole. Damage
//! that reaches the end of the last segment is a torn tail: it is cut, and the bytes cut are kept beside it. Damage in
//! a sealed segment cuts nothing: what stands before it is served, and readers are stopped there.
//!
//! Segments with a provisional name follow on the last one if it ends where they begin: then nothing is missing between
//! them. Otherwise a power cut has lost what was, and they are set aside.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk::{File, Open};
use super::error::OpenError;
use super::index::{self, COVERAGE_BYTES, IndexEntry, IndexPolicy, OffsetIndex};
use super::log::{Environment, LogOptions};
use super::segment::{self, Segment, SegmentState};
use super::walk::{Damage, Offsets, Step, Walk};
use crate::model::Offset;

/// The segments of a log, oldest first; the last one is active.
pub(super) struct Recovered {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) next_offset: Offset,
    /// Behind the last segment's end there are bytes that could not be cut.
    pub(super) read_only: bool,
}

/// The last segment.
struct Active {
    segment: Segment,
    next_offset: Offset,
    /// Nothing is behind its end.
    whole: bool,
}

/// What recovery works with.
pub(super) struct Recovery<'a> {
    pub(super) env: &'a Environment,
    pub(super) dir: &'a Path,
    pub(super) options: LogOptions,
}

impl Recovery<'_> {
    /// Opens all segments. An empty directory gets its first one.
    pub(super) fn run(&self) -> Result<Recovered, OpenError> {
        let mut bases = self.bases(segment::WAL).map_err(OpenError::at(self.dir))?;
        let last = bases.pop().unwrap_or(0);
        let mut segments = Vec::with_capacity(bases.len() + 1);
        for (number, &base) in bases.iter().enumerate() {
            let next = bases.get(number + 1).copied().unwrap_or(last);
            let path = segment::path(self.dir, base, segment::WAL);
            segments.push(Arc::new(self.sealed(base, next).map_err(OpenError::at(path))?));
        }
        let path = segment::path(self.dir, last, segment::WAL);
        let mut active = self.active(last).map_err(OpenError::at(path))?;
        for base in self.bases(segment::PROVISIONAL).map_err(OpenError::at(self.dir))? {
            let path = segment::path(self.dir, base, segment::PROVISIONAL);
            let before = &active.segment;
            if !active.whole {
                // Left for the restart that has space.
                break;
            }
            if base != active.next_offset || base == before.base_offset {
                self.set_aside(base).map_err(OpenError::at(path))?;
                continue;
            }
            let next = self.follow(before, base).map_err(OpenError::at(path))?;
            segments.push(Arc::new(std::mem::replace(&mut active, next).segment));
        }
        let Active { segment, next_offset, whole } = active;
        segments.push(Arc::new(segment));
        Ok(Recovered { segments, next_offset, read_only: !whole })
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

    /// Makes a provisional segment the one after `before`, which ends where it begins.
    fn follow(&self, before: &Segment, base: Offset) -> io::Result<Active> {
        before.file.sync_data()?;
        let wal = segment::path(self.dir, base, segment::WAL);
        self.env.disk.rename(&segment::path(self.dir, base, segment::PROVISIONAL), &wal)?;
        self.env.disk.sync_dir(self.dir)?;
        before.seal();
        before.index.seal()?;
        self.active(base)
    }

    /// Keeps a provisional segment under a name that is no segment's.
    fn set_aside(&self, base: Offset) -> io::Result<()> {
        let path = segment::path(self.dir, base, segment::PROVISIONAL);
        let bytes = self.env.disk.open(&path, Open::Existing)?.len()?;
        let kept = self.unused_name(base)?;
        self.env.disk.rename(&path, &self.dir.join(&kept))?;
        self.env.disk.sync_dir(self.dir)?;
        self.env.metrics.torn_bytes.add(bytes);
        tracing::warn!(
            dir = %self.dir.display(), segment = base, bytes, kept,
            "segment set aside: records between it and the end of the log are lost"
        );
        Ok(())
    }

    fn sealed(&self, base: Offset, next_base: Offset) -> io::Result<Segment> {
        let file =
            self.env.disk.open(&segment::path(self.dir, base, segment::WAL), Open::Existing)?;
        let len = file.len()?;
        let idx = segment::path(self.dir, base, segment::IDX);
        if let Ok(index) = OffsetIndex::open_sealed(&*self.env.disk, &idx, len)
            && let Some(next_offset) = index_agrees(&*file, &index, base, len)?
            && next_offset <= next_base
        {
            self.tell_gap(base, next_offset, next_base);
            let state = SegmentState { end: len, sealed: true, damaged: false };
            return Ok(Segment::new(base, file, index, &state));
        }
        self.rebuild_sealed(base, next_base, file, len)
    }

    fn rebuild_sealed(
        &self,
        base: Offset,
        next_base: Offset,
        file: Arc<dyn File>,
        len: u64,
    ) -> io::Result<Segment> {
        let mut entries = Vec::new();
        let mut policy = IndexPolicy::default();
        let mut walk = Walk::new(&*file, 0..len, base, Offsets::Growing);
        let damage = loop {
            match walk.next()? {
                Step::Frame(position, header) if policy.wants(position) => {
                    entries.push(IndexEntry { offset: header.offset, position });
                }
                Step::Frame(..) => {}
                Step::End => break None,
                Step::Damaged(damage) => break Some(damage),
            }
        };
        let end = walk.position();
        let idx = segment::path(self.dir, base, segment::IDX);
        // A damaged segment comes here at every start; its index was made right at the first.
        let index = if index::holds(&*self.env.disk, &idx, &entries)
            || self.replace_index(base, &entries)?
        {
            OffsetIndex::open_sealed(&*self.env.disk, &idx, end)?
        } else {
            OffsetIndex::none()
        };
        if let Some(damage) = damage {
            self.env.metrics.segments_damaged.inc();
            tracing::error!(
                dir = %self.dir.display(), segment = base, position = end, len, %damage,
                "segment is damaged; readers are stopped there, nothing was removed"
            );
        } else {
            self.tell_gap(base, walk.next_offset(), next_base);
        }
        let state = SegmentState { end, sealed: true, damaged: damage.is_some() };
        Ok(Segment::new(base, file, index, &state))
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

    fn active(&self, base: Offset) -> io::Result<Active> {
        let file =
            self.env.disk.open(&segment::path(self.dir, base, segment::WAL), Open::Create)?;
        let len = file.len()?;
        let idx = segment::path(self.dir, base, segment::IDX);
        let found =
            OffsetIndex::open_active(&*self.env.disk, &idx, len, self.options.segment_bytes)?;
        let mut check = IndexCheck::new(&found);
        let mut walk = Walk::new(&*file, 0..len, base, Offsets::Exact);
        let damage = loop {
            match walk.next()? {
                Step::Frame(position, header) => check.visit(position, header.offset),
                Step::End => break None,
                Step::Damaged(damage) => break Some(damage),
            }
        };
        let (end, next_offset) = (walk.position(), walk.next_offset());
        let whole = match damage {
            Some(damage) => self.cut_tail(base, &*file, end..len, damage)?,
            None => true,
        };
        let index = if check.finish() {
            found
        } else {
            let entries = check.into_entries();
            drop(found);
            if self.replace_index(base, &entries)? {
                OffsetIndex::open_active(&*self.env.disk, &idx, end, self.options.segment_bytes)?
            } else {
                OffsetIndex::none()
            }
        };
        let state = SegmentState { end, sealed: false, damaged: false };
        Ok(Active { segment: Segment::new(base, file, index, &state), next_offset, whole })
    }

    /// Cuts the file to `torn.start`, after copying what is cut to a file beside it. `false` if there is no space for
    /// that: then nothing is cut.
    fn cut_tail(
        &self,
        base: Offset,
        file: &dyn File,
        torn: std::ops::Range<u64>,
        damage: Damage,
    ) -> io::Result<bool> {
        // The length is the same; what was reserved behind it may be what the copy needs.
        file.set_len(torn.end)?;
        let kept = self.unused_name(base)?;
        let path = self.dir.join(&kept);
        if let Err(error) = self.keep(file, torn.clone(), &path) {
            self.env.disk.remove_file(&path)?;
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(error);
            }
            tracing::error!(
                dir = %self.dir.display(), segment = base, position = torn.start, %damage, %error,
                "no space to keep the torn tail; the partition is read-only until a restart with some"
            );
            return Ok(false);
        }
        file.set_len(torn.start)?;
        file.sync_data()?;
        let bytes = torn.end - torn.start;
        self.env.metrics.torn_bytes.add(bytes);
        tracing::warn!(
            dir = %self.dir.display(), segment = base, position = torn.start, bytes, %damage, kept,
            "torn tail cut: the log ended in bytes that are not whole frames"
        );
        Ok(true)
    }

    /// Copies a range of a file to a new one, durably.
    fn keep(&self, file: &dyn File, range: std::ops::Range<u64>, path: &Path) -> io::Result<()> {
        let copy = self.env.disk.open(path, Open::Truncate)?;
        copy_range(file, range, &*copy)?;
        copy.sync_data()?;
        self.env.disk.sync_dir(self.dir)
    }

    /// `BASE.torn-N` with the first N that is free.
    fn unused_name(&self, base: Offset) -> io::Result<String> {
        let entries = self.env.disk.list(self.dir)?;
        let taken = |name: &String| entries.iter().any(|entry| entry.name == *name);
        let mut names = (1u64..).map(|n| format!("{base:020}.torn-{n}"));
        names.find(|name| !taken(name)).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// Writes an index anew. `false` if the disk is full: an index is worth no failed start.
    fn replace_index(&self, base: Offset, entries: &[IndexEntry]) -> io::Result<bool> {
        let idx = segment::path(self.dir, base, segment::IDX);
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

/// Compares an index with the frames of its log as they are walked, and collects what a new index would hold.
struct IndexCheck<'a> {
    index: &'a OffsetIndex,
    matched: usize,
    agrees: bool,
    policy: IndexPolicy,
    entries: Vec<IndexEntry>,
}

impl<'a> IndexCheck<'a> {
    fn new(index: &'a OffsetIndex) -> Self {
        let (policy, entries) = (IndexPolicy::default(), Vec::new());
        Self { index, matched: 0, agrees: true, policy, entries }
    }

    fn visit(&mut self, position: u64, offset: Offset) {
        if let Some(entry) = self.index.get(self.matched) {
            if entry.position == position {
                self.agrees &= entry.offset == offset;
                self.matched += 1;
            } else if entry.position < position {
                self.agrees = false;
            }
        }
        // Where the index has lost entries (a crash, a full disk), lookups would walk too far.
        self.agrees &= self.covers(position);
        if self.policy.wants(position) {
            self.entries.push(IndexEntry { offset, position });
        }
    }

    /// Whether the last matching entry is near enough to `position` for a lookup.
    fn covers(&self, position: u64) -> bool {
        let last = self.matched.checked_sub(1).and_then(|number| self.index.get(number));
        last.is_some_and(|entry| position - entry.position <= COVERAGE_BYTES)
    }

    /// Whether the index can be used as it is.
    fn finish(&self) -> bool {
        self.agrees && self.matched == self.index.len()
    }

    fn into_entries(self) -> Vec<IndexEntry> {
        self.entries
    }
}

fn copy_range(from: &dyn File, range: std::ops::Range<u64>, to: &dyn File) -> io::Result<()> {
    let mut buf = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buf.len());
        let read = from.read_full_at(&mut buf[..want], at)?;
        if read == 0 {
            break;
        }
        to.write_all_at(&buf[..read], at - range.start)?;
        at += read as u64;
    }
    Ok(())
}
