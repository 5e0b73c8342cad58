//! Records as bytes on an output.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::encode;
use super::template::Template;
use crate::client::Message;
use crate::model::{Offset, PartitionId, TopicName};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatName {
    /// The payload byte for byte, and a newline
    Lines,
    /// The payload byte for byte, and nothing between records
    Raw,
    /// An object on a line
    Json,
    /// Two digits for each byte of the payload, and a newline
    Hex,
}

/// What is printed of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    Named(FormatName),
    Template(Template),
}

/// A record, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) partition: PartitionId,
    pub(super) message: &'a Message,
}

/// A record as JSON. The fields that a frame of `hermitmq log dump` has, too, have its names.
#[derive(Serialize)]
struct JsonRecord<'a> {
    topic: &'a str,
    partition: PartitionId,
    offset: Offset,
    /// Ns since the Unix epoch.
    timestamp: u64,
    records: u32,
    /// `null` if it has none.
    key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
    payload_bytes: usize,
    payload: Cow<'a, str>,
    payload_encoding: &'static str,
}

/// Writes records, many with one system call.
#[derive(Debug)]
pub(super) struct Output<W: Write> {
    writer: BufWriter<W>,
    format: Format,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W, format: Format) -> Self {
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, writer), format }
    }

    /// Writes one record.
    pub(super) fn record(&mut self, record: &Shown<'_>) -> io::Result<()> {
        let (out, payload) = (&mut self.writer, &record.message.payload);
        match &self.format {
            Format::Named(FormatName::Raw) => out.write_all(payload),
            Format::Named(FormatName::Lines) => {
                out.write_all(payload)?;
                out.write_all(b"\n")
            }
            Format::Named(FormatName::Hex) => {
                out.write_all(encode::hex(payload).as_bytes())?;
                out.write_all(b"\n")
            }
            Format::Named(FormatName::Json) => {
                serde_json::to_writer(&mut *out, &JsonRecord::of(record))?;
                out.write_all(b"\n")
            }
            Format::Template(template) => template.write(out, record),
        }
    }

    /// Makes what was written visible to the reader.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<'a> JsonRecord<'a> {
    fn of(record: &Shown<'a>) -> Self {
        let message = record.message;
        let key = (!message.key.is_empty()).then(|| encoded(&message.key));
        let (key, key_encoding) = key.unzip();
        let (payload, payload_encoding) = encoded(&message.payload);
        Self {
            topic: record.topic.as_str(),
            partition: record.partition,
            offset: message.offset,
            timestamp: message.timestamp,
            records: message.record_count,
            key,
            key_encoding,
            payload_bytes: message.payload.len(),
            payload,
            payload_encoding,
        }
    }
}

/// Bytes as they can stand in JSON, and the name of that form.
fn encoded(bytes: &[u8]) -> (Cow<'_, str>, &'static str) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), "utf8"),
        Err(_) => (encode::base64(bytes).into(), "base64"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The message at offset 7, of 1.5 s after the epoch.
    pub(in crate::cli) fn message(key: &'static [u8], payload: &'static [u8]) -> Message {
        Message {
            offset: 7,
            timestamp: 1_500_000_000,
            key: key.into(),
            payload: payload.into(),
            record_count: 1,
            next_offset: 8,
        }
    }

    fn written(format: FormatName) -> Vec<u8> {
        let topic = TopicName::parse("t").unwrap();
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes, Format::Named(format));
        for (key, payload) in [(&b""[..], &b"a\r"[..]), (b"k", b""), (b"\xfe", b"\xff\n\0")] {
            let message = message(key, payload);
            output.record(&Shown { topic: &topic, partition: 2, message: &message }).unwrap();
        }
        output.flush().unwrap();
        drop(output);
        bytes
    }

    #[test]
    fn records_are_byte_exact() {
        assert_eq!(written(FormatName::Lines), b"a\r\n\n\xff\n\0\n");
        assert_eq!(written(FormatName::Raw), b"a\r\xff\n\0");
        assert_eq!(written(FormatName::Hex), b"610d\n\nff0a00\n");
    }

    #[test]
    fn json_says_what_is_no_text() {
        let text = String::from_utf8(written(FormatName::Json)).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"topic":"t","partition":2,"offset":7,"timestamp":1500000000,"records":1,"key":null,"payload_bytes":2,"payload":"a\r","payload_encoding":"utf8"}"#
        );
        assert!(
            lines[1].contains(r#""key":"k","key_encoding":"utf8","payload_bytes":0,"payload":"""#)
        );
        assert!(lines[2].contains(r#""key":"/g==","key_encoding":"base64","payload_bytes":3,"#));
        assert!(lines[2].ends_with(r#""payload":"/woA","payload_encoding":"base64"}"#));
    }
}
