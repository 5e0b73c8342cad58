//! Going on where the process has ended in the middle of replacing, merging or deleting segments.

use std::io;
use std::ops::Range;

use super::{Checksums, Open, Recovery, replace, segment};
use crate::model::Offset;

impl Recovery<'_> {
    /// A segment was being replaced when the process ended, and that was decided.
    pub(super) fn finish_replacements(&self) -> io::Result<()> {
        for base in self.bases(replace::WAL_SWAP)? {
            replace::finish(&*self.env.disk, self.dir, base)?;
            tracing::warn!(dir = %self.dir.display(), segment = base, "replacement of a segment finished");
        }
        Ok(())
    }

    /// Segments that were merged into the one before them, and whose files were still to be removed: what is in them is
    /// there twice.
    pub(super) fn remove_merged(&self) -> io::Result<()> {
        let mut merged: Vec<Range<Offset>> = Vec::new();
        for base in self.bases(segment::WAL)? {
            if merged.last().is_some_and(|merged| merged.contains(&base)) {
                self.remove_log(base)?;
            } else {
                merged.extend(self.merged_into(base));
            }
        }
        for extension in [segment::IDX, segment::SUM] {
            for base in self.bases(extension)? {
                let before = merged.partition_point(|merged| merged.start <= base);
                if merged[..before].last().is_some_and(|merged| merged.contains(&base)) {
                    self.env.disk.remove_file(&self.path(base, extension))?;
                }
            }
        }
        Ok(())
    }

    /// Base offsets of segments that were merged into this one. What cannot be read is met again, and told, where the segment
    /// is opened.
    fn merged_into(&self, base: Offset) -> Option<Range<Offset>> {
        let disk = &*self.env.disk;
        let len = disk.open(&self.path(base, segment::WAL), Open::Read).ok()?.len().ok()?;
        let note = Checksums::peek_note(disk, &self.path(base, segment::SUM), base, len).ok()??;
        Some(base + 1..note.covers)
    }

    /// In the order in which [`Log::delete_before`](crate::storage::Log::delete_before) does it.
    fn remove_log(&self, base: Offset) -> io::Result<()> {
        tracing::info!(dir = %self.dir.display(), segment = base, "was merged into the one before it; removed");
        self.env.disk.remove_file(&self.path(base, segment::WAL))?;
        self.env.disk.sync_dir(self.dir)
    }

    /// Removes what is left of segments that were deleted (the log goes first, so a crash can leave the rest), and of
    /// replacements and new checksums that did not come to their place.
    pub(super) fn sweep(&self, first: Option<Offset>) -> io::Result<()> {
        let temporary = [
            replace::WAL_TEMPORARY,
            replace::SUM_SWAP,
            replace::IDX_TEMPORARY,
            replace::SUM_TEMPORARY,
        ];
        for extension in temporary {
            for base in self.bases(extension)? {
                self.env.disk.remove_file(&self.path(base, extension))?;
            }
        }
        let Some(first) = first else { return Ok(()) };
        for extension in [segment::IDX, segment::SUM] {
            let bases = self.bases(extension)?;
            for base in bases.into_iter().take_while(|&base| base < first) {
                self.env.disk.remove_file(&self.path(base, extension))?;
            }
        }
        Ok(())
    }
}
