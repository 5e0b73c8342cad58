//! No byte of a log is thrown away by a start, and none that was flushed is even cut.

use super::log_dir::Files;
use super::sum_file;

/// Holds what a start has left against what it found: of each log the beginning is there, no less of it than its
/// checksums claim to be durable, and the rest is kept beside it.
pub fn assert_kept(before: &Files, after: &Files) {
    for (name, found) in before {
        let Some((base, provisional)) = log_base(name) else { continue };
        let beside = |bytes: &[u8]| {
            let prefix = format!("{base}.torn-");
            let mut torn = after.iter().filter(|(name, _)| name.starts_with(&prefix));
            bytes.is_empty() || torn.any(|(_, kept)| kept == bytes)
        };
        let sums = before.get(&format!("{base}.sum"));
        let claimed = sums.map_or(0, |sums| sum_file::claimed(sums, base.parse().unwrap()));
        let least = usize::try_from(claimed).unwrap_or(usize::MAX).min(found.len());
        let kept = |extension| {
            after.get(&format!("{base}.{extension}")).is_some_and(|now| {
                found.starts_with(now) && now.len() >= least && beside(&found[now.len()..])
            })
        };
        // A provisional segment that does not follow is set aside whole.
        assert!(
            kept("wal") || provisional && (kept("wal.new") || beside(found)),
            "{name}: {} bytes, of which {least} were flushed, are neither there nor kept beside",
            found.len(),
        );
    }
}

/// Base offset in the name of a log file, in digits, and whether the name is provisional.
fn log_base(name: &str) -> Option<(&str, bool)> {
    let provisional = name.strip_suffix(".wal.new");
    let base = provisional.or_else(|| name.strip_suffix(".wal"))?;
    base.parse::<u64>().ok().map(|_| (base, provisional.is_some()))
}

/// The logs by their bases, whatever they are called for now.
pub fn logs(files: &Files) -> Vec<(&str, &[u8])> {
    files.iter().filter_map(|(name, bytes)| Some((log_base(name)?.0, &bytes[..]))).collect()
}
