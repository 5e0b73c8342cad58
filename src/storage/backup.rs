//! Copying a partition's directory while a broker writes to it.
//!
//! A sealed segment never changes, so its log can be the same file under a second name. The active one is copied as far as
//! it was flushed, and gets checksums that say so. What was not flushed when a look at the partition began is left out.
//! Where no broker is, everything is copied as it is, and a start on the copy does what a start on the original would.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::checksums::{Checksums, Marked};
use super::compare::is_medium_error;
use super::disk::{Disk, Duplicate, Open, copy_range};
use super::index;
use super::inspect::{Files, InspectError, Layout, Listed, ReadOnlyDisk, State, View};
use super::repair::NewSums;
use super::{replace, segment};
use crate::model::Offset;

/// A broker that rolls or removes segments meanwhile makes a copy begin again, but not for ever.
const ATTEMPTS: u32 = 20;

/// Time before the second attempt; each later one waits so much longer.
const PAUSE: Duration = Duration::from_millis(10);

/// What was copied, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// Segments.
    pub segments: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// Bytes of them that are in files which the original has, too.
    pub linked_bytes: u64,
    /// Bytes of them that the file system shares until one side is written.
    pub cloned_bytes: u64,
    /// Log files that were copied as they are, though their checksums say that they are damaged.
    pub damaged: Vec<String>,
    /// What the disk did not give, and why: those segments are not in the copy.
    #[serde(skip)]
    pub unreadable: Vec<String>,
}

impl BackedUp {
    fn add(&mut self, files: &Files, copied: &Copied) {
        self.segments += 1;
        self.bytes += copied.len;
        match copied.how {
            Duplicate::Linked => self.linked_bytes += copied.len,
            Duplicate::Cloned => self.cloned_bytes += copied.len,
            Duplicate::Copied => {}
        }
        if !copied.fits {
            self.damaged.push(files.wal.clone());
        }
    }
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
    let (mut attempt, mut copied) = (1, BTreeMap::new());
    loop {
        match backup.all(&mut copied, attempt == ATTEMPTS, progress) {
            Ok(Some(done)) => return Ok(done),
            Err(error) if error.source.kind() != io::ErrorKind::NotFound || attempt == ATTEMPTS => {
                return Err(error);
            }
            // All of it is gone.
            Err(error) if looked.list(from).is_err() => return Err(error),
            _ => {}
        }
        // A pass of compaction merges one group after the other, each in a moment.
        std::thread::sleep(PAUSE * attempt);
        attempt += 1;
    }
}

/// A copy that failed: because of the source if that does not give its bytes, else because of the copy.
pub fn copy_failed(disk: &dyn Disk, from: &Path, to: &Path, error: io::Error) -> InspectError {
    let unreadable = is_medium_error(&error) || disk.open(from, Open::Read).is_err();
    InspectError::at(if unreadable { from } else { to })(error)
}

/// A sealed segment that was copied. It stays if a later attempt finds the same.
struct Copied {
    len: u64,
    covers: Offset,
    how: Duplicate,
    /// Its checksums are of these bytes.
    fits: bool,
}

impl Copied {
    fn is_of(&self, files: &Files) -> bool {
        files.state == State::Sealed
            && !files.replaced
            && (self.len, self.covers) == (files.len, files.covers)
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
        copied: &mut BTreeMap<Offset, Copied>,
        last: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<BackedUp>, InspectError> {
        let layout = Layout::read(self.looked, self.from).map_err(InspectError::at(self.from))?;
        copied.retain(|base, copied| {
            layout.segments.iter().any(|files| files.base == *base && copied.is_of(files))
        });
        self.clear(copied).map_err(InspectError::at(self.to))?;
        let mut done = BackedUp::default();
        for files in &layout.segments {
            let (from, to) = (self.from.join(&files.wal), self.to.join(&files.wal));
            if let Some(copied) = copied.get(&files.base) {
                done.add(files, copied);
                continue;
            }
            let copy = match files.state {
                State::Provisional if self.options.live => continue,
                _ if files.replaced && self.options.live && !last => return Ok(None),
                State::Active if self.options.live => self.active(files),
                _ => self.as_it_is(files, last),
            };
            let copy = match copy {
                Ok(Some(copy)) => copy,
                Ok(None) => return Ok(None),
                Err(error) => {
                    let is_lost = is_medium_error(&error);
                    let error = copy_failed(self.disk, &from, &to, error);
                    if !is_lost {
                        return Err(error);
                    }
                    // The others may be all that can be saved.
                    done.unreadable.push(error.to_string());
                    continue;
                }
            };
            progress(copy.len);
            done.add(files, &copy);
            if copy.is_of(files) {
                copied.insert(files.base, copy);
            }
        }
        self.disk.sync_dir(self.to).map_err(InspectError::at(self.to))?;
        Ok(Some(done))
    }

    /// A segment that does not change now.
    fn as_it_is(&self, files: &Files, last: bool) -> io::Result<Option<Copied>> {
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
        let same = !self.options.live || len == files.len;
        let fits = files.state != State::Sealed || same && self.fits(files, len)?;
        // Else it was compacted since, perhaps by what is in segments that were not there then; or it is damaged.
        let taken = fits || last || !self.options.live || self.is_unchanged(files);
        Ok(taken.then_some(Copied { len, covers: files.covers, how, fits }))
    }

    /// Whether the original is what it was. A replacement is asked for first: until it is finished its name is there, and
    /// after that the segment is another.
    fn is_unchanged(&self, files: &Files) -> bool {
        let swap = segment::path(self.from, files.base, replace::WAL_SWAP);
        let replaced = self.looked.open(&swap, Open::Read).is_ok();
        let mut now = files.clone();
        now.read_state(self.looked, self.from);
        !replaced && (now.len, now.covers) == (files.len, files.covers)
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
    fn active(&self, files: &Files) -> io::Result<Option<Copied>> {
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
        let (len, covers, how) = (view.end, files.covers, Duplicate::Copied);
        Ok(Some(Copied { len, covers, how, fits: true }))
    }

    /// Takes away what an attempt has copied, but for what stays.
    fn clear(&self, stays: &BTreeMap<Offset, Copied>) -> io::Result<()> {
        for entry in self.disk.list(self.to)? {
            let base = entry.name.split('.').next().and_then(|base| base.parse().ok());
            if base.is_none_or(|base| !stays.contains_key(&base)) {
                self.disk.remove_file(&self.to.join(entry.name))?;
            }
        }
        Ok(())
    }
}
