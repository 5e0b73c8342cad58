//! Taking away what is not part of the log, and keeping it.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::{File, Open, Recovery, segment};
use crate::model::Offset;
use crate::storage::compare::is_medium_error;
use crate::storage::disk::{Disk, copy_range};
use crate::storage::error::is_full;

/// What is cut from the end of a log.
pub(in crate::storage) const TORN: &str = "torn";

impl Recovery<'_> {
    /// Cuts the file to `torn.start`, after copying what is cut to a file beside it. `false` if there is no space for
    /// that, or if it cannot be read: then nothing is cut.
    pub(super) fn cut_tail(
        &self,
        base: Offset,
        file: &dyn File,
        torn: Range<u64>,
        why: &str,
    ) -> io::Result<bool> {
        // The length is the same; what was reserved behind it may be what the copy needs.
        file.set_len(torn.end)?;
        let disk = &*self.env.disk;
        let kept = unused_name(disk, self.dir, base, TORN)?;
        let path = self.dir.join(&kept);
        if let Err(error) = keep(disk, file, torn.clone(), &path) {
            disk.remove_file(&path)?;
            if !is_full(&error) && !is_medium_error(&error) {
                return Err(error);
            }
            tracing::error!(
                dir = %self.dir.display(), segment = base, position = torn.start, why, %error,
                "the torn tail cannot be kept, so it is not cut; the partition is read-only until a restart that can"
            );
            return Ok(false);
        }
        file.set_len(torn.start)?;
        file.sync_data()?;
        let bytes = torn.end - torn.start;
        self.env.metrics.torn_bytes.add(bytes);
        tracing::warn!(
            dir = %self.dir.display(), segment = base, position = torn.start, bytes, why, kept,
            "torn tail cut: the log ended in bytes that are not whole frames"
        );
        Ok(true)
    }

    /// Keeps a provisional segment under a name that is no segment's. `false` if there is no space for that name: then
    /// it is left as it is, and must not be written over.
    pub(super) fn set_aside(&self, base: Offset) -> io::Result<bool> {
        let path = self.path(base, segment::PROVISIONAL);
        let bytes = self.env.disk.open(&path, Open::Existing)?.len()?;
        let kept = unused_name(&*self.env.disk, self.dir, base, TORN)?;
        match self.env.disk.rename(&path, &self.dir.join(&kept)) {
            Err(error) if is_full(&error) => {
                tracing::error!(
                    segment = %path.display(), %error,
                    "no space to set a segment aside; the partition is read-only until a restart with some"
                );
                return Ok(false);
            }
            result => result?,
        }
        self.env.disk.sync_dir(self.dir)?;
        self.env.metrics.torn_bytes.add(bytes);
        tracing::warn!(
            dir = %self.dir.display(), segment = base, bytes, kept,
            "segment set aside: records between it and the end of the log are lost"
        );
        Ok(true)
    }
}

/// Copies a range of a file to a new one, durably.
pub(in crate::storage) fn keep(
    disk: &dyn Disk,
    file: &dyn File,
    range: Range<u64>,
    path: &Path,
) -> io::Result<()> {
    let copy = disk.open(path, Open::Truncate)?;
    copy_range(file, range, &*copy)?;
    copy.sync_data()?;
    path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

/// `BASE.what-N` with the first N that is free.
fn unused_name(disk: &dyn Disk, dir: &Path, base: Offset, what: &str) -> io::Result<String> {
    let entries = disk.list(dir)?;
    let taken = |name: &String| entries.iter().any(|entry| entry.name == *name);
    let mut names = (1u64..).map(|n| format!("{base:020}.{what}-{n}"));
    names.find(|name| !taken(name)).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}
