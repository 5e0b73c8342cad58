//! The checksums of a segment: what its bytes were when they were accepted, and how much of it is on the disk.
//!
//! A frame has no room for a checksum, so each segment has a `.sum` file beside it: a header, two marks, and one word
//! for each block of 4,096 bytes of the log. The file is memory-mapped: an append writes none of it, but asks once for its
//! length ([`Map::is_whole`]). It survives the process. Byte format: `docs/STORAGE.md`.
//!
//! A mark says how far the log and its checksums were durable together. Marks are written in turn, so that one is whole
//! whenever the other is being written, and each holds a checksum of the words it speaks for: one that reached the disk
//! before its words does not count.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;

use super::compare::is_readable;
use super::crc;
use super::disk::{Disk, File, Map, Open};
use crate::model::Offset;
use crate::record::wire;

/// Bytes of the log that one checksum covers: a page, which is what a disk or a cache loses at once.
pub(super) const BLOCK: u64 = 4096;

/// First word of a file: its kind and version.
const MAGIC: u64 = wire::u64_from(*b"HMQSUM\0\x01");
/// Words of a mark.
const MARK_WORDS: usize = 6;
/// Word that is not 0 if some block was found bad.
const HAS_BAD: usize = 4;
/// Added to an entry's length where its block was found bad.
const BAD: u64 = 0x8000;
/// Where the two marks stand, in words.
const MARKS: [usize; 2] = [8, 16];
/// Where it is written that a mark is durable with all it speaks for. On the disk later than the mark, or never.
const CONFIRMED: usize = 24;
/// All of them.
const ALL_MARKS: [usize; 3] = [CONFIRMED, MARKS[0], MARKS[1]];
/// Where compaction notes what it has done to the segment.
const NOTE: usize = 32;
/// Words of that note.
const NOTE_WORDS: usize = 5;
/// Words before those of the blocks.
const HEADER_WORDS: usize = 64;
/// Words by which the file grows at first.
const FIRST_GROWTH: usize = 512;

/// How far a segment was durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Bytes of the log.
    pub(super) position: u64,
    /// Offset after the last record in them.
    pub(super) next_offset: Offset,
    /// The broker's time at the flush of the last record, in ns since the Unix epoch.
    pub(super) at_ns: u64,
    /// Checksum of the part of the last block before `position`; 0 if that is a whole number of blocks.
    pub(super) partial: u32,
}

/// A mark as it stands in the file.
#[derive(Debug)]
struct WholeMark {
    slot: usize,
    mark: Mark,
    /// Where the mark before it stood.
    from: u64,
    /// Checksum of the words of the whole blocks since then.
    words: u32,
}

/// What compaction has done to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// The segment stands for the log up to here: segments that begin before this offset were merged into it.
    pub(super) covers: Offset,
    /// None of its frames before this offset has a newer one of the same key before this offset.
    pub(super) clean_until: Offset,
    /// The broker's time when its oldest tombstone was compacted first, and when its newest was, in ns since the Unix epoch.
    /// Both are 0 if there is none.
    pub(super) tombstones_ns: [u64; 2],
}

impl Note {
    /// Whether all of its frames were compacted.
    pub(super) fn is_clean(&self) -> bool {
        self.clean_until >= self.covers
    }
}

/// What a file says about its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    /// As far as this, the log and its checksums were durable. At the beginning: nothing.
    Upto(Mark),
    /// No mark is whole that once was.
    Damaged,
}

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing was written yet.
    Empty,
    /// Its first `len` bytes have this checksum.
    Sum {
        /// CRC-32C.
        crc: u32,
        /// 1 to [`BLOCK`].
        len: u64,
        /// The bytes were found to be others.
        bad: bool,
    },
    /// No such entry was ever written: the entry itself is damaged.
    Damaged,
}

/// The checksums of one segment. One writer (under the log's lock); marks are set by whoever flushes.
#[derive(Debug)]
pub(super) struct Checksums {
    /// Replaced by a larger one for a run that is larger than a segment.
    map: RwLock<Box<dyn Map>>,
    file: Arc<dyn File>,
    base: Offset,
}

impl Checksums {
    /// Begins the checksums of a new segment. Empties what is there.
    pub(super) fn create(
        disk: &dyn Disk,
        path: &Path,
        base: Offset,
        created_ns: u64,
        segment_bytes: u64,
    ) -> io::Result<Self> {
        let file = disk.open(path, Open::Truncate)?;
        let sums = Self::map(file, base, segment_bytes)?;
        sums.map.read().grow(FIRST_GROWTH)?;
        sums.set(1, base);
        sums.set(2, created_ns);
        sums.set(3, u64::from(header_check(base, created_ns)));
        sums.set(0, MAGIC);
        Ok(sums)
    }

    /// Opens the checksums of a segment; `None` if there are none that are its own.
    ///
    /// What the disk holds counts, not what an earlier process has left in memory for it: after a failed flush the two
    /// differ. So what can be written is written, and what was written is forgotten and read again, unless nothing was
    /// to be flushed in a log of `log_len` bytes.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        base: Offset,
        segment_bytes: u64,
        log_len: u64,
    ) -> io::Result<Option<Self>> {
        let file = match disk.open(path, Open::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut head = [0; HEADER_WORDS * 8];
        if !is_readable(&*file, 0..head.len() as u64) {
            return Ok(tell_unreadable(path));
        }
        if file.read_full_at(&mut head, 0)? < head.len() || !header_is_of(&head, base) {
            return Ok(None);
        }
        let word = |number: usize| wire::get_u64(&head, number * 8).unwrap_or(0);
        if !MARKS.iter().any(|&mark| word(mark) == log_len) {
            file.sync_data()?;
            file.forget(0, file.len()?);
        }
        // What is touched to see whether the marks count.
        let bytes_for = |len: u64| HEADER_WORDS as u64 * 8 + (len / BLOCK).saturating_mul(8);
        if !MARKS
            .iter()
            .all(|&mark| is_readable(&*file, bytes_for(word(mark + 3))..bytes_for(word(mark))))
        {
            return Ok(tell_unreadable(path));
        }
        Ok(Some(Self::map(file, base, segment_bytes)?))
    }

    fn map(file: Arc<dyn File>, base: Offset, segment_bytes: u64) -> io::Result<Self> {
        let words = HEADER_WORDS + words_for(segment_bytes);
        let there = usize::try_from(file.len()? / 8).unwrap_or(usize::MAX);
        let map = file.map(words.max(there).max(FIRST_GROWTH))?;
        Ok(Self { map: RwLock::new(map), file, base })
    }

    /// Whether the file is as long as it was made; see [`Map::is_whole`].
    pub(super) fn is_whole(&self) -> bool {
        self.map.read().is_whole()
    }

    /// Whether the disk gives all of the file: else it must not be gone through.
    pub(super) fn is_readable(&self) -> bool {
        is_readable(&*self.file, 0..u64::MAX)
    }

    /// When they were begun: with the segment, or when it got them.
    pub(super) fn began_ns(&self) -> u64 {
        self.get_word(2)
    }

    /// Makes room for the checksums of a log of `len` bytes. Fails if the disk is full.
    pub(super) fn reserve(&self, len: u64) -> io::Result<()> {
        let needed = HEADER_WORDS + words_for(len);
        let map = self.map.read();
        if map.words().len() >= needed {
            return Ok(());
        }
        // Twice as much each time, at last the whole mapping: growing waits for the file system, and appends wait for it.
        let wanted = needed.saturating_mul(2).max(FIRST_GROWTH);
        if map.grow(wanted).or_else(|_| map.grow(needed)).is_ok() {
            return Ok(());
        }
        drop(map);
        let larger = self.file.map(needed)?;
        larger.grow(needed)?;
        *self.map.write() = larger;
        Ok(())
    }

    /// Takes over `bytes`, which were written at `start`; `tail` is the checksum of the block so far. There must be room.
    pub(super) fn extend(&self, start: u64, bytes: &[u8], tail: &mut u32) {
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            let within = at % BLOCK;
            let room = usize::try_from(BLOCK - within).unwrap_or(usize::MAX);
            let (chunk, behind) = rest.split_at(room.min(rest.len()));
            *tail = crc::extend(if within == 0 { 0 } else { *tail }, chunk);
            self.put(at / BLOCK, *tail, within + chunk.len() as u64);
            at += chunk.len() as u64;
            rest = behind;
        }
    }

    /// Sets the checksum of the first `len` bytes of a block.
    pub(super) fn put(&self, block: u64, crc: u32, len: u64) {
        debug_assert!((1..=BLOCK).contains(&len));
        self.set(word_of(block), entry_word(block, crc, len));
    }

    /// Writes down that the bytes of a block are not those that were written: for the next start, and for all after it.
    /// There must be an entry for it.
    pub(super) fn put_bad(&self, block: u64) {
        if let Entry::Sum { crc, len, .. } = self.entry(block) {
            self.set(word_of(block), entry_word(block, crc, len | BAD));
            self.set(HAS_BAD, 1);
        }
    }

    /// The same for blocks of a log of `end` bytes whose entries may be damaged, too: those are made up. Under the lock of
    /// whoever flushes.
    pub(super) fn put_all_bad(
        &self,
        blocks: impl Iterator<Item = u64> + Clone,
        end: u64,
    ) -> io::Result<()> {
        let says_nothing = |block: &u64| !matches!(self.entry(*block), Entry::Sum { .. });
        if blocks.clone().any(|block| says_nothing(&block)) {
            self.confirm()?;
            self.reserve(end)?;
        }
        for block in blocks {
            if says_nothing(&block) {
                // What it was nobody knows: a checksum that hardly any bytes have.
                self.put(block, 0, BLOCK.min(end.saturating_sub(block * BLOCK)).max(1));
            }
            self.put_bad(block);
        }
        Ok(())
    }

    /// Has the mark that counts speak for no entry, durably: so that entries can be made anew.
    pub(super) fn confirm(&self) -> io::Result<()> {
        if let Marked::Upto(mark) = self.marked()
            && mark.position > 0
        {
            self.write_mark(CONFIRMED, &mark, mark.position);
            self.sync()?;
        }
        Ok(())
    }

    /// The blocks before `end` that were found bad at some time, as ranges of bytes.
    pub(super) fn known_bad(&self, end: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if self.get_word(HAS_BAD) == 0 {
            return ranges;
        }
        for block in 0..end.div_ceil(BLOCK) {
            if matches!(self.entry(block), Entry::Sum { bad: true, .. }) {
                let range = block * BLOCK..((block + 1) * BLOCK).min(end);
                match ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => ranges.push(range),
                }
            }
        }
        ranges
    }

    /// What is known of a block.
    pub(super) fn entry(&self, block: u64) -> Entry {
        read_entry(block, self.get_word(word_of(block)))
    }

    /// Writes down how far the log is durable, as soon as the next [`Checksums::sync`] is done.
    fn mark(&self, mark: Mark) {
        let [latest, _] = self.whole_marks(MARKS);
        let from = latest.as_ref().map_or(0, |latest| latest.mark.position);
        // Not over the last one that counts.
        let slot = match latest {
            Some(latest) if latest.slot == MARKS[0] => MARKS[1],
            _ => MARKS[0],
        };
        self.write_mark(slot, &mark, from);
    }

    fn write_mark(&self, slot: usize, mark: &Mark, from: u64) {
        let words = self.words_crc(from, mark.position);
        let mut fields = [
            mark.position,
            mark.next_offset,
            mark.at_ns,
            from,
            u64::from(mark.partial) << 32 | u64::from(words),
            0,
        ];
        fields[5] = u64::from(mark_check(self.base, &fields));
        for (number, field) in fields.into_iter().enumerate() {
            self.set(slot + number, field);
        }
    }

    /// Makes checksums and a mark durable. Waits for the disk.
    pub(super) fn sync_with(&self, mark: Mark) -> io::Result<()> {
        if !self.is_whole() {
            // Somebody has cut the file. The log is durable, and its checksums are made anew: what is left of them speaks of
            // less, so nobody is to go by it. Not through the mapping, whose pages may be gone.
            self.file.write_all_at(&[0; 8], 0)?;
            return self.sync();
        }
        self.mark(mark);
        self.sync()?;
        // From now on, checksums that are missing are not late but lost.
        self.write_mark(CONFIRMED, &mark, mark.position);
        Ok(())
    }

    /// How far the log is durable.
    pub(super) fn marked(&self) -> Marked {
        // One of the two may be half-written, not both, and not the first after one was confirmed.
        let there = |slot: usize| (0..MARK_WORDS).any(|n| self.get_word(slot + n) != 0);
        let once_whole = MARKS.into_iter().all(there) || there(CONFIRMED);
        let [latest, _] = self.whole_marks(MARKS);
        for whole in self.whole_marks(ALL_MARKS).into_iter().flatten() {
            let WholeMark { mark, from, words, .. } = whole;
            // Either the power went before its words were on the disk, or they are damaged: then some are nonsense, and
            // what the mark says of the log holds all the same.
            let mut blocks = self.whole_blocks(from, mark.position);
            if self.words_crc(from, mark.position) == words
                || blocks.any(|block| self.entry(block) == Entry::Damaged)
            {
                return Marked::Upto(mark);
            }
        }
        if once_whole && latest.is_none() {
            return Marked::Damaged;
        }
        Marked::Upto(Mark { position: 0, next_offset: self.base, at_ns: 0, partial: 0 })
    }

    /// The marks that were written whole, the furthest first.
    fn whole_marks<const N: usize>(&self, slots: [usize; N]) -> [Option<WholeMark>; N] {
        let mut marks = slots.map(|slot| self.whole_mark(slot));
        marks.sort_by_key(|whole| std::cmp::Reverse(whole.as_ref().map(|w| w.mark.position)));
        marks
    }

    fn whole_mark(&self, slot: usize) -> Option<WholeMark> {
        let fields: [u64; MARK_WORDS] = std::array::from_fn(|n| self.get_word(slot + n));
        let [position, next_offset, at_ns, from, sums, check] = fields;
        let right = check == u64::from(mark_check(self.base, &fields));
        // No segment ends before it begins: that would have offsets given twice.
        if !right || from > position || next_offset < self.base {
            return None;
        }
        let (partial, words) = (sums >> 32, sums & u64::from(u32::MAX));
        let partial = u32::try_from(partial).unwrap_or(0);
        let mark = Mark { position, next_offset, at_ns, partial };
        Some(WholeMark { slot, mark, from, words: u32::try_from(words).unwrap_or(0) })
    }

    /// Whether something stands where a mark or compaction's note does that is not a whole one.
    pub(super) fn has_broken_marks(&self) -> bool {
        let there = |slot: usize, words| (0..words).any(|word| self.get_word(slot + word) != 0);
        let broken = |slot| there(slot, MARK_WORDS) && self.whole_mark(slot).is_none();
        ALL_MARKS.into_iter().any(broken) || there(NOTE, NOTE_WORDS) && self.note().is_none()
    }

    /// What compaction has noted; `None` if it was not here, or if the note is damaged: then it comes again.
    pub(super) fn note(&self) -> Option<Note> {
        note_of(self.base, std::array::from_fn(|word| self.get_word(NOTE + word)))
    }

    /// Notes what compaction has done, or, with `None`, that the segment is written again. Durable with the next
    /// [`Checksums::sync`].
    pub(super) fn set_note(&self, note: Option<Note>) {
        let fields = note.map_or([0; NOTE_WORDS], |note| {
            let [oldest_ns, newest_ns] = note.tombstones_ns;
            let fields = [note.covers, note.clean_until, oldest_ns, newest_ns];
            let check = note_check(self.base, &fields);
            [note.covers, note.clean_until, oldest_ns, newest_ns, check]
        });
        for (word, field) in fields.into_iter().enumerate() {
            // A start asks for all segments: their pages stay clean.
            if self.get_word(NOTE + word) != field {
                self.set(NOTE + word, field);
            }
        }
    }

    /// The note in a file of checksums, if it is whole and one of the marks says that the log has `log_len` bytes. Opens
    /// and maps nothing for longer.
    pub(super) fn peek_note(
        disk: &dyn Disk,
        path: &Path,
        base: Offset,
        log_len: u64,
    ) -> io::Result<Option<Note>> {
        let file = match disk.open(path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut head = [0; HEADER_WORDS * 8];
        if file.read_full_at(&mut head, 0)? < head.len() || !header_is_of(&head, base) {
            return Ok(None);
        }
        let word = |number: usize| wire::get_u64(&head, number * 8).unwrap_or(0);
        let settled = ALL_MARKS.into_iter().any(|slot| word(slot) == log_len);
        Ok(note_of(base, std::array::from_fn(|number| word(NOTE + number))).filter(|_| settled))
    }

    /// Whether something stands where nothing should: between the fields of the header, or behind the entries of a log of
    /// `len` bytes (there, what was once an entry may).
    pub(super) fn has_garbage(&self, len: u64) -> io::Result<bool> {
        let words = self.map.read().words().len();
        let blocks = words.saturating_sub(HEADER_WORDS) as u64;
        let behind = (len.div_ceil(BLOCK)..blocks).any(|n| self.entry(n) == Entry::Damaged);
        let is_field = |word: usize| {
            word <= HAS_BAD
                || ALL_MARKS.iter().any(|mark| (*mark..mark + MARK_WORDS).contains(&word))
                || (NOTE..NOTE + NOTE_WORDS).contains(&word)
        };
        let between = (0..HEADER_WORDS).any(|word| !is_field(word) && self.get_word(word) != 0);
        Ok(behind || between || !self.file.len()?.is_multiple_of(8))
    }

    /// When the segment began, by the broker's clock, in ns since the Unix epoch.
    pub(super) fn created_ns(&self) -> u64 {
        self.get_word(2)
    }

    /// Drops marks that do not count: what they speak of was lost, and will be written anew.
    pub(super) fn drop_other_marks(&self, counts: &Mark) {
        for WholeMark { slot, mark, .. } in self.whole_marks(ALL_MARKS).into_iter().flatten() {
            if mark != *counts {
                (0..MARK_WORDS).for_each(|n| self.set(slot + n, 0));
            }
        }
    }

    /// A mark for a log of `end` bytes whose marks are all gone: each entry has a check of its own.
    pub(super) fn mark_of_entries(&self, end: u64, next_offset: Offset) -> Mark {
        let rest = end % BLOCK;
        let (position, partial) = match self.entry(end / BLOCK) {
            Entry::Sum { crc, len, .. } if len == rest => (end, crc),
            _ => (end - rest, 0),
        };
        Mark { position, next_offset, at_ns: 0, partial }
    }

    /// Checksum of the words of the whole blocks between two positions, as they were written: that a block was found bad
    /// later does not count.
    fn words_crc(&self, from: u64, to: u64) -> u32 {
        self.whole_blocks(from, to).fold(0, |sum, block| {
            let word = match self.entry(block) {
                Entry::Sum { crc, len, bad: true } => entry_word(block, crc, len),
                _ => self.get_word(word_of(block)),
            };
            crc::extend(sum, &wire::u64_bytes(word))
        })
    }

    /// The whole blocks between two positions, as far as there are words for them: a mark may speak of more, if somebody has
    /// cut the file, and then it counts all the same where it needs none of them.
    fn whole_blocks(&self, from: u64, to: u64) -> Range<u64> {
        let words = self.map.read().words().len().saturating_sub(HEADER_WORDS);
        from / BLOCK..(to / BLOCK).min(words as u64)
    }

    /// Makes what is there durable. Waits for the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Cuts the file to the checksums of a log of `len` bytes.
    pub(super) fn seal(&self, len: u64) -> io::Result<()> {
        self.map.read().seal(HEADER_WORDS + words_for(len))
    }

    fn get_word(&self, number: usize) -> u64 {
        let map = self.map.read();
        let word = map.words().get(number);
        word.map_or(0, |word| u64::from_be(word.load(Ordering::Relaxed)))
    }

    fn set(&self, number: usize, value: u64) {
        if let Some(word) = self.map.read().words().get(number) {
            word.store(value.to_be(), Ordering::Relaxed);
        }
    }
}

/// Checksums that the disk does not give are none.
fn tell_unreadable<T>(path: &Path) -> Option<T> {
    tracing::error!(checksums = %path.display(), "cannot be read: as if there were none");
    None
}

/// Words for the blocks of a log of `len` bytes.
fn words_for(len: u64) -> usize {
    usize::try_from(len.div_ceil(BLOCK)).unwrap_or(usize::MAX / 4).min(usize::MAX / 4)
}

fn word_of(block: u64) -> usize {
    usize::try_from(block).unwrap_or(usize::MAX).saturating_add(HEADER_WORDS)
}

fn header_check(base: Offset, created_ns: u64) -> u32 {
    crc::extend(crc::of(&wire::u64_bytes(base)), &wire::u64_bytes(created_ns))
}

fn header_is_of(head: &[u8], base: Offset) -> bool {
    let word = |number: usize| wire::get_u64(head, number * 8);
    let created = word(2).unwrap_or(0);
    let check = Some(u64::from(header_check(base, created)));
    (word(0), word(1), word(3)) == (Some(MAGIC), Some(base), check)
}

/// Check of a mark's first five fields, and of whose they are.
fn mark_check(base: Offset, fields: &[u64; MARK_WORDS]) -> u32 {
    let start = crc::of(&wire::u64_bytes(base));
    fields[..MARK_WORDS - 1]
        .iter()
        .fold(start, |sum, &field| crc::extend(sum, &wire::u64_bytes(field)))
}

fn note_of(base: Offset, fields: [u64; NOTE_WORDS]) -> Option<Note> {
    let [covers, clean_until, oldest_ns, newest_ns, check] = fields;
    let whole = covers > base && check == note_check(base, &fields[..NOTE_WORDS - 1]);
    whole.then_some(Note { covers, clean_until, tombstones_ns: [oldest_ns, newest_ns] })
}

/// Check of a note's fields, and of whose they are.
fn note_check(base: Offset, fields: &[u64]) -> u64 {
    let start = crc::of(&wire::u64_bytes(base));
    u64::from(fields.iter().fold(start, |sum, &field| crc::extend(sum, &wire::u64_bytes(field))))
}

/// Checksum, length and a check of both in the low 16 bits: of the block's number too, so that no entry passes for
/// another's.
fn entry_word(block: u64, crc: u32, len: u64) -> u64 {
    let fields = u64::from(crc) << 32 | len << 16;
    let mixed = (fields ^ block.rotate_right(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fields | mixed >> 48
}

fn read_entry(block: u64, word: u64) -> Entry {
    if word == 0 {
        return Entry::Empty;
    }
    let crc = u32::try_from(word >> 32).unwrap_or(0);
    let len = word >> 16 & 0xffff;
    if !(1..=BLOCK).contains(&(len & !BAD)) || word != entry_word(block, crc, len) {
        return Entry::Damaged;
    }
    Entry::Sum { crc, len: len & !BAD, bad: len & BAD != 0 }
}
