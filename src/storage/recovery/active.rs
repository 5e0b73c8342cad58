//! Opening the last segment.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::{
    Active, Build, Checksums, File, Frames, Mark, Marked, OffsetIndex, Offsets, Open, Recovery,
    Step, Survey, Walk, bad_blocks, believed, build_sums, index_agrees, mark_found, mark_known,
    partial, segment, survey, tell_lost, unpaced,
};
use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::storage::checksums::{BLOCK, Entry};
use crate::storage::compare::is_medium_error;
use crate::storage::crc;
use crate::storage::error::is_full;
use crate::storage::forgiving::Forgiving;
use crate::storage::index::{IndexEntry, IndexPolicy};

/// How far the bytes behind the last flush are those that were written.
pub(in crate::storage) struct Coverage {
    pub(in crate::storage) end: u64,
    /// A block that was flushed in part, and is damaged there.
    pub(in crate::storage) rot: Option<Range<u64>>,
}

impl Recovery<'_> {
    /// Opens the segment that is appended to, under one of the names that it may have; begins it if it is not there.
    pub(super) fn active(&self, base: Offset, extension: &str) -> io::Result<Active> {
        let wal = self.path(base, extension);
        let file = match self.env.disk.open(&wal, Open::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.begin(base, &wal);
            }
            file => file?,
        };
        let len = file.len()?;
        let Some(sums) = self.open_sums(base, len)? else {
            return self.adopt(base, file, len, None);
        };
        match sums.marked() {
            Marked::Upto(mark) => self.resume(base, file, len, sums, mark),
            Marked::Damaged => {
                tracing::warn!(
                    segment = %wal.display(),
                    "checksums are damaged; they are made anew from what is there"
                );
                self.adopt(base, file, len, Some(&sums))
            }
        }
    }

    /// A new segment. Its checksums are there before it is: a log without is somebody else's.
    fn begin(&self, base: Offset, wal: &Path) -> io::Result<Active> {
        let disk = &*self.env.disk;
        let (path, now_ns) = (self.path(base, segment::SUM), self.env.clock.now_ns());
        let sums = Checksums::create(disk, &path, base, now_ns, self.options.segment_bytes);
        let sums = space_or(sums.and_then(|sums| sums.sync().map(|()| sums)))?;
        disk.sync_dir(self.dir)?;
        let file = disk.open(wal, Open::Create)?;
        let idx = self.path(base, segment::IDX);
        disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(disk, &idx, 0, self.options.segment_bytes)?;
        disk.sync_dir(self.dir)?;
        let segment = self.segment(base, file, index, 0, base, false);
        let (next_offset, whole) = (base, true);
        Ok(Active { segment, sums, tail: 0, next_offset, flushed: 0, whole, rolls: false })
    }

    /// Goes on behind the last flush.
    fn resume(
        &self,
        base: Offset,
        file: Arc<dyn File>,
        len: u64,
        sums: Checksums,
        mark: Mark,
    ) -> io::Result<Active> {
        if len < mark.position {
            return self.lost(base, file, len, sums, mark);
        }
        sums.drop_other_marks(&mark);
        // What is appended from here on is not compacted.
        sums.set_note(None);
        let covered = self.behind(base, &*file, &sums, &mark, len)?;
        let usable = covered.is_some();
        let covered = covered.unwrap_or(Coverage { end: mark.position, rot: None });
        let mut walk =
            Walk::new(&*file, mark.position..covered.end, mark.next_offset, Offsets::Exact);
        let mut fresh = Vec::new();
        while let Step::Frame(position, header) = walk.next()? {
            fresh.push(IndexEntry { offset: header.offset, position });
        }
        let (end, next_offset) = (walk.position(), walk.next_offset());
        let walked = Forgiving(Arc::clone(&file));
        let tail = tail_of(&walked, end)?;
        let rotten = covered.rot.as_ref().map(|rot| rot.start / BLOCK);
        if usable && end % BLOCK != 0 && rotten != Some(end / BLOCK) {
            // Before the cut: a checksum of more than is there would cost what it covers at the next start.
            sums.put(end / BLOCK, tail, end % BLOCK);
        }
        let whole = usable
            && (end == len || {
                let why = "not what was accepted, or not the whole of it";
                self.cut_tail(base, &*file, end..len, why)?
            });
        let (index, found) = self.active_index(base, &walked, &sums, &mark, end, &fresh)?;
        let segment = self.segment(base, file, index, end, next_offset, false);
        segment.date(sums.began_ns(), mark.at_ns);
        mark_found(&segment, Some(&sums), &found);
        mark_known(&segment, &sums, end);
        let mut flushed = mark.position;
        if let Some(rot) = &covered.rot {
            segment.mark_bad(&segment.frames().over(rot));
            // Nothing more is written into a block whose bytes are not known.
            sums.put_all_bad(std::iter::once(rot.start / BLOCK), end)?;
            let (at_ns, partial) = (self.env.clock.now_ns(), partial(end, tail));
            sums.sync_with(Mark { position: end, next_offset, at_ns, partial })?;
            flushed = end;
        }
        let (sums, rolls) = (Some(sums), covered.rot.is_some());
        Ok(Active { segment, sums, tail, next_offset, flushed, whole, rolls })
    }

    /// How far what is behind the mark is what was written; `None` if the disk does not take it, or does not give it.
    fn behind(
        &self,
        base: Offset,
        file: &dyn File,
        sums: &Checksums,
        mark: &Mark,
        len: u64,
    ) -> io::Result<Option<Coverage>> {
        let tell = |error: &io::Error, why| {
            let segment = self.path(base, segment::WAL);
            tracing::error!(
                segment = %segment.display(), %error,
                "{why}; what was not flushed before is not served, and nothing is appended"
            );
        };
        if len > mark.position {
            // What an earlier process was told to be written, and was not, is not read from memory now.
            let synced = file.sync_data();
            file.forget(mark.position / BLOCK * BLOCK, len);
            if let Err(error) = synced {
                tell(&error, "cannot be flushed");
                return Ok(None);
            }
        }
        match coverage(file, sums, mark, len) {
            Err(error) if is_medium_error(&error) => {
                tell(&error, "cannot be read");
                Ok(None)
            }
            covered => covered.map(Some),
        }
    }

    /// The file is shorter than what was flushed of it: somebody has cut it. What is there is served, and the offsets of
    /// what is gone are not given again.
    fn lost(
        &self,
        base: Offset,
        file: Arc<dyn File>,
        len: u64,
        sums: Checksums,
        mark: Mark,
    ) -> io::Result<Active> {
        tracing::error!(
            segment = %self.path(base, segment::WAL).display(), len, flushed = mark.position,
            "the file is shorter than was flushed; records are lost"
        );
        let (no_index, next_offset) = (OffsetIndex::none(), mark.next_offset);
        let walked = Forgiving(Arc::clone(&file));
        let frames = Frames { file: &walked, index: &no_index, base, end: len, next_offset };
        let mut bad = bad_blocks(&*file, Some(&sums), Some(&mark))?;
        // What is gone is bad as well. What is there of the last block has no checksum.
        for bad in &mut bad {
            bad.end = bad.end.min(len / BLOCK * BLOCK);
        }
        bad.retain(|bad| !bad.is_empty());
        let found = survey(&frames, bad, unpaced)?;
        let index = self.index_of(base, &found.entries, len)?;
        let segment = self.segment(base, file, index, len, found.next_offset, false);
        segment.date(sums.began_ns(), mark.at_ns);
        mark_found(&segment, Some(&sums), &found);
        tell_lost(&segment, mark.next_offset);
        mark_known(&segment, &sums, len);
        let (next_offset, flushed) = (mark.next_offset, len);
        let (sums, rolls) = (Some(sums), true);
        Ok(Active { segment, sums, tail: 0, next_offset, flushed, whole: true, rolls })
    }

    /// Takes over a log without checksums, or with `old` ones that have lost their marks. Bytes at its end that are no
    /// frames are cut; damage before good frames is kept.
    fn adopt(
        &self,
        base: Offset,
        file: Arc<dyn File>,
        len: u64,
        old: Option<&Checksums>,
    ) -> io::Result<Active> {
        let (no_index, next_offset) = (OffsetIndex::none(), OFFSET_MAX);
        let walked = Forgiving(Arc::clone(&file));
        let frames = Frames { file: &walked, index: &no_index, base, end: len, next_offset };
        let (old, bad) = believed(&*file, old, len, unpaced)?;
        let mut found = survey(&frames, bad, unpaced)?;
        let mut end = len;
        let mut whole = true;
        if let Some(torn) = found.torn(len).cloned() {
            found.bad.pop();
            (end, found.next_offset) = (torn.positions.start, torn.offsets.start);
            whole = self.cut_tail(base, &*file, torn.positions, "not whole frames")?;
        }
        let index = self.index_of(base, &found.entries, end)?;
        let build = Build {
            dir: self.dir,
            base,
            file: &*file,
            end,
            next_offset: found.next_offset,
            bad: &found.bad,
            old,
            segment_bytes: self.options.segment_bytes,
            note: None,
        };
        let built = space_or(build_sums(self.env, &build, unpaced))?;
        let (sums, tail) = built.map_or((None, 0), |(sums, tail)| (Some(sums), tail));
        let flushed = if sums.is_some() { end } else { 0 };
        let next_offset = found.next_offset;
        let segment = self.segment(base, file, index, end, next_offset, false);
        mark_found(&segment, None, &found);
        let last = sums.as_ref().map(|sums| sums.entry(end / BLOCK));
        // As where flushed bytes are damaged: nothing more is written into a block whose bytes are not known.
        let rolls = matches!(last, Some(Entry::Sum { bad: true, .. }));
        if let Some(sums) = &sums {
            mark_known(&segment, sums, end);
        }
        Ok(Active { segment, sums, tail, next_offset, flushed, whole, rolls })
    }

    /// The index of a log whose frames were all walked.
    fn index_of(&self, base: Offset, entries: &[IndexEntry], end: u64) -> io::Result<OffsetIndex> {
        let (disk, idx) = (&*self.env.disk, self.path(base, segment::IDX));
        let found = OffsetIndex::open_active(disk, &idx, end, self.options.segment_bytes)?;
        let same = found.len() >= entries.len()
            && (0..found.len()).filter_map(|number| found.get(number)).fold(
                (0, true),
                |(matched, same), entry| {
                    let wanted = entries.get(matched).copied();
                    let hit = wanted.is_some_and(|wanted| wanted == entry);
                    let ahead = wanted.is_none_or(|wanted| wanted.position > entry.position);
                    (matched + usize::from(hit), same && (hit || ahead))
                },
            ) == (entries.len(), true);
        if same {
            return Ok(found);
        }
        drop(found);
        if self.replace_index(base, entries)? {
            return OffsetIndex::open_active(disk, &idx, end, self.options.segment_bytes);
        }
        Ok(OffsetIndex::none())
    }

    /// The index of a log of which what was flushed is not walked, unless it has to be: then also what is damaged there.
    fn active_index(
        &self,
        base: Offset,
        file: &dyn File,
        sums: &Checksums,
        mark: &Mark,
        end: u64,
        fresh: &[IndexEntry],
    ) -> io::Result<(OffsetIndex, Survey)> {
        let (disk, idx) = (&*self.env.disk, self.path(base, segment::IDX));
        let mut walked = Survey::default();
        let mut index = OffsetIndex::open_active(disk, &idx, end, self.options.segment_bytes)?;
        index.truncate(index.count_before(mark.position));
        let agrees = index_agrees(file, &index, base, mark.position)?;
        // Its last frames may have been taken out: then the next record's offset is further on.
        if agrees.is_none_or(|next_offset| next_offset > mark.next_offset) {
            let (end, next_offset) = (mark.position, mark.next_offset);
            let frames = Frames { file, index: &index, base, end, next_offset };
            let found = survey(&frames, bad_blocks(file, Some(sums), Some(mark))?, unpaced)?;
            drop(index);
            index = if self.replace_index(base, &found.entries)? {
                OffsetIndex::open_active(disk, &idx, end, self.options.segment_bytes)?
            } else {
                OffsetIndex::none()
            };
            walked = found;
        }
        let mut policy = IndexPolicy::after(&index);
        for entry in fresh.iter().filter(|entry| policy.wants(entry.position)) {
            index.push(*entry);
        }
        Ok((index, walked))
    }
}

/// How far the bytes behind a mark agree with their checksums.
pub(in crate::storage) fn coverage(
    file: &dyn File,
    sums: &Checksums,
    mark: &Mark,
    len: u64,
) -> io::Result<Coverage> {
    let mut buf = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
    let mut block = mark.position / BLOCK;
    let mut covered = Coverage { end: mark.position, rot: None };
    let flushed = mark.position % BLOCK;
    if flushed > 0 {
        let bytes = read_block(file, &mut buf, block, len)?;
        let before = &bytes[..usize::try_from(flushed).unwrap_or(0).min(bytes.len())];
        match matching(sums.entry(block), bytes) {
            Some(covers) if covers >= flushed => covered.end = block * BLOCK + covers,
            _ if crc::of(before) == mark.partial => {}
            _ => {
                // Flushed bytes are damaged. Those behind them in the block cannot be told from them: they are kept.
                let written = match sums.entry(block) {
                    Entry::Sum { len, .. } => len.max(flushed),
                    Entry::Empty | Entry::Damaged => flushed,
                };
                covered.end = (block * BLOCK + written).min(len);
                covered.rot = Some(block * BLOCK..covered.end);
            }
        }
        block += 1;
    }
    while covered.end == block * BLOCK && covered.end < len {
        let bytes = read_block(file, &mut buf, block, len)?;
        match matching(sums.entry(block), bytes) {
            Some(covers) => covered.end += covers,
            None => break,
        }
        block += 1;
    }
    Ok(covered)
}

fn read_block<'b>(
    file: &dyn File,
    buf: &'b mut [u8],
    block: u64,
    len: u64,
) -> io::Result<&'b [u8]> {
    let want = BLOCK.min(len - block * BLOCK);
    let buf = &mut buf[..usize::try_from(want).unwrap_or(0)];
    let read = file.read_full_at(buf, block * BLOCK)?;
    Ok(&buf[..read])
}

/// How many of the bytes their checksum covers, if it is right.
fn matching(entry: Entry, bytes: &[u8]) -> Option<u64> {
    let Entry::Sum { crc, len, .. } = entry else { return None };
    let covered = bytes.get(..usize::try_from(len).ok()?)?;
    (crc::of(covered) == crc).then_some(len)
}

/// Checksum of the last block of a log that ends at `end`; 0 if it is whole.
fn tail_of(file: &dyn File, end: u64) -> io::Result<u32> {
    let mut buf = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
    let bytes = if end.is_multiple_of(BLOCK) {
        &[][..]
    } else {
        read_block(file, &mut buf, end / BLOCK, end)?
    };
    Ok(partial(end, crc::of(bytes)))
}

/// `None` if the disk is full, or cannot be read: what is derived is worth no failed start.
fn space_or<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_full(&error) => {
            tracing::warn!(%error, "no space for checksums; nothing is appended here until there is");
            Ok(None)
        }
        Err(error) if is_medium_error(&error) => {
            tracing::error!(%error, "no checksums: the log cannot be read; it goes on in a new segment");
            Ok(None)
        }
        result => result.map(Some),
    }
}
