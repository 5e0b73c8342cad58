//! What `hermitmq log verify` says of a data directory at rest.

use std::path::Path;

use serde_json::Value;

use super::{hermitmq, run_to_end};

/// The report; its exit code says whether something is damaged.
pub fn verify(data: &Path) -> Value {
    let command = hermitmq(&["log", "verify", data.to_str().unwrap(), "--output", "json"]);
    let output = run_to_end(command, Vec::new());
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let code = if report["ok"] == true { 0 } else { 3 };
    assert_eq!(output.status.code(), Some(code), "{text}");
    report
}

/// Nothing is damaged.
pub fn assert_verifies(data: &Path, what: &str) {
    let report = verify(data);
    assert!(report["ok"] == true && report["totals"]["damage"] == 0, "{what}: {report}");
}

/// All findings of a report.
pub fn findings(report: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    if let Some(found) = report["findings"].as_array() {
        all.extend(found.iter().cloned());
    }
    for part in ["partitions", "segments"] {
        let parts = report[part].as_array().map_or(&[][..], Vec::as_slice);
        all.extend(parts.iter().flat_map(findings));
    }
    all
}
