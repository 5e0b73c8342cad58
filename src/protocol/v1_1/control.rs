//! What the broker tells a consumer between frames.

use super::answer::cut;
use crate::model::Offset;
use crate::protocol::Status;
use crate::record::{Check, FrameError, FrameLimits, HEADER_LEN, Header, MAGIC_V1, check};

/// The magic byte of a control frame.
pub const MAGIC_CONTROL: u8 = 0x10;

/// Bytes of the longest control frame: header, status and the longest message that a length of `u16` could have.
pub const CONTROL_LEN_MAX: usize = HEADER_LEN + 1 + u16::MAX as usize;

/// A status for a consumer, between frames and never inside one (`docs/PROTOCOL.md`, section "Control frames").
///
/// On the wire: a [`Header`] with magic [`MAGIC_CONTROL`], timestamp 0, key_size 0 and record_count 0; the payload is
/// status `u8` and message. Heartbeats are `ok` without a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFrame {
    /// Status code as it came; see [`ControlFrame::status`].
    pub code: u8,
    /// The position that is now valid: the offset of the next frame to come, if one comes.
    pub offset: Offset,
    /// For people; may be empty.
    pub message: String,
}

impl ControlFrame {
    /// All is well, and there is nothing to send.
    pub const fn heartbeat(offset: Offset) -> Self {
        Self { code: Status::Ok.code(), offset, message: String::new() }
    }

    /// Something happened to the consumer.
    pub fn new(status: Status, offset: Offset, message: impl Into<String>) -> Self {
        Self { code: status.code(), offset, message: message.into() }
    }

    /// The status, if the code is a known one.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.code)
    }

    /// Appends the frame to `out`. Of the message go out at most
    /// [`MESSAGE_BYTES_MAX`](crate::model::limits::MESSAGE_BYTES_MAX) bytes, cut between characters.
    pub fn write(&self, out: &mut Vec<u8>) {
        let message = cut(&self.message);
        let header = Header {
            magic: MAGIC_CONTROL,
            timestamp: 0,
            offset: self.offset,
            key_size: 0,
            // The bound of a message is far below this, see `limits`.
            payload_size: u32::try_from(1 + message.len()).unwrap_or(u32::MAX),
            record_count: 0,
        };
        out.extend_from_slice(&header.to_bytes());
        out.push(self.code);
        out.extend_from_slice(message.as_bytes());
    }
}

/// What stands at the start of a consumer's stream, behind the reply to its handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A whole frame of records, of [`Header::frame_len`] bytes.
    Frame(Header),
    /// A control frame, and how many bytes it takes.
    Control(ControlFrame, usize),
    /// The start of one of them; it takes at least `needed` bytes in all to go on.
    Incomplete {
        /// Bytes from the start of the frame: within the limits that were given, or [`CONTROL_LEN_MAX`].
        needed: u64,
    },
}

/// Why bytes are not a consumer's stream, whatever may follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IncomingError {
    /// Neither a frame of records within the limits nor a control frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A control frame has a header that none has.
    #[error("control frame with a {field} of {value}, allowed are {min} to {max}")]
    Control {
        /// Which field of the header.
        field: &'static str,
        /// What it holds.
        value: u32,
        /// Least that it may hold.
        min: u32,
        /// Most that it may hold.
        max: u32,
    },
}

impl Incoming {
    /// Tells a control frame from a frame of records, which must keep within `limits`. What is wrong is said as soon as
    /// the header is there; a wrong magic byte as soon as the first byte is there.
    pub fn parse(bytes: &[u8], limits: &FrameLimits) -> Result<Self, IncomingError> {
        if bytes.first() != Some(&MAGIC_CONTROL) {
            return Ok(match check(bytes, limits)? {
                Check::Complete(header) => Self::Frame(header),
                Check::Incomplete { needed } => Self::Incomplete { needed },
            });
        }
        let Some(header) = Header::read(bytes) else {
            return Ok(Self::Incomplete { needed: HEADER_LEN as u64 });
        };
        check_control(&header)?;
        let needed = header.frame_len();
        // What does not fit `usize` has not arrived either.
        let end = usize::try_from(needed).unwrap_or(usize::MAX);
        let Some(&[code, ref message @ ..]) = bytes.get(HEADER_LEN..end) else {
            return Ok(Self::Incomplete { needed });
        };
        let message = String::from_utf8_lossy(message).into_owned();
        Ok(Self::Control(ControlFrame { code, offset: header.offset, message }, end))
    }
}

fn check_control(header: &Header) -> Result<(), IncomingError> {
    let payload_max = u32::from(u16::MAX) + 1;
    let rules = [
        ("key_size", header.key_size, 0, 0),
        ("payload_size", header.payload_size, 1, payload_max),
        ("record_count", header.record_count, 0, 0),
    ];
    match rules.into_iter().find(|&(_, value, min, max)| value < min || value > max) {
        Some((field, value, min, max)) => Err(IncomingError::Control { field, value, min, max }),
        None => Ok(()),
    }
}

const _: () = assert!(MAGIC_CONTROL != MAGIC_V1);
