//! Errors of storage, one type for each operation.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::model::Offset;

/// A log could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct OpenError {
    /// File or directory at fault.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl OpenError {
    pub(super) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self { path, source }
    }
}

/// A run was not stored. None of its frames is in the log.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk did not take it; later appends may succeed.
    #[error("not written: {0}")]
    Io(#[from] io::Error),
    /// The log takes no more records until a restart: it is closed, or a flush failed, so what was written may be gone, or the
    /// start could neither take over nor cut its end.
    #[error(
        "read-only until a restart: closed, or a flush failed, or the start could not cut the end of the log"
    )]
    ReadOnly,
    /// The partition has no offsets left.
    #[error("no offsets left after {0}")]
    OffsetsExhausted(Offset),
}

/// An offset was not found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// It lies outside log start … log end.
    #[error("offset {offset} is outside {start}..={end}")]
    OutOfRange {
        /// Offset asked for.
        offset: Offset,
        /// First offset kept.
        start: Offset,
        /// Offset after the last record.
        end: Offset,
    },
    /// The bytes where it should be are damaged.
    #[error("segment {segment} is damaged at byte {position}")]
    Damaged {
        /// Base offset of the segment.
        segment: Offset,
        /// Position of the damage, in bytes.
        position: u64,
    },
    /// The disk could not be read.
    #[error("not read: {0}")]
    Io(#[from] io::Error),
}

/// Not everything could be made durable.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// The log is read-only now: what was written may be gone, and nobody is told twice.
    #[error("not flushed, and the partition is read-only until a restart: {0}")]
    Failed(io::Error),
    /// There was no descriptor to reach the directory with, or no space for the name of a segment. Nothing is lost by
    /// that: the next flush makes up for it.
    #[error("not flushed yet: {0}")]
    Postponed(io::Error),
    /// The log was deleted: there is nothing to make durable.
    #[error("the log was deleted")]
    Deleted,
}

impl From<io::Error> for FlushError {
    fn from(error: io::Error) -> Self {
        if is_out_of_descriptors(&error) { Self::Postponed(error) } else { Self::Failed(error) }
    }
}

/// The process or the system has no descriptor left: a file was not even opened.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// There is no space left, or none for this user.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
