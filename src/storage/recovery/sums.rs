//! Making the checksums of a segment anew, from its bytes.

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::model::Offset;
use crate::storage::checksums::{BLOCK, Checksums, Entry, Mark, Marked, Note};
use crate::storage::compare::{Compared, compare, read_blocks};
use crate::storage::damage::BadRange;
use crate::storage::disk::File;
use crate::storage::log::Environment;
use crate::storage::replace;
use crate::storage::segment;

/// Of which segment, and what is known of it.
pub(in crate::storage) struct Build<'a> {
    pub(in crate::storage) dir: &'a Path,
    pub(in crate::storage) base: Offset,
    pub(in crate::storage) file: &'a dyn File,
    pub(in crate::storage) end: u64,
    pub(in crate::storage) next_offset: Offset,
    /// What is no frame: the block where it begins is written down as bad.
    pub(in crate::storage) bad: &'a [BadRange],
    /// Checksums of the same bytes that have lost their marks: what disagrees with them stays damaged.
    pub(in crate::storage) old: Option<&'a Checksums>,
    pub(in crate::storage) segment_bytes: u64,
    /// What compaction has done to it.
    pub(in crate::storage) note: Option<Note>,
}

/// Writes the checksums beside the old ones and puts them in their place, durably. Returns them with the checksum of the
/// last block. Calls `before` with position and length of each step before it is read.
///
/// What the bytes were before nobody knows: from here on they stay what they are, or it is noticed. Blocks that cannot be
/// read are written down as bad.
pub(in crate::storage) fn build(
    env: &Environment,
    what: &Build<'_>,
    mut before: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<(Checksums, u32)> {
    const STEP: u64 = 64 * BLOCK;
    // The mark says that the log is durable.
    what.file.sync_data()?;
    let path = segment::path(what.dir, what.base, segment::SUM);
    let temporary = segment::path(what.dir, what.base, replace::SUM_TEMPORARY);
    let (disk, at_ns) = (&*env.disk, env.clock.now_ns());
    let sums = Checksums::create(disk, &temporary, what.base, at_ns, what.segment_bytes)?;
    sums.reserve(what.end)?;
    let mut buf = vec![0; usize::try_from(STEP).unwrap_or(usize::MAX)];
    let (mut at, mut tail) = (0, 0);
    while at < what.end {
        let len = STEP.min(what.end - at);
        before(at, len)?;
        let buf = &mut buf[..usize::try_from(len).unwrap_or(usize::MAX)];
        let readable = read_blocks(what.file, buf, at)?;
        sums.extend(at, buf, &mut tail);
        let blocks = (at / BLOCK..).zip(readable);
        blocks.filter(|(_, readable)| !readable).for_each(|(block, _)| sums.put_bad(block));
        at += len;
    }
    if let Some(old) = what.old {
        (0..what.end.div_ceil(BLOCK)).for_each(|block| remember(old, &sums, block));
    }
    for bad in what.bad {
        sums.put_bad(bad.positions.start / BLOCK);
    }
    sums.set_note(what.note);
    let (position, next_offset) = (what.end, what.next_offset);
    let partial = super::partial(position, tail);
    sums.sync_with(Mark { position, next_offset, at_ns, partial })?;
    // The confirmation too.
    sums.sync()?;
    drop(sums);
    disk.rename(&temporary, &path)?;
    disk.sync_dir(what.dir)?;
    env.metrics.checksums_rebuilt.inc();
    // Under its name for good: that is asked for its length.
    let sums = Checksums::open(disk, &path, what.base, what.segment_bytes, what.end)?;
    Ok((sums.ok_or(io::ErrorKind::NotFound)?, tail))
}

/// Keeps the old checksum of a block that is not what it was.
fn remember(old: &Checksums, new: &Checksums, block: u64) {
    if let (Entry::Sum { crc: was, len: covers, bad }, Entry::Sum { crc, len, .. }) =
        (old.entry(block), new.entry(block))
        && covers == len
        && (bad || was != crc)
    {
        new.put(block, was, len);
        new.put_bad(block);
    }
}

/// Checksums that have lost their marks, and the blocks that are not what they were by them. An entry does not say of which
/// log it is: where a mark is broken, they count if some of them are right. Calls `before` as [`compare`] does.
pub(in crate::storage) fn believed<'a>(
    file: &dyn File,
    sums: Option<&'a Checksums>,
    end: u64,
    before: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<(Option<&'a Checksums>, Vec<Range<u64>>)> {
    let Some(sums) = sums else { return Ok((None, Vec::new())) };
    let mark = sums.mark_of_entries(end, 0);
    let Compared { bad, unknown } = compare(file, sums, 0, &mark, before)?;
    let wrong: u64 = bad.iter().chain(&unknown).map(|range| range.end - range.start).sum();
    let sound = matches!(sums.marked(), Marked::Upto(_)) || wrong < mark.position;
    if sound { Ok((Some(sums), bad)) } else { Ok((None, Vec::new())) }
}
