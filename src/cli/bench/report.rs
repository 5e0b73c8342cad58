//! Results on standard output: a table for people, JSON for programs.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::show;

use super::args::OutputFormat;
use super::stats::Percentiles;
pub(super) use super::table::Table;

/// Prints a result in the form that was asked for.
pub(super) fn print(
    format: OutputFormat,
    result: &impl Serialize,
    table: &Table,
) -> Result<(), Failure> {
    match format {
        OutputFormat::Table => show::print(table.text().as_bytes()),
        OutputFormat::Json => show::json_line(result),
    }
}

/// Tells a person something that is not the result.
pub(super) fn note(text: &str) {
    // The result does not depend on whether anybody reads it.
    let _ = writeln!(io::stderr().lock(), "hermitmq: {text}");
}

/// Bytes a second in MB.
pub(super) fn mb(bytes_per_sec: f64) -> String {
    format!("{:.1}", bytes_per_sec / 1e6)
}

/// The cells of latencies, in the order of [`LATENCY_HEAD`].
pub(super) fn latency_cells(latency: &Percentiles) -> Vec<String> {
    let values = [latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us];
    values.iter().map(|value| format!("{value:.1}")).collect()
}

/// Heads of the columns of latencies.
pub(super) const LATENCY_HEAD: [&str; 4] = ["p50 us", "p99 us", "p99.9 us", "max us"];
