//! Where something is, in words.

pub(super) use crate::cli::words::count;
use crate::server::data_dir::{Finding, Severity, Span};

/// `10..20`, or `10..` where nobody knows the end.
pub(super) fn span(span: &Span) -> String {
    match span.to {
        Some(to) => format!("{}..{to}", span.from),
        None => format!("{}..", span.from),
    }
}

/// A file within a data directory.
pub(super) fn file(partition: &str, file: &str) -> String {
    if partition.is_empty() { file.to_owned() } else { format!("{partition}/{file}") }
}

/// A finding in one line, without how much it matters.
pub(super) fn finding(partition: &str, found: &Finding) -> String {
    let named = |name: &str, range: Option<Span>| {
        range.map(|range| format!("{name} {}, ", span(&range))).unwrap_or_default()
    };
    let (bytes, offsets) = (named("bytes", found.bytes), named("offsets", found.offsets));
    format!("{}: {bytes}{offsets}{}", file(partition, &found.file), found.message)
}

/// One word for how much a finding matters.
pub(super) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Derived => "derived",
        Severity::Damage => "damage",
    }
}
