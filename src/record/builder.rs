//! Writing frames.

use super::header::{Header, MAGIC_V1};

/// A key or payload that does not fit the format's `u32` sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit a frame")]
pub struct FrameTooLarge {
    /// Bytes given.
    pub bytes: usize,
}

/// What goes into a frame besides its payload.
///
/// ```
/// use hermitmq::record::{FrameBuilder, HEADER_LEN};
///
/// let mut frame = Vec::new();
/// FrameBuilder::new(1_700_000_000_000_000_000).key(b"k1").write(b"hello", &mut frame).unwrap();
/// assert_eq!(frame.len(), HEADER_LEN + 2 + 5);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FrameBuilder<'a> {
    timestamp: u64,
    key: &'a [u8],
    record_count: u32,
    offset: u64,
}

impl<'a> FrameBuilder<'a> {
    /// A frame of one record without a key; `timestamp` in nanoseconds since the Unix epoch.
    pub fn new(timestamp: u64) -> Self {
        Self { timestamp, key: &[], record_count: 1, offset: 0 }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: &'a [u8]) -> Self {
        self.key = key;
        self
    }

    /// Sets the number of records in the payload (0 counts as 1).
    #[must_use]
    pub fn record_count(mut self, count: u32) -> Self {
        self.record_count = count;
        self
    }

    /// Sets the offset. Senders leave it 0: the broker assigns it.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Appends the frame to `out`.
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), FrameTooLarge> {
        let size = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| FrameTooLarge { bytes: bytes.len() })
        };
        let header = Header {
            magic: MAGIC_V1,
            timestamp: self.timestamp,
            offset: self.offset,
            key_size: size(self.key)?,
            payload_size: size(payload)?,
            record_count: self.record_count,
        };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(payload);
        Ok(())
    }
}
