//! Reading a segment that is compacted: every byte is compared with its checksum before it is believed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::keys::{KeyHash, KeyHasher};
use super::output::Output;
use crate::model::Offset;
use crate::record::{Check, FrameLimits, HEADER_LEN, Header, check};
use crate::storage::checksums::{BLOCK, Checksums, Mark, Note};
use crate::storage::compare::{expected, read_blocks};
use crate::storage::crc;
use crate::storage::segment::Segment;

/// Bytes read at once while one frame follows the other.
const WINDOW: u64 = 64 * BLOCK;
/// Bytes read at once behind a jump.
const SMALL_WINDOW: u64 = 2 * BLOCK;
/// Bytes of a key that are hashed at once.
const PIECE: u64 = 64 * 1024;

/// Why a segment cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// These bytes are not those that were written.
    #[error("bytes {0:?} are damaged")]
    Damaged(Range<u64>),
    /// Nobody knows whether they are.
    #[error("the checksum of byte {0} is damaged; a scrub makes it anew")]
    Unknown(u64),
    /// Retention has deleted it.
    #[error("the segment was deleted meanwhile")]
    Gone,
    /// The disk or the process does not go on.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Told how many bytes are read or written next; ends the pass by `false`.
pub(super) struct Pace<'a> {
    pub(super) pause: &'a mut dyn FnMut(u64) -> bool,
    pub(super) read: u64,
}

impl Pace<'_> {
    pub(super) fn before(&mut self, bytes: u64) -> io::Result<()> {
        if (self.pause)(bytes) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    }
}

/// A frame of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) position: u64,
    pub(super) header: Header,
}

impl Frame {
    pub(super) fn end(&self) -> u64 {
        self.position + self.header.frame_len()
    }

    pub(super) fn has_key(&self) -> bool {
        self.header.key_size > 0
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.has_key() && self.header.payload_size == 0
    }
}

/// A segment being read.
pub(super) struct Source {
    pub(super) segment: Arc<Segment>,
    sums: Checksums,
    mark: Mark,
    buf: Vec<u8>,
    /// Position of the first byte in `buf`, a whole number of blocks.
    at: u64,
    /// Was read last, and not from memory.
    cold: Option<(u64, u64)>,
}

impl Source {
    pub(super) fn new(segment: Arc<Segment>, sums: Checksums, mark: Mark) -> Self {
        Self { segment, sums, mark, buf: Vec::new(), at: 0, cold: None }
    }

    /// The frame at `position`; `None` at the end. `expected` is the offset after the frame before it.
    pub(super) fn frame(
        &mut self,
        position: u64,
        expected: Offset,
        pace: &mut Pace<'_>,
    ) -> Result<Option<Frame>, SourceError> {
        let left = self.mark.position - position;
        if left == 0 {
            return Ok(None);
        }
        let bytes = self.bytes(position, left.min(HEADER_LEN as u64), pace)?;
        let header = match check(bytes, &FrameLimits::STORED) {
            Ok(Check::Complete(header)) => Some(header),
            Ok(Check::Incomplete { needed }) if needed <= left => Header::read(bytes),
            Ok(Check::Incomplete { .. }) | Err(_) => None,
        };
        match header.filter(|header| header.offset >= expected) {
            Some(header) => Ok(Some(Frame { position, header })),
            // The checksums say that this is what was written, and it is no frame.
            None => Err(SourceError::Damaged(position..position + 1)),
        }
    }

    /// Hashes the frame's key.
    pub(super) fn key(
        &mut self,
        frame: &Frame,
        mut hasher: KeyHasher,
        pace: &mut Pace<'_>,
    ) -> Result<KeyHash, SourceError> {
        let start = frame.position + HEADER_LEN as u64;
        self.pieces(start..start + u64::from(frame.header.key_size), pace, |piece| {
            hasher.write(piece);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Appends the frame to the segment that takes this one's place.
    pub(super) fn copy(
        &mut self,
        frame: &Frame,
        output: &mut Output,
        pace: &mut Pace<'_>,
    ) -> Result<(), SourceError> {
        output.begin_frame(frame.header.offset);
        let mut due = 0;
        self.pieces(frame.position..frame.end(), pace, |piece| {
            due += output.append(piece)?;
            Ok(())
        })?;
        if due > 0 {
            pace.before(due)?;
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        range: Range<u64>,
        pace: &mut Pace<'_>,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), SourceError> {
        let mut at = range.start;
        while at < range.end {
            let len = PIECE.min(range.end - at);
            take(self.bytes(at, len, pace)?)?;
            at += len;
        }
        Ok(())
    }

    /// Bytes that are what was written: at most [`PIECE`] of them, within the log.
    fn bytes(
        &mut self,
        position: u64,
        len: u64,
        pace: &mut Pace<'_>,
    ) -> Result<&[u8], SourceError> {
        debug_assert!(len <= PIECE && position + len <= self.mark.position);
        let there = self.at..self.at + self.buf.len() as u64;
        if position < there.start || position + len > there.end {
            // One that reaches over the end of the window, or stands right behind it, is met by going on.
            let goes_on = there.contains(&position) || position == there.end;
            let most = if goes_on { WINDOW } else { SMALL_WINDOW };
            self.fill(position, len.max(most), pace)?;
        }
        let start = usize::try_from(position - self.at).unwrap_or(usize::MAX);
        let end = start + usize::try_from(len).unwrap_or(usize::MAX);
        self.buf.get(start..end).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }

    fn fill(&mut self, position: u64, len: u64, pace: &mut Pace<'_>) -> Result<(), SourceError> {
        self.forget();
        let file = Arc::clone(&self.segment.file);
        let at = position / BLOCK * BLOCK;
        let end = (position + len).next_multiple_of(BLOCK).min(self.mark.position);
        pace.before(end - at)?;
        pace.read += end - at;
        self.cold = (!file.is_cached(at)).then_some((at, end - at));
        self.buf.resize(usize::try_from(end - at).unwrap_or(usize::MAX), 0);
        self.at = at;
        let readable = read_blocks(&*file, &mut self.buf, at)?;
        let mut start = at;
        let blocks = self.buf.chunks(usize::try_from(BLOCK).unwrap_or(usize::MAX));
        for (block, readable) in blocks.zip(readable) {
            let range = start..start + block.len() as u64;
            start = range.end;
            let wrong = match expected(&self.sums, &self.mark, &range) {
                Some(crc) if readable && crc == crc::of(block) => continue,
                None if readable => SourceError::Unknown(range.start),
                _ => SourceError::Damaged(range),
            };
            self.buf.clear();
            return Err(wrong);
        }
        Ok(())
    }

    /// Nobody else has asked for what was read last.
    pub(super) fn forget(&mut self) {
        if let Some((position, len)) = self.cold.take() {
            self.segment.file.forget(position, len);
        }
    }

    /// Writes down what compaction has done to it, durably.
    pub(super) fn set_note(&self, note: Note) -> io::Result<()> {
        self.sums.set_note(Some(note));
        self.sums.sync()
    }

    /// Keeps readers from damage that was met, for good.
    pub(super) fn remember_damage<T>(&self, result: &Result<T, SourceError>) {
        if let Err(SourceError::Damaged(range)) = result {
            self.segment.mark_bad(&self.segment.frames().over(range));
            let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
            blocks.for_each(|block| self.sums.put_bad(block));
        }
    }
}
