//! Copying a partition's directory while a broker writes to it.
//!
//! A sealed segment never changes, so its log can be the same file under a second name. The active one is copied as far as
//! it was flushed, and gets checksums that say so. What was not flushed when a look at the partition began is left out.
//! Where no broker is, everything is copied as it is, and a start on the copy does what a start on the original would.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::checksums::{Checksums, Marked};
use super::disk::{Disk, Duplicate, Open, copy_range};
use super::index;
use super::inspect::{Files, InspectError, Layout, Listed, ReadOnlyDisk, State, View};
use super::repair::NewSums;
use super::{replace, segment};

/// A broker that rolls or removes segments meanwhile makes a copy begin again, but not for ever.
const ATTEMPTS: u32 = 20;

/// Time before the second attempt; each later one waits so much longer.
const PAUSE: Duration = Duration::from_millis(10);

/// What was copied, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// Segments.
    pub segments: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// Bytes of them that are in files which the original has, too.
    pub linked_bytes: u64,
    /// Bytes of them that the file system shares until one side is written.
    pub cloned_bytes: u64,
}

/// How to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupOptions {
    /// A broker has the original.
    pub live: bool,
    /// Sealed logs may be the same files.
    pub link: bool,
}

/// Copies a partition's directory to another one, which must exist and be empty, durably. `progress` is told how many bytes
/// were copied.
pub fn backup_partition(
    disk: &Arc<dyn Disk>,
    from: &Path,
    to: &Path,
    options: BackupOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<BackedUp, InspectError> {
    let looked = ReadOnlyDisk(Arc::clone(disk));
    let backup = Backup { disk: &**disk, looked: &looked, from, to, options };
    let mut attempt = 1;
    loop {
        match backup.all(attempt == ATTEMPTS, progress) {
            Ok(Some(done)) => return Ok(done),
            Err(error) if error.source.kind() != io::ErrorKind::NotFound || attempt == ATTEMPTS => {
                return Err(error);
            }
            _ => {}
        }
        // A pass of compaction merges one group after the other, each in a moment.
        std::thread::sleep(PAUSE * attempt);
        attempt += 1;
        backup.clear().map_err(InspectError::at(to))?;
    }
}

struct Backup<'a> {
    disk: &'a dyn Disk,
    looked: &'a ReadOnlyDisk,
    from: &'a Path,
    to: &'a Path,
    options: BackupOptions,
}

impl Backup<'_> {
    /// Copies it; `None` if what was copied does not fit together. The last attempt takes what there is.
    fn all(
        &self,
        last: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<BackedUp>, InspectError> {
        let layout = Layout::read(self.looked, self.from).map_err(InspectError::at(self.from))?;
        let mut done = BackedUp::default();
        for files in &layout.segments {
            let at = InspectError::at(self.from.join(&files.wal));
            let copied = match files.state {
                State::Provisional if self.options.live => continue,
                _ if files.replaced && self.options.live && !last => return Ok(None),
                State::Active if self.options.live => self.active(files),
                _ => self.as_it_is(files, last),
            };
            let Some((bytes, how)) = copied.map_err(at)? else { return Ok(None) };
            progress(bytes);
            done.segments += 1;
            done.bytes += bytes;
            match how {
                Duplicate::Linked => done.linked_bytes += bytes,
                Duplicate::Cloned => done.cloned_bytes += bytes,
                Duplicate::Copied => {}
            }
        }
        self.disk.sync_dir(self.to).map_err(InspectError::at(self.to))?;
        Ok(Some(done))
    }

    /// A segment that does not change now.
    fn as_it_is(&self, files: &Files, last: bool) -> io::Result<Option<(u64, Duplicate)>> {
        let to = self.to.join(&files.wal);
        // Only what is never written again, by this broker or by one on the copy.
        let link = self.options.link && files.state == State::Sealed && !files.replaced;
        let how = self.disk.duplicate(&self.from.join(&files.wal), &to, link)?;
        let len = self.disk.open(&to, Open::Read)?.len()?;
        self.copy_if_there(&files.sum)?;
        self.copy_if_there(&files.idx)?;
        if files.replaced {
            // A start finishes that, on either side.
            self.duplicate_if_there(&format!("{:020}.{}", files.base, segment::WAL))?;
            if files.sum.ends_with(replace::SUM_SWAP) {
                self.copy_if_there(&format!("{:020}.{}", files.base, segment::SUM))?;
            }
        }
        // Else it was compacted since, perhaps by what is in segments that were not there then.
        let same = !self.options.live || len == files.len;
        let fits = files.state != State::Sealed || same && self.fits(files, len)?;
        Ok((fits || last).then_some((len, how)))
    }

    fn duplicate_if_there(&self, name: &str) -> io::Result<()> {
        match self.disk.duplicate(&self.from.join(name), &self.to.join(name), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map(drop),
        }
    }

    /// A file that a broker maps. No clone: a store into what is shared needs new space, and where there is none it ends the
    /// process.
    fn copy_if_there(&self, name: &str) -> io::Result<()> {
        let from = match self.disk.open(&self.from.join(name), Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from?,
        };
        let to = self.disk.open(&self.to.join(name), Open::Truncate)?;
        copy_range(&*from, 0..from.len()?, &*to)?;
        to.sync_data()
    }

    /// Whether the copied checksums say that they are of a log of this length, and of the same segments, if there are any.
    fn fits(&self, files: &Files, len: u64) -> io::Result<bool> {
        let copied = ReadOnlyDisk(Arc::clone(&self.looked.0));
        let path = self.to.join(&files.sum);
        let sums = Checksums::open(&copied, &path, files.base, 0, len)?;
        Ok(sums.is_none_or(|sums| match sums.marked() {
            // One that was compacted meanwhile is shorter, or holds what was in others.
            Marked::Upto(mark) => {
                let covers = sums.note().map_or(files.base, |note| note.covers);
                mark.position == len && covers == files.covers
            }
            Marked::Damaged => false,
        }))
    }

    /// The segment that a broker appends to: what of it is flushed.
    fn active(&self, files: &Files) -> io::Result<Option<(u64, Duplicate)>> {
        let view = View::open(self.looked, self.from, files, None, true)?;
        if view.sums.as_ref().is_some_and(|sums| sums.note().is_some()) {
            // It was sealed and compacted since.
            return Ok(None);
        }
        let copy = self.disk.open(&self.to.join(&files.wal), Open::Truncate)?;
        copy_range(&*view.file, 0..view.end, &*copy)?;
        copy.sync_data()?;
        if copy.len()? < view.end {
            return Ok(None);
        }
        if let (Some(sums), Some(mark)) = (&view.sums, view.flushed) {
            let new = NewSums {
                base: files.base,
                created_ns: sums.created_ns(),
                file: &*copy,
                end: view.end,
                next_offset: mark.next_offset,
                at_ns: mark.at_ns,
                old: Some(sums),
                flushed: Some(mark),
                no_frames: &[],
                note: None,
            };
            new.write(self.disk, &self.to.join(&files.sum))?;
        }
        let listed = Listed::read(self.looked, &self.from.join(&files.idx), view.len)?;
        let entries = listed.as_ref().map_or(&[][..], |listed| listed.before(view.end));
        index::replace(self.disk, &self.to.join(&files.idx), entries)?;
        Ok(Some((view.end, Duplicate::Copied)))
    }

    /// Takes away what an attempt has copied.
    fn clear(&self) -> io::Result<()> {
        for entry in self.disk.list(self.to)? {
            self.disk.remove_file(&self.to.join(entry.name))?;
        }
        Ok(())
    }
}
