//! Acks of protocol 1.0.

use super::Status;
use crate::model::Offset;
use crate::record::wire;

/// Bytes of a produce ack.
pub const ACK_LEN: usize = 9;

/// The whole answer to a commit.
pub const COMMIT_ACK: [u8; 1] = [0x01];

/// The answer to one produced frame: status `u8`, offset `u64` (big-endian).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Status code as it came; see [`Ack::status`].
    pub code: u8,
    /// Offset of the frame's first record if it was stored, else 0.
    pub offset: Offset,
}

impl Ack {
    /// The frame was stored at `offset`.
    pub fn stored(offset: Offset) -> Self {
        Self { code: Status::Ok.code(), offset }
    }

    /// The frame was not stored; try again later.
    pub const NOT_STORED: Self = Self { code: 0xFF, offset: 0 };

    /// The status, if the code is a known one.
    pub fn status(self) -> Option<Status> {
        Status::from_code(self.code)
    }

    /// The ack as bytes.
    pub fn to_bytes(self) -> [u8; ACK_LEN] {
        let mut bytes = [0; ACK_LEN];
        bytes[0] = self.code;
        bytes[1..].copy_from_slice(&wire::u64_bytes(self.offset));
        bytes
    }

    /// Reads an ack; `None` if there are fewer than [`ACK_LEN`] bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { code: *bytes.first()?, offset: wire::get_u64(bytes, 1)? })
    }
}
