//! Making the checksums of a segment anew, without forgetting what the old ones know.

use std::io;
use std::path::Path;

use crate::model::Offset;
use crate::storage::checksums::{BLOCK, Checksums, Entry, Mark, Note};
use crate::storage::crc;
use crate::storage::disk::{Disk, File};

/// Of which log, and what is known of it.
pub(in crate::storage) struct NewSums<'a> {
    pub(in crate::storage) base: Offset,
    /// When the segment began, by the broker's clock, in ns since the Unix epoch.
    pub(in crate::storage) created_ns: u64,
    /// What is there of it, durably. How far, the offset behind it and the time are what the mark says.
    pub(in crate::storage) file: &'a dyn File,
    pub(in crate::storage) end: u64,
    pub(in crate::storage) next_offset: Offset,
    pub(in crate::storage) at_ns: u64,
    /// Checksums of the same bytes: they are kept where they are whole. What disagrees with them stays damaged.
    pub(in crate::storage) old: Option<&'a Checksums>,
    /// What the last mark says of them.
    pub(in crate::storage) flushed: Option<Mark>,
    /// Where no frame begins, and one should: the block is written down as bad.
    pub(in crate::storage) no_frames: &'a [u64],
    /// What compaction has done to the segment.
    pub(in crate::storage) note: Option<Note>,
}

impl NewSums<'_> {
    /// Writes them to a file of this name, durably; the name is not.
    pub(in crate::storage) fn write(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let sums = Checksums::create(disk, path, self.base, self.created_ns, self.end)?;
        sums.reserve(self.end)?;
        let mut buf = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
        let mut last = 0;
        for block in 0..self.end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            let len = BLOCK.min(self.end - start);
            let bytes = &mut buf[..usize::try_from(len).unwrap_or(usize::MAX)];
            if self.file.read_full_at(bytes, start)? < bytes.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let found = crc::of(bytes);
            let (crc, bad) = self.known(block, len).unwrap_or((found, false));
            sums.put(block, crc, len);
            if bad || crc != found {
                sums.put_bad(block);
            }
            last = if len < BLOCK { crc } else { 0 };
        }
        for position in self.no_frames {
            sums.put_bad(position / BLOCK);
        }
        let (position, next_offset, at_ns) = (self.end, self.next_offset, self.at_ns);
        sums.set_note(self.note);
        sums.seal(self.end)?;
        sums.sync_with(Mark { position, next_offset, at_ns, partial: last })?;
        // The confirmation too.
        sums.sync()
    }

    /// The checksum that the first `len` bytes of a block had, and whether they were found to be others.
    fn known(&self, block: u64, len: u64) -> Option<(u32, bool)> {
        let Entry::Sum { crc, len: covers, bad } = self.old?.entry(block) else { return None };
        let end = block * BLOCK + len;
        match self.flushed {
            Some(mark) if len < BLOCK && mark.position == end => Some((mark.partial, bad)),
            _ if covers == len => Some((crc, bad)),
            // A block that was flushed whole has a checksum of all of it.
            Some(mark) if len == BLOCK && end <= mark.position => Some((!crc, true)),
            _ => None,
        }
    }
}
