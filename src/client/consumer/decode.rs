//! From bytes to messages: frames out of chunks, records out of batches. No I/O.

use bytes::{Buf, Bytes, BytesMut};

use super::error::ConsumeError;
use crate::client::message::Message;
use crate::model::Offset;
use crate::record::{Check, FrameError, FrameLimits, HEADER_LEN, Header, check, records};

/// Cuts messages out of what was read, and leaves out what the program has had before.
pub(super) struct Decoder {
    /// Read and not yet decoded.
    pub(super) buf: BytesMut,
    max_frame_bytes: u64,
    split_batches: bool,
    batch: Option<Batch>,
    /// The offset after the last message given.
    next: Option<Offset>,
    /// After a reconnect the broker starts from the committed offset, so records before `next` come again.
    catching_up: bool,
}

/// A batch whose records are given one by one.
struct Batch {
    header: Header,
    key: Bytes,
    /// The lines not given yet.
    lines: Bytes,
    offset: Offset,
    end: Offset,
}

impl Decoder {
    pub(super) fn new(max_frame_bytes: u64, split_batches: bool) -> Self {
        Self {
            buf: BytesMut::new(),
            max_frame_bytes,
            split_batches,
            batch: None,
            next: None,
            catching_up: false,
        }
    }

    /// A new connection, made when all that was complete has been given: the start of a frame that is left is void.
    pub(super) fn restart(&mut self) {
        debug_assert!(self.batch.is_none(), "a batch is given to its end before more is read");
        self.buf.clear();
        self.catching_up = self.next.is_some();
    }

    /// The next message that is there. `Ok(None)`: more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Message>, ConsumeError> {
        loop {
            if let Some(message) = self.next_of_batch() {
                return Ok(Some(message));
            }
            let Some((header, frame)) = self.frame()? else { return Ok(None) };
            if self.is_repeated(header.next_offset()) {
                continue;
            }
            let key_end = HEADER_LEN + header.key_size as usize;
            let key =
                if header.key_size == 0 { Bytes::new() } else { frame.slice(HEADER_LEN..key_end) };
            let mut payload = frame;
            payload.advance(key_end);
            if self.split_batches && records(&payload, header.record_count).is_split() {
                let (offset, end) = (header.offset, header.next_offset());
                self.batch = Some(Batch { header, key, lines: payload, offset, end });
                continue;
            }
            self.catching_up = false;
            return Ok(Some(self.give(Message {
                offset: header.offset,
                timestamp: header.timestamp,
                key,
                payload,
                record_count: header.records(),
                next_offset: header.next_offset(),
            })));
        }
    }

    /// How many more bytes the frame at the start of the buffer takes, once its header is there and within the limit.
    pub(super) fn missing(&self) -> usize {
        match check(&self.buf, &FrameLimits::STORED) {
            Ok(Check::Incomplete { needed }) if needed <= self.max_frame_bytes => {
                usize::try_from(needed).unwrap_or(usize::MAX).saturating_sub(self.buf.len())
            }
            _ => 0,
        }
    }

    fn frame(&mut self) -> Result<Option<(Header, Bytes)>, ConsumeError> {
        let (header, bytes) = match check(&self.buf, &FrameLimits::STORED) {
            Ok(Check::Complete(header)) => (Some(header), header.frame_len()),
            Ok(Check::Incomplete { needed }) => (None, needed),
            Err(FrameError::Magic(magic)) => return Err(ConsumeError::BadMagic(magic)),
            // The widest limits refuse no size; this keeps the function total.
            Err(_) => return Ok(None),
        };
        if bytes > self.max_frame_bytes.max(HEADER_LEN as u64) {
            return Err(ConsumeError::FrameTooLarge { bytes, max: self.max_frame_bytes });
        }
        let Some(header) = header else { return Ok(None) };
        // A complete frame lies within the buffer, so its length fits `usize`.
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Some((header, self.buf.split_to(len).freeze())))
    }

    /// The next record of the batch that has not been given before.
    fn next_of_batch(&mut self) -> Option<Message> {
        loop {
            let batch = self.batch.as_mut()?;
            let Some(newline) = batch.lines.iter().position(|&byte| byte == b'\n') else {
                self.batch = None;
                return None;
            };
            let mut payload = batch.lines.split_to(newline + 1);
            payload.truncate(newline);
            let offset = batch.offset;
            batch.offset = offset.saturating_add(1).min(batch.end);
            let message = Message {
                offset,
                timestamp: batch.header.timestamp,
                key: batch.key.clone(),
                payload,
                record_count: 1,
                next_offset: batch.offset,
            };
            if !self.is_repeated(message.next_offset) {
                self.catching_up = false;
                return Some(self.give(message));
            }
        }
    }

    /// Whether all before `end` was given before the reconnect. Only until the first message that is new, so that a
    /// connection that goes back for another reason hides nothing.
    fn is_repeated(&self, end: Offset) -> bool {
        self.catching_up && self.next.is_some_and(|next| end <= next)
    }

    fn give(&mut self, message: Message) -> Message {
        self.next = Some(message.next_offset);
        message
    }
}
