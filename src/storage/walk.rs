//! Walking the frames of a segment file: recovery, index rebuilding and lookups all read a log through this.

use std::io;

use super::compare::is_medium_error;
use super::disk::File;
use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::record::{Check, FrameError, FrameLimits, HEADER_LEN, Header, check};

const CHUNK: usize = 64 * 1024;
/// Read at once after a frame so large that its successor lies outside the buffer anyway.
const SMALL_CHUNK: usize = 4 * 1024;

/// What the offsets of successive frames must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offsets {
    /// Each frame begins where the one before ended.
    Exact,
    /// Each frame begins where the one before ended or later: compaction leaves gaps.
    Growing,
    /// Whatever they are: only the lengths count.
    Any,
}

/// Why a position does not hold a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("{0}")]
    NotAFrame(FrameError),
    #[error("the file ends inside a frame of {needed} bytes")]
    Incomplete { needed: u64 },
    #[error("offset {found} where {expected} was expected")]
    Offset { found: Offset, expected: Offset },
    #[error("offset {found} in a segment that ends before {limit}")]
    Beyond { found: Offset, limit: Offset },
}

/// One step of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame at a position.
    Frame(u64, Header),
    /// The end of the range, after a whole frame.
    End,
    /// No frame here; the walk cannot go on.
    Damaged(Damage),
}

/// Walks the frames of a range of a file, reading headers in large chunks and skipping bodies.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    file: &'a dyn File,
    /// Position of the next frame.
    position: u64,
    end: u64,
    expected: Offset,
    /// No frame reaches beyond this offset.
    limit: Offset,
    offsets: Offsets,
    buf: Vec<u8>,
    /// File position of `buf`'s first byte.
    buf_at: u64,
    chunk: usize,
}

/// Tells `before` of what a walk is going to read, in steps; an error of it ends the walk.
pub(super) struct Steps<F> {
    before: F,
    /// It was told of what is before this position.
    told: u64,
}

impl<F: FnMut(u64, u64) -> io::Result<()>> Steps<F> {
    pub(super) fn new(before: F) -> Self {
        Self { before, told: 0 }
    }

    /// The walk has come to `position`.
    pub(super) fn come_to(&mut self, position: u64, end: u64) -> io::Result<()> {
        let len = (CHUNK as u64).min(end.saturating_sub(position));
        if position < self.told || len == 0 {
            return Ok(());
        }
        self.told = position + len;
        (self.before)(position, len)
    }
}

impl<'a> Walk<'a> {
    /// Walks `range` (bytes) of `file`, whose first frame has the offset `expected` (or a later one, if growing).
    pub(super) fn new(
        file: &'a dyn File,
        range: std::ops::Range<u64>,
        expected: Offset,
        offsets: Offsets,
    ) -> Self {
        Self {
            file,
            position: range.start,
            end: range.end,
            expected,
            limit: OFFSET_MAX,
            offsets,
            buf: Vec::new(),
            buf_at: 0,
            chunk: CHUNK,
        }
    }

    /// Takes a frame that reaches beyond `limit` for none: other records have those offsets.
    pub(super) fn below(mut self, limit: Offset) -> Self {
        self.limit = limit.min(OFFSET_MAX);
        self
    }

    /// Reads less at once: for a walk of a few frames.
    pub(super) fn short(mut self) -> Self {
        self.chunk = SMALL_CHUNK + HEADER_LEN;
        self
    }

    /// Position after the last whole frame.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The offset after the last whole frame.
    pub(super) fn next_offset(&self) -> Offset {
        self.expected
    }

    /// The next frame.
    pub(super) fn next(&mut self) -> io::Result<Step> {
        let left = self.end - self.position;
        if left == 0 {
            return Ok(Step::End);
        }
        let bytes = self.header_bytes()?;
        let header = match check(bytes, &FrameLimits::STORED) {
            Err(error) => return Ok(Step::Damaged(Damage::NotAFrame(error))),
            Ok(Check::Complete(header)) => header,
            Ok(Check::Incomplete { needed }) => match Header::read(bytes) {
                Some(header) if needed <= left => header,
                _ => return Ok(Step::Damaged(Damage::Incomplete { needed })),
            },
        };
        if let Some(damage) = self.wrong_offset(&header) {
            return Ok(Step::Damaged(damage));
        }
        let at = self.position;
        self.position += header.frame_len();
        self.expected = header.next_offset();
        Ok(Step::Frame(at, header))
    }

    fn wrong_offset(&self, header: &Header) -> Option<Damage> {
        let right = match self.offsets {
            Offsets::Exact => header.offset == self.expected,
            Offsets::Growing => header.offset >= self.expected,
            Offsets::Any => return None,
        };
        if !right {
            return Some(Damage::Offset { found: header.offset, expected: self.expected });
        }
        let is_beyond = header.next_offset() > self.limit;
        is_beyond.then_some(Damage::Beyond { found: header.offset, limit: self.limit })
    }

    /// The bytes at `position`: a header, or less at the end of the range.
    fn header_bytes(&mut self) -> io::Result<&[u8]> {
        let want = HEADER_LEN.min(usize::try_from(self.end - self.position).unwrap_or(HEADER_LEN));
        let within = self
            .position
            .checked_sub(self.buf_at)
            .and_then(|at| usize::try_from(at).ok())
            .filter(|at| at + want <= self.buf.len());
        let at = if let Some(at) = within {
            at
        } else {
            self.fill()?;
            0
        };
        let end = (at + want).min(self.buf.len());
        Ok(&self.buf[at..end])
    }

    fn fill(&mut self) -> io::Result<()> {
        // After a jump over a large body, the rest of a large chunk would be body again.
        let jumped = self.position > self.buf_at + 2 * self.buf.len() as u64;
        let chunk = if jumped { SMALL_CHUNK.min(self.chunk) } else { self.chunk };
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        self.buf.resize(chunk.min(left), 0);
        self.buf_at = self.position;
        let read = match self.file.read_full_at(&mut self.buf, self.position) {
            Err(error) if is_medium_error(&error) => {
                // What is asked for may stand before what cannot be read.
                self.buf.truncate(HEADER_LEN);
                self.file.read_full_at(&mut self.buf, self.position)?
            }
            read => read?,
        };
        self.buf.truncate(read);
        Ok(())
    }
}
