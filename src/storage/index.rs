//! The offset index of a segment: where to start looking for an offset.
//!
//! A `.idx` file is a list of 16-byte entries `offset u64, position u64`, big-endian, sorted: one for the segment's
//! first frame, then one for each frame that begins at least [`INDEX_INTERVAL_BYTES`] after the last one listed. It is
//! derived from the log and rebuilt from it whenever the two disagree. The original lists every frame; that is the
//! same format.
//!
//! The file of an active segment is longer than its entries, filled up with zeros: an entry whose position does not
//! grow ends the list.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::compare::is_readable;
use super::disk::{Disk, File, Map, MemoryMap, NoMap, Open};
use crate::model::Offset;
use crate::model::limits::INDEX_INTERVAL_BYTES;
use crate::record::wire;

/// Bytes of an entry.
pub(super) const ENTRY_LEN: u64 = 16;

const FIRST_GROWTH: usize = 256;

/// A frame further than this many bytes behind the last entry before it makes an index incomplete.
pub(super) const COVERAGE_BYTES: u64 = 2 * INDEX_INTERVAL_BYTES;

/// One entry: a frame that begins with this offset stands at this byte of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) offset: Offset,
    pub(super) position: u64,
}

/// A memory-mapped offset index. One writer (under the log's lock), any number of readers (without one).
#[derive(Debug)]
pub(super) struct OffsetIndex {
    map: Box<dyn Map>,
    /// Words of the mapping.
    capacity: usize,
    /// Entries that readers may see; a release store publishes them.
    len: AtomicUsize,
}

impl OffsetIndex {
    /// Opens or creates the index of a segment that can still grow to `segment_bytes`.
    pub(super) fn open_active(
        disk: &dyn Disk,
        path: &Path,
        log_len: u64,
        segment_bytes: u64,
    ) -> io::Result<Self> {
        let mut file = disk.open(path, Open::Create)?;
        if !is_readable(&*file, 0..file.len()?) {
            tracing::error!(index = %path.display(), "cannot be read: it begins anew");
            file = disk.open(path, Open::Truncate)?;
        }
        let entries = file.len()? / ENTRY_LEN + segment_bytes / INDEX_INTERVAL_BYTES + 64;
        Self::map(&*file, entries, log_len)
    }

    /// An index without entries, for a segment whose own cannot be written: lookups walk the segment.
    pub(super) fn none() -> Self {
        Self { map: Box::new(NoMap), len: AtomicUsize::new(0), capacity: 0 }
    }

    /// An index of these entries, in memory alone.
    pub(super) fn in_memory(entries: &[IndexEntry]) -> Self {
        let fields = entries.iter().flat_map(|entry| [entry.offset, entry.position]);
        let words = fields.map(|field| AtomicU64::new(field.to_be())).collect();
        let len = AtomicUsize::new(entries.len());
        Self { map: Box::new(MemoryMap(words)), len, capacity: entries.len() * 2 }
    }

    /// Opens the index of a sealed segment.
    pub(super) fn open_sealed(disk: &dyn Disk, path: &Path, log_len: u64) -> io::Result<Self> {
        let file = disk.open(path, Open::Existing)?;
        if !is_readable(&*file, 0..file.len()?) {
            return Err(rustix::io::Errno::IO.into());
        }
        let entries = file.len()? / ENTRY_LEN;
        let index = Self::map(&*file, entries, log_len)?;
        index.seal()?;
        Ok(index)
    }

    fn map(file: &dyn File, entries: u64, log_len: u64) -> io::Result<Self> {
        let capacity = usize::try_from(entries * 2).unwrap_or(usize::MAX);
        let map = file.map(capacity)?;
        let index = Self { map, capacity, len: AtomicUsize::new(0) };
        index.len.store(index.count_entries(log_len), Ordering::Release);
        Ok(index)
    }

    /// Entries at the start of the file that are sorted and point into a log of `log_len` bytes.
    fn count_entries(&self, log_len: u64) -> usize {
        let words = self.map.words();
        let mut before: Option<IndexEntry> = None;
        let mut len = 0;
        while let Some(entry) = read_entry(words, len) {
            let grows = match before {
                None => entry.position == 0,
                Some(before) => entry.position > before.position && entry.offset > before.offset,
            };
            if !grows || entry.position >= log_len {
                break;
            }
            before = Some(entry);
            len += 1;
        }
        len
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The entry with this number.
    pub(super) fn get(&self, number: usize) -> Option<IndexEntry> {
        if number < self.len() { read_entry(self.map.words(), number) } else { None }
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<IndexEntry> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The last entry at or before `offset`.
    pub(super) fn floor(&self, offset: Offset) -> Option<IndexEntry> {
        if !self.map.is_whole() {
            // Cut by somebody: as if there were none.
            return None;
        }
        let words = self.map.words();
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match read_entry(words, middle) {
                Some(entry) if entry.offset <= offset => low = middle + 1,
                _ => high = middle,
            }
        }
        read_entry(words, low.checked_sub(1)?)
    }

    /// The last entry at or before a position of the log.
    pub(super) fn floor_position(&self, position: u64) -> Option<IndexEntry> {
        if !self.map.is_whole() {
            return None;
        }
        self.get(self.count_before(position + 1).checked_sub(1)?)
    }

    /// Whether the file is as long as it was made: else it must not be read.
    pub(super) fn is_whole(&self) -> bool {
        self.map.is_whole()
    }

    /// Entries for frames before a position of the log.
    pub(super) fn count_before(&self, position: u64) -> usize {
        let words = self.map.words();
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match read_entry(words, middle) {
                Some(entry) if entry.position < position => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Takes back the entries from number `len` on. Only for an index that nobody else sees yet.
    pub(super) fn truncate(&self, len: usize) {
        let words = self.map.words();
        for word in words.iter().take(self.len() * 2).skip(len * 2) {
            word.store(0, Ordering::Relaxed);
        }
        self.len.fetch_min(len, Ordering::AcqRel);
    }

    /// Appends the entries of a run, unless somebody has cut the file.
    pub(super) fn push_all(&self, entries: impl ExactSizeIterator<Item = IndexEntry>) {
        if entries.len() > 0 && self.map.is_whole() {
            entries.for_each(|entry| self.push(entry));
        }
    }

    /// Appends an entry. An index that cannot grow (full disk) stays as it is: lookups only take longer.
    pub(super) fn push(&self, entry: IndexEntry) {
        let len = self.len.load(Ordering::Relaxed);
        let needed = (len + 1) * 2;
        if self.map.words().len() < needed {
            // Twice as much each time, at last the whole mapping: growing waits for the file system, and appends wait
            // for it.
            let wanted = (needed * 2).max(FIRST_GROWTH * 2).min(self.capacity);
            if self.map.grow(wanted).is_err() && self.map.grow(needed).is_err() {
                return;
            }
        }
        let words = self.map.words();
        words[len * 2].store(entry.offset.to_be(), Ordering::Relaxed);
        words[len * 2 + 1].store(entry.position.to_be(), Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Release);
    }

    /// Cuts the file to its entries. The index takes no more of them.
    pub(super) fn seal(&self) -> io::Result<()> {
        self.map.seal(self.len() * 2)
    }
}

fn read_entry(words: &[AtomicU64], number: usize) -> Option<IndexEntry> {
    let offset = words.get(number * 2)?.load(Ordering::Relaxed);
    let position = words.get(number * 2 + 1)?.load(Ordering::Relaxed);
    Some(IndexEntry { offset: u64::from_be(offset), position: u64::from_be(position) })
}

/// Chooses the frames of a log that get an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IndexPolicy {
    /// Position from which on the next frame gets an entry.
    next_at: u64,
}

impl IndexPolicy {
    /// Goes on behind the entries there are.
    pub(super) fn after(index: &OffsetIndex) -> Self {
        let next_at = index.last().map_or(0, |entry| entry.position + INDEX_INTERVAL_BYTES);
        Self { next_at }
    }

    /// Whether the frame that begins at `position` gets an entry.
    pub(super) fn wants(&mut self, position: u64) -> bool {
        let wanted = position >= self.next_at;
        if wanted {
            self.next_at = position + INDEX_INTERVAL_BYTES;
        }
        wanted
    }
}

fn to_bytes(entries: &[IndexEntry]) -> Vec<u8> {
    entries
        .iter()
        .flat_map(|entry| [wire::u64_bytes(entry.offset), wire::u64_bytes(entry.position)])
        .flatten()
        .collect()
}

/// Whether the file holds exactly these entries.
pub(super) fn holds(disk: &dyn Disk, path: &Path, entries: &[IndexEntry]) -> bool {
    let wanted = to_bytes(entries);
    let mut found = vec![0; wanted.len() + 1];
    let read = disk.open(path, Open::Existing).and_then(|file| file.read_full_at(&mut found, 0));
    read.is_ok_and(|read| found[..read] == wanted)
}

/// Writes a new index beside the old one and puts it in its place, durably.
pub(super) fn replace(disk: &dyn Disk, path: &Path, entries: &[IndexEntry]) -> io::Result<()> {
    let bytes = to_bytes(entries);
    let temporary = path.with_extension("idx.tmp");
    let file = disk.open(&temporary, Open::Truncate)?;
    file.write_all_at(&bytes, 0)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}
