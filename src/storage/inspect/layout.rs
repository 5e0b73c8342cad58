//! Which files there are in a partition's directory, and what each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::report::{Finding, Kind, State};
use crate::model::Offset;
use crate::storage::checksums::Checksums;
use crate::storage::disk::{Disk, Open};
use crate::storage::{replace, segment};

/// Files that are of no use after a crash.
const TEMPORARY: [&str; 3] =
    [replace::IDX_TEMPORARY, replace::SUM_TEMPORARY, replace::WAL_TEMPORARY];

/// What is said of a segment that another one holds.
const MERGED: &str = "was merged into the segment before it; a start removes it";

/// The files of one segment, by name.
#[derive(Debug, Clone)]
pub(in crate::storage) struct Files {
    pub(in crate::storage) base: Offset,
    pub(in crate::storage) state: State,
    pub(in crate::storage) wal: String,
    pub(in crate::storage) idx: String,
    pub(in crate::storage) sum: String,
    /// It is being replaced: these are the files that count.
    pub(in crate::storage) replaced: bool,
    /// Compaction has noted that it stands for the log up to this offset; else its base offset.
    pub(in crate::storage) covers: Offset,
    /// Bytes of the log then; 0 if it is gone.
    pub(in crate::storage) len: u64,
}

/// A partition's directory at one moment.
#[derive(Debug, Default)]
pub(in crate::storage) struct Layout {
    /// Oldest first, those with a provisional name last.
    pub(in crate::storage) segments: Vec<Files>,
    /// What else there is.
    pub(in crate::storage) beside: Vec<Finding>,
}

impl Layout {
    pub(in crate::storage) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Self> {
        let mut names = BTreeMap::<Offset, BTreeSet<String>>::new();
        let mut beside = Vec::new();
        for entry in disk.list(dir)? {
            if let Some((base, extension)) = split(&entry.name).filter(|_| !entry.is_dir) {
                names.entry(base).or_default().insert(extension.to_owned());
            } else {
                let message = "nothing of HermitMQ's; left alone";
                beside.push(Finding::note(Kind::Stranger, &entry.name, message));
            }
        }
        beside.sort_by(|a, b| a.file.cmp(&b.file));
        let has = |base: &Offset, extension: &str| {
            names.get(base).is_some_and(|names| names.contains(extension))
        };
        let named = |base: &Offset| has(base, segment::WAL) || has(base, replace::WAL_SWAP);
        let last = names.keys().rfind(|base| named(base)).copied();
        let mut segments: Vec<Files> = Vec::new();
        let mut merged = BTreeSet::new();
        for base in names.keys().filter(|base| named(base)) {
            if segments.last().is_some_and(|before| before.covers > *base) && last != Some(*base) {
                merged.insert(*base);
                continue;
            }
            let state = if last == Some(*base) { State::Active } else { State::Sealed };
            let replaced = has(base, replace::WAL_SWAP);
            let wal = if replaced { replace::WAL_SWAP } else { segment::WAL };
            let swapped = replaced && has(base, replace::SUM_SWAP);
            let sum = if swapped { replace::SUM_SWAP } else { segment::SUM };
            let mut files = Files::new(*base, state, wal, sum, replaced);
            files.read_state(disk, dir);
            segments.push(files);
        }
        for base in names.keys().filter(|base| has(base, segment::PROVISIONAL)) {
            let (wal, sum) = (segment::PROVISIONAL, segment::SUM);
            segments.push(Files::new(*base, State::Provisional, wal, sum, false));
        }
        for (&base, extensions) in &names {
            if merged.contains(&base) {
                let (name, message) = (format!("{base:020}.{}", segment::WAL), MERGED);
                beside.push(Finding::note(Kind::Merged, &name, message));
                continue;
            }
            let files = segments.iter().find(|files| files.base == base);
            for extension in extensions {
                beside.extend(judge(base, extension, files));
            }
        }
        Ok(Self { segments, beside })
    }
}

impl Files {
    fn new(base: Offset, state: State, wal: &str, sum: &str, replaced: bool) -> Self {
        let name = |extension: &str| format!("{base:020}.{extension}");
        let (wal, idx, sum) = (name(wal), name(segment::IDX), name(sum));
        Self { base, state, wal, idx, sum, replaced, covers: base, len: 0 }
    }

    /// What is gone by now, or cannot be read, is met again where it matters.
    pub(in crate::storage) fn read_state(&mut self, disk: &dyn Disk, dir: &Path) {
        let len = disk.open(&dir.join(&self.wal), Open::Read).and_then(|file| file.len());
        self.len = len.unwrap_or(0);
        let note = Checksums::peek_note(disk, &dir.join(&self.sum), self.base, self.len);
        self.covers = note.ok().flatten().map_or(self.base, |note| note.covers);
    }
}

/// Base offset and extension in a file's name.
fn split(name: &str) -> Option<(Offset, &str)> {
    let (_, extension) = name.split_once('.')?;
    let known = [segment::WAL, segment::IDX, segment::SUM, segment::PROVISIONAL];
    let is_known = known.contains(&extension)
        || TEMPORARY.contains(&extension)
        || [replace::WAL_SWAP, replace::SUM_SWAP].contains(&extension)
        || is_set_aside(extension);
    let base = segment::parse_name(name, extension)?;
    is_known.then_some((base, extension))
}

/// `torn-N` or `bad-N`.
fn is_set_aside(extension: &str) -> bool {
    let number = extension.strip_prefix("torn-").or_else(|| extension.strip_prefix("bad-"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// What a file that is no segment's own has to be told of.
fn judge(base: Offset, extension: &str, files: Option<&Files>) -> Option<Finding> {
    const LEFT: &str = "was being written when the process ended; of no use";
    let name = format!("{base:020}.{extension}");
    let note = |kind, message| Some(Finding::note(kind, &name, message));
    match extension {
        _ if TEMPORARY.contains(&extension) => note(Kind::Temporary, LEFT),
        replace::SUM_SWAP if files.is_none_or(|files| !files.replaced) => {
            note(Kind::Temporary, LEFT)
        }
        replace::WAL_SWAP => note(
            Kind::Replacement,
            "the segment was being replaced; a start or a repair finishes it",
        ),
        segment::IDX | segment::SUM if files.is_none() => {
            note(Kind::Orphan, "belongs to no segment")
        }
        _ if extension.starts_with("torn-") => {
            note(Kind::SetAside, "cut off by recovery or a repair, and kept")
        }
        _ if extension.starts_with("bad-") => {
            note(Kind::SetAside, "taken out of the segment by a repair, and kept")
        }
        _ => None,
    }
}
