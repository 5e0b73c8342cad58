//! Records as bytes on an output.

use std::io::{self, BufWriter, Write};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes records byte for byte, many with one system call.
#[derive(Debug)]
pub(super) struct Output<W: Write> {
    writer: BufWriter<W>,
    raw: bool,
}

impl<W: Write> Output<W> {
    /// An output that ends each record with a newline, or with nothing if `raw`.
    pub(super) fn new(writer: W, raw: bool) -> Self {
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, writer), raw }
    }

    /// Writes one record.
    pub(super) fn record(&mut self, payload: &[u8]) -> io::Result<()> {
        self.writer.write_all(payload)?;
        if self.raw { Ok(()) } else { self.writer.write_all(b"\n") }
    }

    /// Makes what was written visible to the reader.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(raw: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes, raw);
        for record in [&b"a\r"[..], b"", b"\xff\n\0"] {
            output.record(record).unwrap();
        }
        output.flush().unwrap();
        drop(output);
        bytes
    }

    #[test]
    fn records_are_byte_exact() {
        assert_eq!(written(false), b"a\r\n\n\xff\n\0\n");
        assert_eq!(written(true), b"a\r\xff\n\0");
    }
}
