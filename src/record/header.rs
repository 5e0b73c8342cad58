//! The 29-byte header and the checks that every frame must pass.

use super::wire;
use crate::model::Offset;
use crate::model::limits;

/// Bytes of a frame's header.
pub const HEADER_LEN: usize = 29;

/// The only format version there is so far.
pub const MAGIC_V1: u8 = 0x01;

pub(super) const TIMESTAMP: usize = 1;
pub(super) const OFFSET: usize = 9;
const KEY_SIZE: usize = 17;
const PAYLOAD_SIZE: usize = 21;
pub(super) const RECORD_COUNT: usize = 25;

/// The fixed part of a frame. All integers are big-endian on the wire and on disk.
///
/// | bytes | field | type |
/// |---|---|---|
/// | 0 | magic | `u8` = 1 |
/// | 1–8 | timestamp | `u64`, nanoseconds since the Unix epoch, set by the sender |
/// | 9–16 | offset | `u64`, 0 when sending, set by the broker |
/// | 17–20 | key_size | `u32`, bytes |
/// | 21–24 | payload_size | `u32`, bytes |
/// | 25–28 | record_count | `u32`, records in the payload; 0 counts as 1 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub magic: u8,
    /// Nanoseconds since the Unix epoch, as the sender set it.
    pub timestamp: u64,
    /// Offset of the frame's first record.
    pub offset: Offset,
    /// Bytes of the key.
    pub key_size: u32,
    /// Bytes of the payload.
    pub payload_size: u32,
    /// Records in the payload, as written: 0 counts as 1, see [`Header::records`].
    pub record_count: u32,
}

impl Header {
    /// Reads a header; `None` if there are fewer than [`HEADER_LEN`] bytes. Checks nothing.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            magic: header[0],
            timestamp: wire::get_u64(header, TIMESTAMP)?,
            offset: wire::get_u64(header, OFFSET)?,
            key_size: wire::get_u32(header, KEY_SIZE)?,
            payload_size: wire::get_u32(header, PAYLOAD_SIZE)?,
            record_count: wire::get_u32(header, RECORD_COUNT)?,
        })
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.magic;
        bytes[TIMESTAMP..OFFSET].copy_from_slice(&wire::u64_bytes(self.timestamp));
        bytes[OFFSET..KEY_SIZE].copy_from_slice(&wire::u64_bytes(self.offset));
        bytes[KEY_SIZE..PAYLOAD_SIZE].copy_from_slice(&wire::u32_bytes(self.key_size));
        bytes[PAYLOAD_SIZE..RECORD_COUNT].copy_from_slice(&wire::u32_bytes(self.payload_size));
        bytes[RECORD_COUNT..].copy_from_slice(&wire::u32_bytes(self.record_count));
        bytes
    }

    /// Offsets the frame takes: `record_count`, where 0 counts as 1.
    pub fn records(&self) -> u32 {
        self.record_count.max(1)
    }

    /// The offset after the frame's last record. Saturates; [`check`] keeps stored offsets far from that.
    pub fn next_offset(&self) -> Offset {
        self.offset.saturating_add(u64::from(self.records()))
    }

    /// Bytes of the whole frame: header, key and payload.
    pub fn frame_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.key_size) + u64::from(self.payload_size)
    }
}

/// What a frame may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Largest key, in bytes.
    pub key_bytes: u32,
    /// Largest payload, in bytes.
    pub payload_bytes: u32,
    /// Most records.
    pub record_count: u32,
}

impl FrameLimits {
    /// The widest limits: what frames already on disk are held to. The original stores keys of any length and any
    /// record count, so only the format itself bounds them.
    pub const STORED: Self =
        Self { key_bytes: u32::MAX, payload_bytes: u32::MAX, record_count: u32::MAX };

    /// The limits for frames coming in, with the payload limit in bytes.
    pub fn incoming(payload_bytes: u32) -> Self {
        Self {
            key_bytes: limits::KEY_BYTES_MAX,
            payload_bytes,
            record_count: limits::RECORD_COUNT_MAX,
        }
    }

    /// Bytes of the largest frame within these limits.
    pub fn frame_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.key_bytes) + u64::from(self.payload_bytes)
    }
}

/// Why bytes are not a frame, whatever may follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first byte is not a known format version.
    #[error("unknown magic byte 0x{0:02x}")]
    Magic(u8),
    /// `key_size` is over the limit.
    #[error("key of {size} bytes, the limit is {max}")]
    KeyTooLarge {
        /// Bytes claimed.
        size: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// `payload_size` is over the limit.
    #[error("payload of {size} bytes, the limit is {max}")]
    PayloadTooLarge {
        /// Bytes claimed.
        size: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// `record_count` is over the limit.
    #[error("{count} records in one frame, the limit is {max}")]
    TooManyRecords {
        /// Records claimed.
        count: u32,
        /// Records allowed.
        max: u32,
    },
}

/// What stands at the start of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A whole frame of [`Header::frame_len`] bytes.
    Complete(Header),
    /// The start of a frame; it takes at least `needed` bytes in all to go on (the whole frame, once the header is there).
    Incomplete {
        /// Bytes from the start of the frame.
        needed: u64,
    },
}

/// Checks the start of `bytes` for a frame within `limits`. Sizes are refused as soon as the header is there,
/// before anything is allocated for them; a wrong magic byte as soon as the first byte is there.
pub fn check(bytes: &[u8], limits: &FrameLimits) -> Result<Check, FrameError> {
    if let Some(&magic) = bytes.first()
        && magic != MAGIC_V1
    {
        return Err(FrameError::Magic(magic));
    }
    let Some(header) = Header::read(bytes) else {
        return Ok(Check::Incomplete { needed: HEADER_LEN as u64 });
    };
    if header.key_size > limits.key_bytes {
        return Err(FrameError::KeyTooLarge { size: header.key_size, max: limits.key_bytes });
    }
    if header.payload_size > limits.payload_bytes {
        return Err(FrameError::PayloadTooLarge {
            size: header.payload_size,
            max: limits.payload_bytes,
        });
    }
    if header.record_count > limits.record_count {
        return Err(FrameError::TooManyRecords {
            count: header.record_count,
            max: limits.record_count,
        });
    }
    let needed = header.frame_len();
    if (bytes.len() as u64) < needed {
        return Ok(Check::Incomplete { needed });
    }
    Ok(Check::Complete(header))
}
