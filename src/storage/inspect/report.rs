//! What looking at a partition has found. The names of the fields are those of `--output json`: they stay what they are.

use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::storage::damage::BadRange;

/// Something that cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct InspectError {
    /// File or directory at fault.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: std::io::Error,
}

impl InspectError {
    /// Adds what it happened to.
    pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self { path, source }
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// A file that can be made anew from the log is missing or wrong.
    Derived,
    /// Records are damaged or missing.
    Damage,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bytes are not those that were written, or no frames.
    Damaged,
    /// The log ends in bytes that are not what was accepted, or not the whole of it. Nothing of them was flushed, as far as
    /// is known; a start cuts them off.
    TornTail,
    /// The disk does not give it, or the system does not.
    Unreadable,
    /// The file is shorter than what was flushed of it.
    TooShort,
    /// A sealed file is longer than what was flushed of it.
    TooLong,
    /// Offsets are missing between two segments.
    Gap,
    /// Two segments hold the same offsets.
    Overlap,
    /// There is no offset index.
    IndexMissing,
    /// The offset index disagrees with the log.
    IndexWrong,
    /// There are no checksums.
    ChecksumsMissing,
    /// The checksums are not those of this segment.
    ChecksumsForeign,
    /// The checksums are damaged themselves.
    ChecksumsDamaged,
    /// A segment whose predecessor may not be durable.
    Provisional,
    /// What recovery or a repair has taken out of the log.
    SetAside,
    /// What was being written when the process ended.
    Temporary,
    /// A segment that was merged into the one before it.
    Merged,
    /// A derived file without its segment.
    Orphan,
    /// A segment that was being replaced; a start goes on with it.
    Replacement,
    /// A backup that was not finished.
    Unfinished,
    /// The catalog is not one.
    Catalog,
    /// A partition that is in the catalog has no directory.
    Missing,
    /// Its topic was deleted meanwhile.
    Deleted,
    /// Nothing of HermitMQ's.
    Stranger,
}

impl Kind {
    /// Whether a repair puts it right, if it may `quarantine` or if it need not.
    pub(in crate::storage) fn is_repaired(self, quarantine: bool) -> bool {
        match self {
            Self::Damaged | Self::TooShort | Self::TooLong => quarantine,
            Self::Gap | Self::Overlap | Self::Unfinished | Self::Unreadable => false,
            _ => true,
        }
    }
}

/// A range of bytes or offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The first one.
    pub from: u64,
    /// The one after the last one; `None` where nobody knows.
    pub to: Option<u64>,
}

impl Span {
    pub(in crate::storage) fn bytes(range: &Range<u64>) -> Self {
        Self { from: range.start, to: Some(range.end) }
    }

    pub(in crate::storage) fn offsets(range: &Range<Offset>) -> Self {
        Self { from: range.start, to: Some(range.end).filter(|&end| end < OFFSET_MAX) }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub kind: Kind,
    /// Name of the file, within the partition's directory.
    pub file: String,
    /// Bytes of the file.
    pub bytes: Option<Span>,
    /// Offsets of records.
    pub offsets: Option<Span>,
    /// The same for people.
    pub message: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, kind: Kind, file: &str, message: &str) -> Self {
        let (file, message) = (file.to_owned(), message.to_owned());
        Self { severity, kind, file, bytes: None, offsets: None, message }
    }

    /// Records are damaged or missing.
    pub fn damage(kind: Kind, file: &str, message: &str) -> Self {
        Self::new(Severity::Damage, kind, file, message)
    }

    pub(super) fn derived(kind: Kind, file: &str, message: &str) -> Self {
        Self::new(Severity::Derived, kind, file, message)
    }

    /// Worth knowing.
    pub fn note(kind: Kind, file: &str, message: &str) -> Self {
        Self::new(Severity::Note, kind, file, message)
    }

    pub(super) fn bytes(mut self, range: &Range<u64>) -> Self {
        self.bytes = Some(Span::bytes(range));
        self
    }

    pub(super) fn offsets(mut self, range: &Range<Offset>) -> Self {
        self.offsets = Some(Span::offsets(range));
        self
    }

    pub(super) fn bad(file: &str, bad: &BadRange, message: &str) -> Self {
        Self::damage(Kind::Damaged, file, message).bytes(&bad.positions).offsets(&bad.offsets)
    }
}

/// What a segment is to its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It never changes.
    Sealed,
    /// It is appended to.
    Active,
    /// It follows on the active one, which may not be durable.
    Provisional,
}

/// What looking at one segment has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Name of the log file.
    pub file: String,
    /// Base offset.
    pub base: Offset,
    /// What it is to its log.
    pub state: State,
    /// Whole frames that are good as far as is known.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Offset after the last record.
    pub next_offset: Offset,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes that have the checksum they should have.
    pub verified_bytes: u64,
    /// Bytes without a checksum: only their frames were walked.
    pub walked_bytes: u64,
    /// Bytes in damaged ranges.
    pub damaged_bytes: u64,
    /// Bytes behind the last flush that were not judged: a broker is writing there.
    pub unflushed_bytes: u64,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// What looking at one partition has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionReport {
    /// Name of its directory.
    pub partition: String,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// What is wrong between them and beside them.
    pub findings: Vec<Finding>,
}

impl PartitionReport {
    /// All findings: of the segments and between them.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.segments.iter().flat_map(|segment| &segment.findings).chain(&self.findings)
    }

    /// The worst of them.
    pub fn severity(&self) -> Option<Severity> {
        self.findings().map(|finding| finding.severity).max()
    }
}
