//! A disk that is only looked at.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::model::limits::{MIB, SEGMENT_MB_MAX};
use crate::record::wire;
use crate::storage::checksums::BLOCK;
use crate::storage::disk::{Disk, Entry, File, Map, MemoryMap, Open};

/// Another disk, of which nothing is changed: whatever would change it fails, and mappings are copies in memory. So the
/// code of the broker can be used on a data directory that is somebody else's, or on a volume that is mounted read-only.
#[derive(Debug, Clone)]
pub(in crate::storage) struct ReadOnlyDisk(pub(in crate::storage) Arc<dyn Disk>);

/// Most words of a file that are copied: no segment that can be configured has checksums of half as many blocks. What is
/// longer is wrong, and not worth the memory.
const WORDS_MAX: usize = 1 << 26;
const _: () = assert!(SEGMENT_MB_MAX as u64 * MIB / BLOCK < WORDS_MAX as u64 / 2);

fn refused() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for ReadOnlyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        match how {
            Open::Read | Open::Existing => {
                Ok(Arc::new(ReadOnlyFile(self.0.open(path, Open::Read)?)))
            }
            Open::Create | Open::Truncate => Err(refused()),
        }
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.0.list(path)
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn has_room_for(&self, files: u64) -> io::Result<()> {
        self.0.has_room_for(files)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
}

#[derive(Debug)]
struct ReadOnlyFile(Arc<dyn File>);

impl File for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buf, position)
    }

    fn write_at(&self, _buf: &[u8], _position: u64) -> io::Result<usize> {
        Err(refused())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(refused())
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync_data(&self) -> io::Result<()> {
        // Nothing was written through this.
        Ok(())
    }

    fn map(&self, capacity: usize) -> io::Result<Box<dyn Map>> {
        let len = usize::try_from(self.0.len()? / 8).unwrap_or(usize::MAX);
        let len = len.min(capacity).min(WORDS_MAX);
        let mut bytes = vec![0; len * 8];
        let read = self.0.read_full_at(&mut bytes, 0)?;
        let words = bytes[..read].chunks_exact(8).map(|word| {
            let word = wire::get_u64(word, 0).unwrap_or(0);
            AtomicU64::new(word.to_be())
        });
        Ok(Box::new(MemoryMap(words.collect())))
    }

    fn is_cached(&self, position: u64) -> bool {
        self.0.is_cached(position)
    }

    fn will_read(&self, position: u64, len: u64) {
        self.0.will_read(position, len);
    }

    fn forget(&self, position: u64, len: u64) {
        self.0.forget(position, len);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }
}
