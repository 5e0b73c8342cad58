//! Looking at records without consuming them: for people and their tools, not for consumers.

use std::io;

use super::partition::Partition;
use crate::model::Offset;
use crate::record::{HEADER_LEN, Header};
use crate::storage::file_slice::FileSlice;
use crate::storage::{Cursor, Fetch, LocateError};

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// Where to begin.
    pub from: PeekFrom,
    /// Most frames.
    pub max_frames: usize,
    /// Most bytes of keys and payloads, all frames together.
    pub max_bytes: usize,
}

/// Where to begin to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeekFrom {
    /// At the frame that holds this offset, or the next one there is.
    Offset(Offset),
    /// At the first frame of this time or later, in ns since the Unix epoch.
    Timestamp(u64),
    /// At the oldest frame.
    Earliest,
    /// So many offsets before the log end, or at the oldest frame.
    BeforeEnd(u64),
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// Frames, in order.
    pub frames: Vec<PeekedFrame>,
    /// Offset to look at next; the log end if that was all.
    pub next_offset: Offset,
    /// What comes next is damaged.
    pub damaged: bool,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedFrame {
    /// Its header.
    pub header: Header,
    /// Its key, or the beginning of it.
    pub key: Vec<u8>,
    /// Its payload, or the beginning of it.
    pub payload: Vec<u8>,
}

/// Nothing could be seen.
#[derive(Debug, thiserror::Error)]
pub enum PeekError {
    /// The place could not be found.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The topic is gone.
    #[error("the topic was deleted")]
    Deleted,
    /// The log could not be read.
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Partition {
    /// Reads frames as consumers are sent them. Waits for the disk: not for a reactor.
    ///
    /// A frame that is larger than what is left of [`Peek::max_bytes`] is cut, and is the last one.
    pub fn peek(&self, peek: &Peek) -> Result<Peeked, PeekError> {
        let mut cursor = self.begin(peek.from)?;
        let mut seen =
            Peeked { frames: Vec::new(), next_offset: self.end_offset(), damaged: false };
        let mut left = peek.max_bytes;
        loop {
            let header = match self.fetch(&mut cursor, HEADER_LEN as u64) {
                Fetch::Slice(slice) => read_header(&slice)?,
                Fetch::Tail => {
                    seen.next_offset = cursor.tail_offset().unwrap_or(seen.next_offset);
                    return Ok(seen);
                }
                Fetch::Deleted => return Err(PeekError::Deleted),
                Fetch::Damaged => {
                    seen.next_offset = cursor.damage_offset().unwrap_or(seen.next_offset);
                    seen.damaged = true;
                    return Ok(seen);
                }
            };
            seen.next_offset = header.offset;
            if seen.frames.len() >= peek.max_frames || left == 0 {
                return Ok(seen);
            }
            // What is asked for begins where the header was found.
            let frame_len = header.frame_len();
            let slice = match self.fetch(&mut cursor, frame_len) {
                Fetch::Slice(slice) if slice.len() == frame_len => slice,
                _ => return Ok(Peeked { damaged: true, ..seen }),
            };
            let frame = read_frame(header, &slice, HEADER_LEN + left)?;
            left -= (frame.key.len() + frame.payload.len()).min(left);
            seen.frames.push(frame);
            seen.next_offset = header.next_offset();
            cursor.advance(frame_len);
        }
    }

    fn begin(&self, from: PeekFrom) -> Result<Cursor, LocateError> {
        match from {
            PeekFrom::Offset(offset) => self.locate(offset),
            PeekFrom::Timestamp(timestamp) => self.locate_time(timestamp),
            PeekFrom::Earliest => Ok(self.resume(self.start_offset())?.0),
            PeekFrom::BeforeEnd(count) => {
                let offset = self.end_offset().saturating_sub(count).max(self.start_offset());
                Ok(self.resume(offset)?.0)
            }
        }
    }
}

fn read_header(slice: &FileSlice) -> io::Result<Header> {
    let mut bytes = [0; HEADER_LEN];
    let read = slice.read(&mut bytes)?;
    Header::read(&bytes[..read]).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn read_frame(header: Header, slice: &FileSlice, max: usize) -> io::Result<PeekedFrame> {
    let mut bytes = vec![0; usize::try_from(slice.len()).unwrap_or(usize::MAX).min(max)];
    let read = slice.read(&mut bytes)?;
    let body = bytes.get(HEADER_LEN..read).unwrap_or_default();
    let key_len = usize::try_from(header.key_size).unwrap_or(usize::MAX).min(body.len());
    let (key, payload) = body.split_at(key_len);
    Ok(PeekedFrame { header, key: key.to_vec(), payload: payload.to_vec() })
}
