//! What storage asks of an operating system: two traits, so that tests can crash the disk.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How [`Disk::open`] opens a file: readable and writable, but for [`Open::Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It must exist, and is only read.
    Read,
    /// It must exist.
    Existing,
    /// It is created if it does not exist, and kept as it is if it does.
    Create,
    /// It is created, or emptied if it exists.
    Truncate,
}

/// How a file came to be there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// Both names are of the same file.
    Linked,
    /// The file system shares the bytes until one of the files is written.
    Cloned,
    /// The bytes are there twice.
    Copied,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; entries whose name is not UTF-8 are left out by [`Disk::list`].
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Creates a directory whose parent exists. It is no error if it is there already.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Renames a file, replacing the target, or a directory, whose target must not be there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a new file `to` that holds what `from` does, its bytes durable; its name is not. With `link` it may be the same
    /// file under another name, so neither is ever written again; else, and where that cannot be, a clone or a copy.
    fn duplicate(&self, from: &Path, to: &Path, _link: bool) -> io::Result<Duplicate> {
        let source = self.open(from, Open::Read)?;
        let copy = self.open(to, Open::Truncate)?;
        let len = source.len()?;
        copy_range(&*source, 0..len, &*copy)?;
        copy.sync_data()?;
        Ok(Duplicate::Copied)
    }
    /// Removes a file. It is no error if it is not there.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all that is in it, in any order and not durably. It is no error if it is not there. A disk
    /// that cannot do that leaves it.
    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether this many more files can be kept open and enough descriptors are left for everything else.
    fn has_room_for(&self, files: u64) -> io::Result<()>;
    /// Bytes that the file system of `path` has left for this process.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. All positions and lengths are in bytes.
pub trait File: Debug + Send + Sync {
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
    /// Reads at `position`; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes at `position`, perhaps only a part.
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize>;
    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Sets disk space aside up to `len`, without changing the file's length. A hint: it may do nothing.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Makes the file's bytes and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Maps the file's first `capacity` words of eight bytes. See [`Map`].
    fn map(&self, capacity: usize) -> io::Result<Box<dyn Map>>;
    /// Whether reading the byte at `position` would not wait for the disk, as far as the system can tell.
    fn is_cached(&self, _position: u64) -> bool {
        true
    }
    /// Says that these bytes will be read soon. A hint.
    fn will_read(&self, _position: u64, _len: u64) {}
    /// Lets go of what memory holds of these bytes, as far as the disk has them too: the next read asks the disk.
    fn forget(&self, _position: u64, _len: u64) {}
    /// The descriptor, for `sendfile`; `None` where there is none (a simulated disk).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Reads until `buf` is full or the file ends; returns the bytes read.
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], position + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `buf` at `position`.
    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_at(&buf[done..], position + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Copies a range of a file, or what there is of it, to the beginning of another.
pub(super) fn copy_range(from: &dyn File, range: Range<u64>, to: &dyn File) -> io::Result<()> {
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

/// No mapping: for an index that there is no space for.
#[derive(Debug)]
pub(super) struct NoMap;

impl Map for NoMap {
    fn words(&self) -> &[AtomicU64] {
        &[]
    }

    fn grow(&self, _words: usize) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn seal(&self, _words: usize) -> io::Result<()> {
        Ok(())
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// Words in memory alone: of a file as it was at one moment, or of none. What is stored to them nobody else sees.
#[derive(Debug)]
pub(super) struct MemoryMap(pub(super) Vec<AtomicU64>);

impl Map for MemoryMap {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    fn grow(&self, words: usize) -> io::Result<()> {
        if words <= self.0.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn seal(&self, _words: usize) -> io::Result<()> {
        Ok(())
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// A shared mapping of a file as words of eight bytes.
///
/// The mapping has a fixed capacity; of that, only the words that the file has space for can be touched, so a full
/// disk is an error from [`Map::grow`] and never a fault while writing.
pub trait Map: Debug + Send + Sync {
    /// The words backed by the file.
    fn words(&self) -> &[AtomicU64];
    /// Extends the file, with disk space set aside, so that at least `words` words are backed. Does nothing if they are.
    fn grow(&self, words: usize) -> io::Result<()>;
    /// Whether the file still has the bytes of the words that were backed: touching those that somebody has cut off would
    /// end the process. Asked before the mapping is used; what is cut off a moment later is not noticed.
    fn is_whole(&self) -> bool;
    /// Cuts the file to `words` words, which must be backed, and lets go of its descriptor: the mapping grows no more.
    fn seal(&self, words: usize) -> io::Result<()>;
}
