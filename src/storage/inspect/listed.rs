//! An offset index as it lies on the disk, and whether it fits the frames of its log.

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::model::Offset;
use crate::model::limits::INDEX_INTERVAL_BYTES;
use crate::record::{HEADER_LEN, Header, MAGIC_V1, wire};
use crate::storage::compare::is_medium_error;
use crate::storage::disk::{Disk, File, Open};
use crate::storage::index::{ENTRY_LEN, IndexEntry};

/// The entries of an index file. Nothing says yet that they are right.
#[derive(Debug, Default)]
pub(in crate::storage) struct Listed {
    /// Ascending by position.
    entries: Vec<IndexEntry>,
    /// Something else than zeros stands behind them.
    garbage: bool,
    /// The disk does not give them.
    unreadable: bool,
}

impl Listed {
    /// Reads the index of a log of `log_len` bytes; `None` if there is none.
    pub(in crate::storage) fn read(
        disk: &dyn Disk,
        path: &Path,
        log_len: u64,
    ) -> io::Result<Option<Self>> {
        let file = match disk.open(path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // No log has more frames than this; what is longer is wrong however it goes on.
        let most = (log_len / HEADER_LEN as u64 + 2).saturating_mul(ENTRY_LEN);
        let len = file.len()?.min(most.max(1 << 20));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        match file.read_full_at(&mut bytes, 0) {
            Err(error) if is_medium_error(&error) => {
                Ok(Some(Self { unreadable: true, ..Self::default() }))
            }
            read => Ok(Some(Self::parse(&bytes[..read?]))),
        }
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut entries: Vec<IndexEntry> = Vec::new();
        let mut rest = bytes;
        while let Some((offset, position)) = wire::get_u64(rest, 0).zip(wire::get_u64(rest, 8)) {
            // An entry whose position does not grow ends the list.
            if entries.last().map_or(position != 0, |last| position <= last.position) {
                break;
            }
            entries.push(IndexEntry { offset, position });
            rest = &rest[16..];
        }
        let garbage = rest.iter().any(|&byte| byte != 0);
        Self { entries, garbage, unreadable: false }
    }

    /// The entries for the log's first `end` bytes.
    pub(in crate::storage) fn before(&self, end: u64) -> &[IndexEntry] {
        &self.entries[..self.entries.partition_point(|entry| entry.position < end)]
    }

    /// The entries that stand for a frame of the log's first `end` bytes which says the same: two that agree are believed.
    pub(in crate::storage) fn confirmed(
        &self,
        file: &dyn File,
        end: u64,
    ) -> io::Result<Vec<IndexEntry>> {
        let mut confirmed: Vec<IndexEntry> = Vec::new();
        for entry in self.entries.iter().take_while(|entry| entry.position < end) {
            let grows = confirmed.last().is_none_or(|last| last.offset < entry.offset);
            if grows && stands_for_frame(file, *entry)? {
                confirmed.push(*entry);
            }
        }
        Ok(confirmed)
    }

    /// The last entry at or before `offset` that stands for a frame; `None` to begin at the beginning.
    pub(in crate::storage) fn floor(
        &self,
        file: &dyn File,
        end: u64,
        offset: Offset,
    ) -> io::Result<Option<IndexEntry>> {
        let mut entries = self.before(end).iter().rev();
        // A right one is the first; where the index is wrong, looking on is not worth it.
        match entries.find(|entry| entry.offset <= offset) {
            Some(entry) if stands_for_frame(file, *entry)? => Ok(Some(*entry)),
            _ => Ok(None),
        }
    }
}

fn stands_for_frame(file: &dyn File, entry: IndexEntry) -> io::Result<bool> {
    let mut bytes = [0; HEADER_LEN];
    let read = file.read_full_at(&mut bytes, entry.position)?;
    let header = Header::read(&bytes[..read]);
    Ok(header.is_some_and(|header| header.magic == MAGIC_V1 && header.offset == entry.offset))
}

/// Compares an index with the frames of its log, from the first one to the last.
#[derive(Debug)]
pub(super) struct Comparing<'a> {
    listed: &'a Listed,
    /// Entries compared.
    done: usize,
    /// Position of the last frame listed.
    last: Option<u64>,
    /// What is wrong first.
    wrong: Option<String>,
}

impl<'a> Comparing<'a> {
    pub(super) fn new(listed: &'a Listed) -> Self {
        let wrong = listed.unreadable.then(|| "cannot be read".to_owned());
        Self { listed, done: 0, last: None, wrong }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    /// A frame begins here.
    pub(super) fn frame(&mut self, position: u64, offset: Offset) {
        self.before(position, false);
        match self.listed.entries.get(self.done) {
            Some(entry) if entry.position == position => {
                let found = entry.offset;
                self.done += 1;
                self.last = Some(position);
                if found != offset {
                    self.say(|| format!("says offset {found} of the frame with offset {offset}"));
                }
            }
            _ => {
                let listed = self.last.is_some_and(|last| position < last + INDEX_INTERVAL_BYTES);
                if !listed {
                    self.say(|| format!("has no entry for the frame at byte {position}"));
                }
            }
        }
    }

    /// These bytes are damaged: nobody knows what the entries for them should be.
    pub(super) fn bad(&mut self, positions: &Range<u64>) {
        self.before(positions.start, false);
        self.before(positions.end, true);
    }

    /// Comes to the entries before a position, which no frame was met for.
    fn before(&mut self, position: u64, unknown: bool) {
        while let Some(entry) = self.listed.entries.get(self.done) {
            if entry.position >= position {
                return;
            }
            self.done += 1;
            if unknown {
                self.last = Some(entry.position);
            } else {
                let at = entry.position;
                self.say(|| format!("has an entry for byte {at}, where no frame begins"));
            }
        }
    }

    /// The log ends here. A broker that is `writing` may have listed frames behind it. Returns what is wrong.
    pub(super) fn end(mut self, end: u64, writing: bool) -> Option<String> {
        self.before(end, false);
        if !writing {
            if self.done < self.listed.entries.len() {
                self.say(|| "has entries behind the end of the log".to_owned());
            }
            if self.listed.garbage {
                self.say(|| "has something else than entries behind them".to_owned());
            }
        }
        self.wrong
    }
}
