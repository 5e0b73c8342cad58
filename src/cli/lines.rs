//! Lines out of a stream of bytes, without an allocation for each.

use std::io::{self, Read};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::model::limits;

/// Bytes asked for with each read.
const READ_BYTES: usize = 256 * 1024;

/// Chunks that may wait to be sent; together with their size this bounds the memory of a fast reader.
const CHUNKS_WAITING: usize = 2;

/// Longest line: a longer one could never be a payload.
const LINE_BYTES_MAX: usize = limits::PAYLOAD_MB_MAX as usize * 1024 * 1024;

/// Whole lines as they were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk(Bytes);

impl Chunk {
    /// The lines without their newlines. A line is a slice of the chunk. The last line needs no newline.
    pub(super) fn lines(&self) -> impl Iterator<Item = Bytes> {
        let mut rest = self.0.clone();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let Some(end) = rest.iter().position(|&b| b == b'\n') else {
                return Some(std::mem::take(&mut rest));
            };
            let line = rest.split_to(end);
            let _newline = rest.split_to(1);
            Some(line)
        })
    }
}

/// What was read, in order.
pub(super) type Chunks = mpsc::Receiver<io::Result<Chunk>>;

/// Reads on a thread of its own: standard input blocks, and nothing else should wait for it. The thread ends with the
/// input, with an error, or when the receiver is dropped.
pub(super) fn read(input: impl Read + Send + 'static) -> Chunks {
    let (sender, receiver) = mpsc::channel(CHUNKS_WAITING);
    let failed = sender.clone();
    let reading = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut splitter = Splitter::new(input);
        while let Some(chunk) = splitter.next_chunk().transpose() {
            let last = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || last {
                break;
            }
        }
    });
    if let Err(error) = reading {
        // The channel is empty, so there is room.
        let _ = failed.try_send(Err(error));
    }
    receiver
}

/// Cuts what it reads after the last newline.
struct Splitter<R> {
    input: R,
    /// Read into again and again. A chunk is a copy of just its bytes: what waits for its ack keeps no more than that.
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that hold the beginning of a line.
    filled: usize,
}

impl<R: Read> Splitter<R> {
    fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), filled: 0 }
    }

    /// The lines of the next read that ends one; none at the end of the input.
    fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        loop {
            let searched = self.filled;
            if self.fill()? == 0 {
                let rest = self.take(searched);
                return Ok((!rest.0.is_empty()).then_some(rest));
            }
            let new = &self.buffer[searched..self.filled];
            if let Some(last) = new.iter().rposition(|&b| b == b'\n') {
                return Ok(Some(self.take(searched + last + 1)));
            }
            if self.filled > LINE_BYTES_MAX {
                let message = format!("a line has more than {} MiB", limits::PAYLOAD_MB_MAX);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }

    /// One read behind what is buffered; 0 at the end of the input.
    fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.len() - self.filled < READ_BYTES {
            self.buffer.resize((self.filled * 2).max(2 * READ_BYTES), 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The first `len` bytes; the rest moves to the start.
    fn take(&mut self, len: usize) -> Chunk {
        let chunk = Chunk(Bytes::copy_from_slice(&self.buffer[..len]));
        self.buffer.copy_within(len..self.filled, 0);
        self.filled -= len;
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(buffer.len()).min(self.0.len());
            let (now, later) = self.0.split_at(step);
            buffer[..step].copy_from_slice(now);
            self.0 = later;
            Ok(step)
        }
    }

    fn lines_of(input: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::new(Slow(input, step));
        let mut lines = Vec::new();
        while let Some(chunk) = splitter.next_chunk().unwrap() {
            lines.extend(chunk.lines().map(|line| line.to_vec()));
        }
        lines
    }

    #[test]
    fn lines_are_byte_exact_however_they_arrive() {
        let cases: [(&[u8], &[&[u8]]); 7] = [
            (b"", &[]),
            (b"\n", &[b""]),
            (b"a", &[b"a"]),
            (b"a\n", &[b"a"]),
            (b"a\n\n\nb", &[b"a", b"", b"", b"b"]),
            (b"a\r\n\xff\0\n", &[b"a\r", b"\xff\0"]),
            (b"\nlast without", &[b"", b"last without"]),
        ];
        for (input, want) in cases {
            for step in 1..=input.len().max(1) {
                assert_eq!(lines_of(input, step), want, "{input:?} by {step}");
            }
        }
    }

    #[test]
    fn a_line_longer_than_a_read_is_one_line() {
        let mut input = vec![b'x'; 3 * READ_BYTES + 5];
        input.push(b'\n');
        let lines = lines_of(&input, usize::MAX);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].len(), 3 * READ_BYTES + 5);
    }
}
