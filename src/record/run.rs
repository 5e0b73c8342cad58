//! All complete frames of a buffer as one run: checked once, patched in place, written as it is.

use super::header::{
    Check, FrameError, FrameLimits, HEADER_LEN, Header, OFFSET, RECORD_COUNT, TIMESTAMP, check,
};
use super::wire;
use crate::model::Offset;

/// What [`scan`] found in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Scan {
    /// Bytes of complete frames at the start of the buffer.
    pub len: usize,
    /// Complete frames in them.
    pub frames: usize,
    /// Offsets they take.
    pub records: u64,
    /// What follows them: `Ok(needed)` for the start of a frame that takes `needed` bytes to go on, `Err` for
    /// bytes that are not a frame. The frames before an error are good.
    pub rest: Result<u64, FrameError>,
}

/// Finds all complete frames at the start of `buf`. A `record_count` of 0 is replaced by 1, as it is stored.
pub fn scan(buf: &mut [u8], limits: &FrameLimits) -> Scan {
    let mut scan = Scan { len: 0, frames: 0, records: 0, rest: Ok(HEADER_LEN as u64) };
    loop {
        match check(&buf[scan.len..], limits) {
            Ok(Check::Complete(header)) => {
                if header.record_count == 0 {
                    let at = scan.len + RECORD_COUNT;
                    buf[at..at + 4].copy_from_slice(&wire::u32_bytes(1));
                }
                // A complete frame lies within the buffer, so its length fits `usize`.
                scan.len += usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
                scan.frames += 1;
                scan.records += u64::from(header.records());
            }
            Ok(Check::Incomplete { needed }) => {
                scan.rest = Ok(needed);
                return scan;
            }
            Err(error) => {
                scan.rest = Err(error);
                return scan;
            }
        }
    }
}

/// Complete, checked frames back to back.
#[derive(Debug)]
pub struct Run<'a> {
    bytes: &'a mut [u8],
    frames: usize,
    records: u64,
}

impl<'a> Run<'a> {
    /// The frames that `scan` found in `buf`, at least one.
    pub fn found(buf: &'a mut [u8], scan: &Scan) -> Self {
        debug_assert!(scan.frames > 0);
        Self { bytes: &mut buf[..scan.len], frames: scan.frames, records: scan.records }
    }

    /// Runs that were found one behind the other, as one: the sums of their frames and records.
    #[cfg(feature = "server")]
    pub(crate) fn joined(bytes: &'a mut [u8], frames: usize, records: u64) -> Self {
        debug_assert_eq!(Frames::new(bytes).count(), frames);
        Self { bytes, frames, records }
    }

    /// Scans `bytes`, which must be complete frames, at least one, and nothing else; `None` otherwise.
    pub fn parse(bytes: &'a mut [u8], limits: &FrameLimits) -> Option<Self> {
        let found = scan(bytes, limits);
        let whole = found.frames > 0 && found.len == bytes.len() && found.rest.is_ok();
        whole.then(|| Self::found(bytes, &found))
    }

    /// The bytes, exactly as they are to be stored once the offsets are assigned.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Number of frames, at least 1.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Offsets the run takes.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Gives the frames consecutive offsets from `first` on, in place, and tells `visit` each frame's offset and its
    /// position in the run. Returns the offset after the run.
    pub fn assign_offsets(
        &mut self,
        first: Offset,
        mut visit: impl FnMut(Offset, usize),
    ) -> Offset {
        let mut offset = first;
        let mut at = 0;
        while let Some(header) = self.bytes.get(at..).and_then(Header::read) {
            self.bytes[at + OFFSET..at + OFFSET + 8].copy_from_slice(&wire::u64_bytes(offset));
            visit(offset, at);
            offset += u64::from(header.records());
            at += usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
        }
        debug_assert_eq!(at, self.bytes.len(), "a run is complete frames only");
        debug_assert_eq!(offset - first, self.records);
        offset
    }

    /// Gives all frames the same timestamp, in nanoseconds since the Unix epoch, in place.
    pub fn set_timestamps(&mut self, timestamp: u64) {
        let mut at = 0;
        while let Some(header) = self.bytes.get(at..).and_then(Header::read) {
            self.bytes[at + TIMESTAMP..at + TIMESTAMP + 8]
                .copy_from_slice(&wire::u64_bytes(timestamp));
            at += usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
        }
    }

    /// The frames of the run, in order.
    pub fn iter(&self) -> Frames<'_> {
        Frames { bytes: self.bytes }
    }
}

impl<'a> IntoIterator for &'a Run<'_> {
    type Item = (Header, &'a [u8], &'a [u8]);
    type IntoIter = Frames<'a>;

    fn into_iter(self) -> Frames<'a> {
        self.iter()
    }
}

/// Walks complete frames back to back; stops before anything that is not a whole frame.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    bytes: &'a [u8],
}

impl<'a> Frames<'a> {
    /// The frames at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes not walked yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Frames<'a> {
    /// The header, the key and the payload.
    type Item = (Header, &'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let Ok(Check::Complete(header)) = check(self.bytes, &FrameLimits::STORED) else {
            return None;
        };
        let key_end = HEADER_LEN + header.key_size as usize;
        let end = key_end + header.payload_size as usize;
        let item = (header, &self.bytes[HEADER_LEN..key_end], &self.bytes[key_end..end]);
        self.bytes = &self.bytes[end..];
        Some(item)
    }
}
