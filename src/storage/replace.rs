//! Putting another log and its checksums in a segment's place, both or neither.
//!
//! Two files cannot be renamed at once. So the new ones lie beside the old ones until both are durable; then one rename
//! decides, and whoever finds it decided (this process, or the next start) finishes it.

use std::io;
use std::path::Path;

use super::disk::Disk;
use super::segment;
use crate::model::Offset;

/// Extension of a log file that is being written. Of no use after a crash.
pub(super) const WAL_TEMPORARY: &str = "wal.tmp";

/// Extension of a log file that takes the place of the segment's. That it is there decides.
pub(super) const WAL_SWAP: &str = "wal.swap";

/// Extension of the checksums of such a file. Without one they are of no use.
pub(super) const SUM_SWAP: &str = "sum.swap";

/// Extension of an index that is being written. Of no use after a crash.
pub(super) const IDX_TEMPORARY: &str = "idx.tmp";

/// Extension of checksums that are made anew. Of no use after a crash.
pub(super) const SUM_TEMPORARY: &str = "sum.tmp";

/// The first half of putting `BASE.wal.tmp` and `BASE.sum.swap`, whose bytes are durable, in the place of the segment's log
/// and checksums: after an error nothing has happened, after success [`finish`] must be called until it succeeds.
pub(super) fn decide(disk: &dyn Disk, dir: &Path, base: Offset) -> io::Result<()> {
    let path = |extension| segment::path(dir, base, extension);
    disk.sync_dir(dir)?;
    disk.rename(&path(WAL_TEMPORARY), &path(WAL_SWAP))
}

/// Goes on where a replacement that was decided has ended.
pub(super) fn finish(disk: &dyn Disk, dir: &Path, base: Offset) -> io::Result<()> {
    let path = |extension| segment::path(dir, base, extension);
    // The decision must be durable before anything that follows from it.
    disk.sync_dir(dir)?;
    let names = disk.list(dir)?;
    let there = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        names.iter().any(|entry| entry.name == name)
    };
    let (sums, log) = (path(SUM_SWAP), path(WAL_SWAP));
    if there(&sums) {
        disk.rename(&sums, &path(segment::SUM))?;
        // The log's rename must not be durable before this one: then these checksums would be taken for leftovers.
        disk.sync_dir(dir)?;
    }
    if there(&log) {
        disk.rename(&log, &path(segment::WAL))?;
    }
    disk.sync_dir(dir)
}
