//! `hermitmq log dump`.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use serde::Serialize;

use super::args::{DumpArgs, DumpFormat, PayloadFormat};
use super::{failed, places};
use crate::cli::encode::{base64, hex, quoted};
use crate::cli::failure::Failure;
use crate::server::data_dir::{DataDir, Dumped, DumpedFrame, Finding, Severity};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// A line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Frame {
        partition: &'a str,
        #[serde(flatten)]
        frame: JsonFrame<'a>,
    },
    Finding {
        partition: &'a str,
        #[serde(flatten)]
        finding: &'a Finding,
    },
}

#[derive(Debug, Serialize)]
struct JsonFrame<'a> {
    file: &'a str,
    position: u64,
    offset: u64,
    /// Nanoseconds since the Unix epoch.
    timestamp: u64,
    records: u32,
    /// `null` if it has none.
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
    payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<&'static str>,
}

pub(super) fn run(args: &DumpArgs) -> Result<(), Failure> {
    let dir = DataDir::open(&args.dir).map_err(|error| failed(&error))?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let (mut written, mut damaged) = (Ok(()), 0);
    let mut visit = |partition: &str, dumped: Dumped<'_>| {
        if let Dumped::Finding(finding) = &dumped {
            damaged += usize::from(finding.severity == Severity::Damage);
        }
        written = match args.output {
            DumpFormat::Text => text(&mut output, partition, &dumped, args.payload),
            DumpFormat::Json => json(&mut output, partition, &dumped, args.payload),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let ended = dir.dump(&(args.from..args.to), &mut visit);
    written.and_then(|()| output.flush()).map_err(|error| Failure::output(&error))?;
    ended.map_err(|error| failed(&error))?;
    if damaged > 0 {
        let places = places::count(damaged, "place", "places");
        return Err(Failure::Damaged(format!("damage found: {places}")));
    }
    Ok(())
}

/// `name=value`, separated by spaces.
fn text(
    out: &mut impl Write,
    partition: &str,
    dumped: &Dumped<'_>,
    format: PayloadFormat,
) -> io::Result<()> {
    match dumped {
        Dumped::Frame(frame) => {
            let DumpedFrame { offset, timestamp, records, key, payload, .. } = frame;
            write!(out, "partition={partition} offset={offset} timestamp={timestamp} ")?;
            write!(out, "records={records}")?;
            if !key.is_empty() {
                write!(out, " key={}", value(key, format))?;
            }
            if format == PayloadFormat::None {
                writeln!(out, " payload_bytes={}", payload.len())
            } else {
                writeln!(out, " payload={}", value(payload, format))
            }
        }
        Dumped::Finding(found) => {
            let line = places::finding(partition, found);
            writeln!(out, "{} {line}", places::word(found.severity))
        }
    }
}

fn value(bytes: &[u8], format: PayloadFormat) -> String {
    match format {
        PayloadFormat::Utf8 | PayloadFormat::None => quoted(bytes),
        PayloadFormat::Hex => hex(bytes),
        PayloadFormat::Base64 => base64(bytes),
    }
}

fn json(
    out: &mut impl Write,
    partition: &str,
    dumped: &Dumped<'_>,
    format: PayloadFormat,
) -> io::Result<()> {
    let line = match dumped {
        Dumped::Frame(frame) => Line::Frame { partition, frame: JsonFrame::of(frame, format) },
        Dumped::Finding(finding) => Line::Finding { partition, finding },
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

impl<'a> JsonFrame<'a> {
    fn of(frame: &DumpedFrame<'a>, format: PayloadFormat) -> Self {
        let key = (!frame.key.is_empty()).then(|| encoded(frame.key, format));
        let shown = format != PayloadFormat::None;
        let payload = shown.then(|| encoded(frame.payload, format));
        let (key, key_encoding) = key.unzip();
        let (payload, payload_encoding) = payload.unzip();
        Self {
            file: frame.file,
            position: frame.position,
            offset: frame.offset,
            timestamp: frame.timestamp,
            records: frame.records,
            key,
            key_encoding,
            payload_bytes: frame.payload.len(),
            payload,
            payload_encoding,
        }
    }
}

/// Bytes as they can stand in JSON, and the name of that form.
fn encoded(bytes: &[u8], format: PayloadFormat) -> (String, &'static str) {
    match (format, std::str::from_utf8(bytes)) {
        (PayloadFormat::Utf8 | PayloadFormat::None, Ok(text)) => (text.to_owned(), "utf8"),
        (PayloadFormat::Hex, _) => (hex(bytes), "hex"),
        _ => (base64(bytes), "base64"),
    }
}
