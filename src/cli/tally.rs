//! What became of the records of one `hermitmq produce`.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::client::DeliveryError;
use crate::model::Offset;

use super::failure::{Failure, causes};
use super::progress::Progress;
use super::words::{count, short};

/// The outcomes so far. Outcomes arrive on another task than the one that sends.
#[derive(Debug)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
    started: Instant,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Counts {
    stored: u64,
    bytes: u64,
    /// Smallest and largest offset.
    offsets: Option<(Offset, Offset)>,
    /// The failed record that comes first, and why.
    failure: Option<(u64, String)>,
}

impl Tally {
    pub(super) fn new(progress: Progress) -> Self {
        Self { counts: Mutex::default(), started: Instant::now(), progress }
    }

    /// Adds the outcome of record `number`, which holds `bytes`.
    pub(super) fn add(&self, number: u64, bytes: u64, outcome: Result<Offset, DeliveryError>) {
        let mut counts = self.counts();
        match outcome {
            Ok(offset) => {
                self.progress.add(1);
                counts.stored += 1;
                counts.bytes += bytes;
                let (first, last) = counts.offsets.unwrap_or((offset, offset));
                counts.offsets = Some((first.min(offset), last.max(offset)));
            }
            Err(error) => {
                if counts.failure.as_ref().is_none_or(|(first, _)| number < *first) {
                    counts.failure = Some((number, causes(&error)));
                }
            }
        }
    }

    /// Whether any record failed.
    pub(super) fn has_failure(&self) -> bool {
        self.counts().failure.is_some()
    }

    /// The first record that was not stored.
    pub(super) fn failure(&self) -> Option<Failure> {
        let counts = self.counts();
        let (number, why) = counts.failure.as_ref()?;
        let stored = counts.stored;
        Some(Failure::Runtime(format!(
            "record {number} was not stored: {why} ({stored} were stored)"
        )))
    }

    /// The end of a command that was told to stop before the end of its input.
    pub(super) fn interrupted(&self) -> Failure {
        let stored = count(self.counts().stored, "record is", "records are");
        Failure::Runtime(format!("interrupted: {stored} stored, the rest of the input is not"))
    }

    /// Tells a person what was stored; a program has the exit code.
    pub(super) fn summarize(&self) {
        self.progress.clear();
        let mut stderr = io::stderr().lock();
        if stderr.is_terminal() {
            let seconds = self.started.elapsed().as_secs_f64();
            let rate = short(self.rate(seconds));
            // The records are stored whether or not anybody reads this.
            let _ = writeln!(stderr, "{} in {seconds:.1} s, {rate} records/s", self.summary());
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "it is rounded to two digits")]
    fn rate(&self, seconds: f64) -> f64 {
        self.counts().stored as f64 / seconds.max(1e-3)
    }

    /// One line about what was stored.
    fn summary(&self) -> String {
        let counts = self.counts();
        let Counts { stored, bytes, .. } = *counts;
        match counts.offsets {
            Some((first, last)) => {
                let (records, bytes) =
                    (count(stored, "record", "records"), count(bytes, "byte", "bytes"));
                format!("{records}, {bytes}, offsets {first} to {last}")
            }
            None => "no records".to_owned(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole between any two statements, so a panic elsewhere does not spoil them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_the_first_failure() {
        let tally = Tally::new(Progress::hidden());
        assert_eq!(tally.summary(), "no records");
        tally.add(1, 1, Ok(7));
        assert_eq!(tally.summary(), "1 record, 1 byte, offsets 7 to 7");
        let tally = Tally::new(Progress::hidden());
        tally.add(1, 10, Ok(7));
        tally.add(2, 5, Ok(8));
        assert_eq!(tally.summary(), "2 records, 15 bytes, offsets 7 to 8");
        assert!(!tally.has_failure());
        tally.add(4, 1, Err(DeliveryError::Closed));
        tally.add(3, 1, Err(DeliveryError::Rejected { code: 1, message: "".into() }));
        let failure = tally.failure().unwrap().to_string();
        assert!(failure.starts_with("record 3 was not stored: "), "{failure}");
        assert!(failure.ends_with("(2 were stored)"), "{failure}");
    }
}
