//! What became of the records of one `hermitmq produce`.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::client::DeliveryError;
use crate::model::Offset;

use super::failure::{Failure, causes};

/// The outcomes so far. Outcomes arrive on another task than the one that sends.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

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
    /// Adds the outcome of record `number`, which holds `bytes`.
    pub(super) fn add(&self, number: u64, bytes: u64, outcome: Result<Offset, DeliveryError>) {
        let mut counts = self.counts();
        match outcome {
            Ok(offset) => {
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

    /// Tells a person what was stored; a program has the exit code.
    pub(super) fn summarize(&self) {
        let mut stderr = io::stderr().lock();
        if stderr.is_terminal() {
            // The records are stored whether or not anybody reads this.
            let _ = writeln!(stderr, "{}", self.summary());
        }
    }

    /// One line about what was stored.
    fn summary(&self) -> String {
        let counts = self.counts();
        let Counts { stored, bytes, .. } = *counts;
        match counts.offsets {
            Some((first, last)) => {
                format!("{stored} records, {bytes} bytes, offsets {first} to {last}")
            }
            None => "no records".to_owned(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole between any two statements, so a panic elsewhere does not spoil them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_the_first_failure() {
        let tally = Tally::default();
        assert_eq!(tally.summary(), "no records");
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
