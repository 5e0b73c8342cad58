//! What the frames of a workload look like.

use crate::cli::failure::Failure;
use crate::client::raw::{self, HEADER_LEN};
use crate::model::{TopicName, limits};

use super::args::ShapeArgs;

/// Bytes that are written at once, about: large, so that the generator makes few system calls, and small enough to
/// stay in a core's cache.
const CHUNK: usize = 64 * 1024;

/// Frames that are all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a record, in a batch with its newline.
    pub(super) record_size: u32,
    /// Records in a frame.
    pub(super) batch: u32,
}

impl Shape {
    /// Checks that such a frame exists.
    pub(super) fn of(args: ShapeArgs) -> Result<Self, Failure> {
        let shape = Self { record_size: args.record_size, batch: args.batch };
        let max = u64::from(limits::PAYLOAD_MB_DEFAULT) * limits::MIB;
        let payload = shape.frame_len() - HEADER_LEN as u64;
        if payload > max {
            return Err(Failure::Usage(format!(
                "--record-size times --batch is {payload} bytes, a frame may hold {max}"
            )));
        }
        Ok(shape)
    }

    /// Bytes of a frame.
    pub(super) fn frame_len(self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.record_size) * u64::from(self.batch)
    }

    /// Frames that hold at least so many records.
    pub(super) fn frames_for(self, records: u64) -> u64 {
        records.div_ceil(u64::from(self.batch))
    }

    /// Frames that take about so many megabytes; at least one.
    pub(super) fn frames_in_mb(self, mb: u32) -> u64 {
        (u64::from(mb) * 1_000_000 / self.frame_len()).max(1)
    }

    /// Records in so many frames.
    pub(super) fn records_in(self, frames: u64) -> u64 {
        frames * u64::from(self.batch)
    }

    /// As many frames as are written at once, but no more than `most`, and how many that is.
    pub(super) fn chunk(self, most: u64) -> Result<(Vec<u8>, u64), Failure> {
        let count = (CHUNK as u64 / self.frame_len()).clamp(1, most.max(1));
        let mut record = vec![b'x'; self.record_size as usize];
        if self.batch > 1
            && let Some(last) = record.last_mut()
        {
            *last = b'\n';
        }
        let payload = record.repeat(self.batch as usize);
        let frames = raw::frames(&payload, self.batch, 1, usize::try_from(count).unwrap_or(1))
            .map_err(|error| Failure::runtime("cannot make frames", &error))?;
        Ok((frames, count))
    }

    /// A topic for such frames alone.
    pub(super) fn topic(self) -> Result<TopicName, Failure> {
        TopicName::parse(format!("bench-{}x{}", self.batch, self.record_size))
            .map_err(|error| Failure::runtime("cannot name a topic", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_batch() {
        let shape = Shape { record_size: 28, batch: 100 };
        assert_eq!(shape.frame_len(), 2829);
        assert_eq!((shape.frames_for(101), shape.records_in(2)), (2, 200));
        let (bytes, frames) = shape.chunk(u64::MAX).unwrap();
        assert_eq!((bytes.len(), frames), (23 * 2829, 23));
        assert_eq!(bytes[HEADER_LEN..2829].split(|&b| b == b'\n').count(), 101);
        assert_eq!(shape.chunk(3).unwrap().1, 3);
        assert_eq!(shape.topic().unwrap().as_str(), "bench-100x28");
    }

    #[test]
    fn a_frame_larger_than_a_chunk() {
        let shape = Shape { record_size: 1 << 20, batch: 1 };
        assert_eq!(shape.chunk(u64::MAX).unwrap().1, 1);
        assert_eq!(shape.frames_in_mb(1), 1);
        let too_large = ShapeArgs { record_size: 16 << 20, batch: 100 };
        assert_eq!(Shape::of(too_large).unwrap_err().exit_code(), 2);
    }
}
