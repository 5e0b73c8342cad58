//! Comparing a segment with its checksums.

use std::io;
use std::ops::Range;

use super::checksums::{BLOCK, Checksums, Entry, Mark};
use super::crc;
use super::disk::File;

/// Blocks read at once.
const STEP_BLOCKS: u64 = 64;

/// What a comparison found, as ranges of bytes in whole blocks (but for the end of the log), ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// These are not the bytes that were written, or cannot be read.
    pub(super) bad: Vec<Range<u64>>,
    /// Nobody knows: their checksum is missing or damaged itself.
    pub(super) unknown: Vec<Range<u64>>,
}

/// Compares the bytes of `file` from the block of `from` on up to `mark`, where the last block may have grown since.
/// Calls `before` with position and length of each step before it is read; an error of it ends the comparison.
pub(super) fn compare(
    file: &dyn File,
    sums: &Checksums,
    from: u64,
    mark: &Mark,
    mut before: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<Compared> {
    let mut found = Compared::default();
    let mut buf = Vec::new();
    let mut at = from / BLOCK * BLOCK;
    // Of what lies behind the end of the file, the rest of the last block: a mark may speak of more than there ever was.
    let end = mark.position.min(file.len()?.next_multiple_of(BLOCK));
    while at < end {
        let len = (STEP_BLOCKS * BLOCK).min(end - at);
        before(at, len)?;
        buf.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        let readable = read_blocks(file, &mut buf, at)?;
        for (bytes, readable) in buf.chunks(block_bytes()).zip(readable) {
            let range = at..at + bytes.len() as u64;
            at = range.end;
            match expected(sums, mark, &range) {
                _ if !readable => push(&mut found.bad, range),
                Some(crc) if crc == crc::of(bytes) => {}
                Some(_) => push(&mut found.bad, range),
                None => push(&mut found.unknown, range),
            }
        }
    }
    Ok(found)
}

/// The checksum that a block, or what a mark covers of it, should have; `None` if that is not known.
pub(super) fn expected(sums: &Checksums, mark: &Mark, range: &Range<u64>) -> Option<u32> {
    let entry = sums.entry(range.start / BLOCK);
    let found_bad = matches!(entry, Entry::Sum { bad: true, .. });
    if range.end == mark.position && !range.end.is_multiple_of(BLOCK) {
        return Some(if found_bad { !mark.partial } else { mark.partial });
    }
    match entry {
        Entry::Sum { crc, len, .. } => {
            // Another length was never flushed for a whole block: a checksum that no bytes can have.
            Some(if len == range.end - range.start { crc } else { !crc })
        }
        Entry::Empty | Entry::Damaged => None,
    }
}

/// Reads blocks one behind the other; says of each whether it could be read whole.
pub(super) fn read_blocks(file: &dyn File, buf: &mut [u8], at: u64) -> io::Result<Vec<bool>> {
    let blocks = buf.len().div_ceil(block_bytes());
    match file.read_full_at(buf, at) {
        Ok(read) if read == buf.len() => return Ok(vec![true; blocks]),
        Ok(_) => {}
        Err(error) if is_medium_error(&error) => {}
        Err(error) => return Err(error),
    }
    let mut readable = Vec::with_capacity(blocks);
    for (number, block) in buf.chunks_mut(block_bytes()).enumerate() {
        let read = file.read_full_at(block, at + number as u64 * BLOCK);
        readable.push(read.is_ok_and(|read| read == block.len()));
    }
    Ok(readable)
}

/// The disk cannot give these bytes: that is damage, and not a reason to stop looking.
pub(super) fn is_medium_error(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::IO)
}

/// Whether the disk gives these bytes, or what there is of them. Asked before they are touched through a mapping: there, what it
/// does not give ends the process.
pub(super) fn is_readable(file: &dyn File, range: Range<u64>) -> bool {
    let len = (STEP_BLOCKS * BLOCK).min(range.end.saturating_sub(range.start));
    let mut buf = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut at = range.start;
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buf.len());
        match file.read_full_at(&mut buf[..want], at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(error) => return !is_medium_error(&error),
        }
    }
    true
}

fn block_bytes() -> usize {
    usize::try_from(BLOCK).unwrap_or(usize::MAX)
}

/// Adds a range behind the others; adjacent ones become one.
fn push(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
