//! From bytes to messages: frames out of chunks, records out of batches. No I/O.

use bytes::{Buf, Bytes, BytesMut};

use super::error::ConsumeError;
use crate::client::Protocol;
use crate::client::message::Message;
use crate::model::Offset;
use crate::protocol::v1_1::{ControlFrame, Incoming, IncomingError, MAGIC_CONTROL};
use crate::record::{FrameError, FrameLimits, HEADER_LEN, Header, records};

/// Cuts messages out of what was read, and leaves out what the program has had before.
pub(super) struct Decoder {
    /// Read and not yet decoded.
    pub(super) buf: BytesMut,
    max_frame_bytes: u64,
    split_batches: bool,
    /// Whether control frames can come.
    has_control: bool,
    batch: Option<Batch>,
    /// The offset after the last message given, or where the stream goes on.
    next: Option<Offset>,
    /// After a reconnect the broker starts from the committed offset, so records before `next` come again.
    catching_up: bool,
}

/// What stands in the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A message that was not given before.
    Message(Message),
    /// The broker says something.
    Control(ControlFrame),
    /// More bytes are needed.
    Nothing,
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
    pub(super) fn new(max_frame_bytes: u64, split_batches: bool, protocol: Protocol) -> Self {
        Self {
            buf: BytesMut::new(),
            max_frame_bytes,
            split_batches,
            has_control: protocol == Protocol::V1_1,
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

    /// Whether nothing is left of a frame or a batch.
    pub(super) fn is_between_frames(&self) -> bool {
        self.buf.is_empty() && self.batch.is_none()
    }

    /// The offset after the last message given, or where the stream goes on; `None` before the first.
    pub(super) fn position(&self) -> Option<Offset> {
        self.next
    }

    /// What comes next is of another log.
    pub(super) fn begin_anew(&mut self) {
        self.next = None;
    }

    /// The stream goes on at `offset`, wherever it was before.
    pub(super) fn go_on_at(&mut self, offset: Offset) {
        self.next = Some(offset);
        self.catching_up = false;
    }

    /// The next message or control frame that is there.
    pub(super) fn next(&mut self) -> Result<Decoded, ConsumeError> {
        loop {
            if let Some(message) = self.next_of_batch() {
                return Ok(Decoded::Message(message));
            }
            let header = match self.incoming()? {
                Incoming::Frame(header) => header,
                Incoming::Control(control, len) => {
                    self.buf.advance(len);
                    return Ok(Decoded::Control(control));
                }
                Incoming::Incomplete { .. } => return Ok(Decoded::Nothing),
            };
            // A complete frame lies within the buffer, so its length fits `usize`.
            let len = usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
            let frame = self.buf.split_to(len).freeze();
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
            return Ok(Decoded::Message(self.give(Message {
                offset: header.offset,
                timestamp: header.timestamp,
                key,
                payload,
                record_count: header.records(),
                next_offset: header.next_offset(),
            })));
        }
    }

    /// Makes room for the next read. A large frame gets its room as it comes, doubling: a claim alone allocates nothing.
    /// Small reads share a chunk until most of it is used, since messages that are kept would keep a chunk each.
    pub(super) fn make_room(&mut self, read_bytes: usize) {
        let growth = self.missing().min(self.buf.len());
        let spare = self.buf.capacity() - self.buf.len();
        if spare < growth.max(read_bytes / 4).max(1) {
            self.buf.reserve(growth.max(read_bytes).max(1));
        }
    }

    /// How many more bytes the frame at the start of the buffer takes, as far as is known.
    fn missing(&self) -> usize {
        match Incoming::parse(&self.buf, &FrameLimits::STORED) {
            Ok(Incoming::Incomplete { needed }) => {
                usize::try_from(needed).unwrap_or(usize::MAX).saturating_sub(self.buf.len())
            }
            _ => 0,
        }
    }

    /// What stands at the start of the buffer, if it is not too large.
    fn incoming(&self) -> Result<Incoming, ConsumeError> {
        let is_control = self.buf.first() == Some(&MAGIC_CONTROL);
        if is_control && !self.has_control {
            return Err(ConsumeError::BadMagic(MAGIC_CONTROL));
        }
        // The widest limits refuse no size, so that what is too large here is told as such.
        let incoming =
            Incoming::parse(&self.buf, &FrameLimits::STORED).map_err(|error| match error {
                IncomingError::Frame(FrameError::Magic(magic)) => ConsumeError::BadMagic(magic),
                error => ConsumeError::Malformed(error),
            })?;
        let bytes = match &incoming {
            Incoming::Frame(header) => header.frame_len(),
            Incoming::Incomplete { needed } if !is_control => *needed,
            // Their own bound is small.
            _ => 0,
        };
        if bytes > self.max_frame_bytes.max(HEADER_LEN as u64) {
            return Err(ConsumeError::FrameTooLarge { bytes, max: self.max_frame_bytes });
        }
        Ok(incoming)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::FrameBuilder;

    /// Frames back to back from offset 100 on, and the records they hold as they are to be given.
    fn log(frames: &[Vec<u8>]) -> (Vec<u8>, Vec<(Offset, Vec<u8>)>) {
        let (mut bytes, mut expected, mut offset) = (Vec::new(), Vec::new(), 100);
        for lines in frames {
            let batch = lines.len() > 1;
            let end: &[u8] = if batch { b"\n" } else { b"" };
            let payload: Vec<u8> = lines.iter().flat_map(|line| [&[*line], end].concat()).collect();
            let count = u32::try_from(lines.len()).unwrap().max(1);
            let frame = FrameBuilder::new(1).offset(offset).record_count(count);
            frame.write(&payload, &mut bytes).unwrap();
            let records =
                if batch { lines.chunks(1).map(<[u8]>::to_vec).collect() } else { vec![payload] };
            expected.extend((offset..).zip(records));
            offset += u64::from(count);
        }
        (bytes, expected)
    }

    proptest! {
        /// However the stream is cut into reads, and wherever connections break: every record once, in order.
        #[test]
        fn records_come_once_and_in_order(
            frames in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..6), 1..12),
            reads in prop::collection::vec((1usize..80, any::<bool>()), 0..30),
        ) {
            let (bytes, expected) = log(&frames);
            let mut decoder = Decoder::new(1 << 20, true, Protocol::V1_0);
            let mut received = Vec::new();
            let mut take = |decoder: &mut Decoder| {
                while let Decoded::Message(message) = decoder.next().unwrap() {
                    received.push((message.offset, message.payload.to_vec()));
                }
            };
            let mut at = 0;
            for (len, breaks) in reads {
                let end = (at + len).min(bytes.len());
                decoder.make_room(16);
                decoder.buf.extend_from_slice(&bytes[at..end]);
                at = end;
                take(&mut decoder);
                if breaks {
                    decoder.restart();
                    at = 0;
                }
            }
            decoder.buf.extend_from_slice(&bytes[at..]);
            take(&mut decoder);
            prop_assert_eq!(received, expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(0u8..3, 0..400)) {
            if let Some(first) = bytes.first_mut() { *first = 1; }
            let mut decoder = Decoder::new(100, true, Protocol::V1_1);
            decoder.buf.extend_from_slice(&bytes);
            while let Ok(Decoded::Message(_) | Decoded::Control(_)) = decoder.next() {}
            decoder.make_room(8);
            prop_assert!(decoder.buf.capacity() < 4096);
        }
    }
}
