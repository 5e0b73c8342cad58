//! Disks over another, for tests that change some of its calls: the others go through.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::storage::disk::{Disk, Duplicate, Entry, File, Map, Open};

/// A [`Disk`] over [`DiskOver::disk`]: it is one by what it changes.
pub(crate) trait DiskOver: std::fmt::Debug + Send + Sync {
    /// Where calls go that are not changed.
    fn disk(&self) -> &dyn Disk;

    /// See [`Disk::open`].
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk().open(path, how)
    }

    /// See [`Disk::create_dir`].
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk().create_dir(path)
    }

    /// See [`Disk::rename`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk().rename(from, to)
    }

    /// See [`Disk::duplicate`].
    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        self.disk().duplicate(from, to, link)
    }

    /// See [`Disk::remove_file`].
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk().remove_file(path)
    }

    /// See [`Disk::sync_dir`].
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk().sync_dir(path)
    }
}

impl<T: DiskOver> Disk for T {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        DiskOver::open(self, path, how)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DiskOver::create_dir(self, path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.disk().list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskOver::rename(self, from, to)
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        DiskOver::duplicate(self, from, to, link)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        DiskOver::remove_file(self, path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk().remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        DiskOver::sync_dir(self, path)
    }

    fn has_room_for(&self, files: u64) -> io::Result<()> {
        self.disk().has_room_for(files)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk().free_bytes(path)
    }
}

/// A [`File`] over [`FileOver::file`].
pub(crate) trait FileOver: std::fmt::Debug + Send + Sync {
    /// Where calls go that are not changed.
    fn file(&self) -> &dyn File;

    /// See [`File::read_at`].
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file().read_at(buf, position)
    }

    /// See [`File::write_at`].
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.file().write_at(buf, position)
    }

    /// See [`File::set_len`].
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file().set_len(len)
    }

    /// See [`File::sync_data`].
    fn sync_data(&self) -> io::Result<()> {
        self.file().sync_data()
    }
}

impl<T: FileOver> File for T {
    fn len(&self) -> io::Result<u64> {
        self.file().len()
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        FileOver::read_at(self, buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        FileOver::write_at(self, buf, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        FileOver::set_len(self, len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file().reserve(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        FileOver::sync_data(self)
    }

    fn map(&self, capacity: usize) -> io::Result<Box<dyn Map>> {
        self.file().map(capacity)
    }

    fn is_cached(&self, position: u64) -> bool {
        self.file().is_cached(position)
    }

    fn will_read(&self, position: u64, len: u64) {
        self.file().will_read(position, len);
    }

    fn forget(&self, position: u64, len: u64) {
        self.file().forget(position, len);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file().fd()
    }
}
