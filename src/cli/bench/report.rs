//! Results on standard output: a table for people, JSON for programs.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::cli::failure::Failure;

use super::args::OutputFormat;
use super::stats::Percentiles;
pub(super) use super::table::Table;

/// Prints a result in the form that was asked for.
pub(super) fn print(
    format: OutputFormat,
    result: &impl Serialize,
    table: &Table,
) -> Result<(), Failure> {
    let text = match format {
        OutputFormat::Table => table.text(),
        OutputFormat::Json => {
            let json = serde_json::to_string(result);
            json.map_err(|error| Failure::runtime("cannot write the result as JSON", &error))?
                + "\n"
        }
    };
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
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
