//! Numbers out of measurements: rates, medians, percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::cli::failure::Failure;

/// Longest latency that is told apart from longer ones.
const LATENCY_MAX: Duration = Duration::from_mins(1);

/// Latencies as they come in. Three digits of each are kept.
#[derive(Debug)]
pub(super) struct Latencies(Histogram<u64>);

/// Percentiles of latencies, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
}

impl Latencies {
    pub(super) fn new() -> Result<Self, Failure> {
        let histogram = Histogram::new_with_bounds(1, nanos(LATENCY_MAX), 3);
        histogram.map(Self).map_err(|error| Failure::runtime("cannot keep latencies", &error))
    }

    pub(super) fn add(&mut self, latency: Duration) {
        self.0.saturating_record(nanos(latency));
    }

    pub(super) fn merge(&mut self, other: &Self) -> Result<(), Failure> {
        self.0.add(&other.0).map_err(|error| Failure::runtime("cannot add latencies", &error))
    }

    pub(super) fn percentiles(&self) -> Percentiles {
        let at = |quantile| micros(self.0.value_at_quantile(quantile));
        Percentiles {
            count: self.0.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.0.max()),
        }
    }
}

/// Whole nanoseconds, as far as they fit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are less than 2^53 ns")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// How many of `amount` there were in a second.
#[expect(clippy::cast_precision_loss, reason = "amounts are less than 2^53")]
pub(super) fn rate(amount: u64, elapsed: Duration) -> f64 {
    // A clock that did not move says nothing, but must not make an infinity.
    amount as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// The middle value; of an even number of values the mean of the two in the middle. 0 without any.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => 0.0,
        (_, 1) => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (values, want) in [
            (&[][..], 0.0),
            (&[3.0][..], 3.0),
            (&[9.0, 1.0, 2.0][..], 2.0),
            (&[4.0, 1.0, 2.0, 9.0][..], 3.0),
        ] {
            assert!((median(values) - want).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn rates() {
        assert!((rate(500, Duration::from_millis(250)) - 2000.0).abs() < 1e-9);
        assert!(rate(1, Duration::ZERO).is_finite());
    }

    #[test]
    fn percentiles_of_a_thousand() {
        let (mut odd, mut even) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        for i in 1..=1000 {
            if i % 2 == 1 { &mut odd } else { &mut even }.add(Duration::from_micros(i));
        }
        odd.merge(&even).unwrap();
        let found = odd.percentiles();
        assert_eq!(found.count, 1000);
        for (value, want) in [
            (found.p50_us, 500.0),
            (found.p99_us, 990.0),
            (found.p999_us, 999.0),
            (found.max_us, 1000.0),
        ] {
            assert!((value - want).abs() / want < 0.002, "{value} is not {want}");
        }
    }

    #[test]
    fn extremes_are_kept() {
        let mut latencies = Latencies::new().unwrap();
        latencies.add(Duration::ZERO);
        latencies.add(Duration::from_hours(1));
        assert_eq!(latencies.percentiles().count, 2);
    }
}
