//! Memory-mapped words. One of the two files with `unsafe`; `docs/UNSAFE.md` lists its reasons.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;

use super::disk::Map;
use super::os_disk::allocate;

const WORD: usize = size_of::<AtomicU64>();

/// A shared, writable mapping of a file; see [`Map`].
#[derive(Debug)]
pub(super) struct FileMap {
    map: MmapRaw,
    /// Kept while the mapping may grow.
    file: Mutex<Option<fs::File>>,
    path: PathBuf,
    /// Words backed by the file; never more than the mapping's capacity.
    backed: AtomicUsize,
    capacity: usize,
}

impl FileMap {
    /// Maps `capacity` words of `file`, of which as many as the file holds now can be used.
    pub(super) fn new(file: &fs::File, path: &Path, capacity: usize) -> io::Result<Self> {
        let capacity = capacity.max(1);
        let bytes = capacity
            .checked_mul(WORD)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let map = MmapOptions::new().len(bytes).map_raw(file)?;
        let file = file.try_clone()?;
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let backed = AtomicUsize::new((len / WORD).min(capacity));
        Ok(Self { map, file: Mutex::new(Some(file)), path: path.to_owned(), backed, capacity })
    }
}

impl Map for FileMap {
    #[expect(clippy::cast_ptr_alignment, reason = "a mapping starts at a page boundary")]
    fn words(&self) -> &[AtomicU64] {
        let backed = self.backed.load(Ordering::Acquire);
        // SAFETY: the mapping starts at a page boundary, so it is aligned for `AtomicU64`; `backed` is at most its
        // capacity, and the file has space for that many words, so the memory is readable and writable for as long as
        // `self` lives. (Sealing cuts the file only behind the words in use; whether
        // somebody else has cut it is asked by `is_whole` before each use.) Words are only touched as atomics, so
        // sharing them between threads is no data race. The data directory is locked against other brokers, which would
        // be the only other writers.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), backed) }
    }

    fn grow(&self, words: usize) -> io::Result<()> {
        if words <= self.backed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.file.lock() {
            Some(file) if words <= self.capacity => allocate(file, (words * WORD) as u64)?,
            _ => return Err(io::ErrorKind::StorageFull.into()),
        }
        self.backed.fetch_max(words, Ordering::AcqRel);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        let len = match &*self.file.lock() {
            Some(file) => file.metadata(),
            None => fs::metadata(&self.path),
        };
        let backed = self.backed.load(Ordering::Acquire);
        len.is_ok_and(|found| found.len() >= (backed * WORD) as u64)
    }

    fn seal(&self, words: usize) -> io::Result<()> {
        let file = self.file.lock().take();
        if let Some(file) = file {
            self.backed.fetch_min(words, Ordering::AcqRel);
            let len = (words * WORD) as u64;
            if file.metadata()?.len() != len {
                file.set_len(len)?;
            }
        }
        Ok(())
    }
}
