//! `hermitmq log verify`.

use serde::Serialize;

use super::args::VerifyArgs;
use super::failed;
use super::places::{count, file, finding, word};
use crate::cli::failure::Failure;
use crate::cli::progress::Progress;
use crate::cli::show::{self, Form, show};
use crate::cli::table::Table;
use crate::server::data_dir::{DataDir, SegmentReport, Severity, Verified};

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// Whether the exit code is 0.
    ok: bool,
    #[serde(flatten)]
    verified: &'a Verified,
    totals: Totals,
}

/// Sums over all partitions.
#[derive(Debug, Default, Serialize)]
struct Totals {
    partitions: usize,
    segments: usize,
    frames: u64,
    records: u64,
    bytes: u64,
    verified_bytes: u64,
    walked_bytes: u64,
    damaged_bytes: u64,
    unflushed_bytes: u64,
    damage: usize,
    derived: usize,
    notes: usize,
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let dir = DataDir::open(&args.dir).map_err(|error| failed(&error))?;
    let progress = Progress::bytes("verifying", Some(dir.bytes()));
    let verified = dir.verify(&mut |bytes| progress.add(bytes)).map_err(|error| failed(&error))?;
    drop(progress);
    let totals = Totals::of(&verified);
    let wrong = totals.damage + if args.strict { totals.derived } else { 0 };
    let report = Report { ok: wrong == 0, verified: &verified, totals };
    match args.output {
        // One line: it may be one of many.
        Form::Json => show::json_line(&report)?,
        form => show(form, &report, |report| text(report.verified, &report.totals))?,
    }
    if wrong > 0 {
        return Err(Failure::Damaged(format!("damage found: {}", count(wrong, "place", "places"))));
    }
    Ok(())
}

impl Totals {
    fn of(verified: &Verified) -> Self {
        let mut totals = Self { partitions: verified.partitions.len(), ..Self::default() };
        for segment in verified.partitions.iter().flat_map(|partition| &partition.segments) {
            totals.segments += 1;
            totals.frames += segment.frames;
            totals.records += segment.records;
            totals.bytes += segment.bytes;
            totals.verified_bytes += segment.verified_bytes;
            totals.walked_bytes += segment.walked_bytes;
            totals.damaged_bytes += segment.damaged_bytes;
            totals.unflushed_bytes += segment.unflushed_bytes;
        }
        for (_, found) in verified.all() {
            match found.severity {
                Severity::Damage => totals.damage += 1,
                Severity::Derived => totals.derived += 1,
                Severity::Note => totals.notes += 1,
            }
        }
        totals
    }
}

fn text(verified: &Verified, totals: &Totals) -> String {
    let head = [
        "segment",
        "state",
        "frames",
        "records",
        "offsets",
        "bytes",
        "verified",
        "walked",
        "unflushed",
    ];
    let mut table = Table::new(&head);
    for partition in &verified.partitions {
        for segment in &partition.segments {
            table.row(cells(&partition.partition, segment));
        }
    }
    let mut found: Vec<_> = verified.all().collect();
    found.sort_by_key(|(_, found)| std::cmp::Reverse(found.severity));
    let found = found.into_iter().map(|(partition, found)| {
        format!("{:<7} {}\n", word(found.severity), finding(partition, found))
    });
    let beside = verified.broker.iter().map(|broker| {
        format!("a broker (process {broker}) has it: only what is flushed was judged\n")
    });
    let sum = format!(
        "{}, {}, {}, {}, {}: {} verified by checksum, {} only walked; {} damaged, {} derived, \
         {}\n",
        count(totals.partitions, "partition", "partitions"),
        count(totals.segments, "segment", "segments"),
        count(totals.frames, "frame", "frames"),
        count(totals.records, "record", "records"),
        count(totals.bytes, "byte", "bytes"),
        totals.verified_bytes,
        totals.walked_bytes,
        totals.damage,
        totals.derived,
        count(totals.notes, "note", "notes"),
    );
    [table.text()].into_iter().chain(found).chain(beside).chain([sum]).collect()
}

fn cells(partition: &str, segment: &SegmentReport) -> Vec<String> {
    let state = format!("{:?}", segment.state).to_lowercase();
    let numbers =
        [segment.bytes, segment.verified_bytes, segment.walked_bytes, segment.unflushed_bytes];
    let mut cells = vec![
        file(partition, &segment.file),
        state,
        segment.frames.to_string(),
        segment.records.to_string(),
        format!("{}..{}", segment.base, segment.next_offset),
    ];
    cells.extend(numbers.iter().map(ToString::to_string));
    cells
}
