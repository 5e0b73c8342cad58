//! Durations, counted by how long they are.

use std::time::Duration;

use super::Counter;

/// Upper bounds of the buckets, in microseconds. Longer ones are in a bucket of their own.
const BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];

/// How many durations were how long.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One for each bound, and one for what is longer.
    buckets: [Counter; BOUNDS_US.len() + 1],
    sum_ns: Counter,
}

/// What a [`Histogram`] held at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bounds in seconds, ascending, each with how many durations were no longer than that.
    pub buckets: Vec<(f64, u64)>,
    /// All durations.
    pub count: u64,
    /// Their sum, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| bound * 1000 < ns);
        self.buckets[bucket].inc();
        self.sum_ns.add(ns);
    }

    /// What it holds. Durations that are counted meanwhile may be in the sum and not among the buckets, or the reverse.
    pub fn distribution(&self) -> Distribution {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS_US.len());
        for (bound, counter) in BOUNDS_US.iter().zip(&self.buckets) {
            count += counter.get();
            buckets.push((Duration::from_micros(*bound).as_secs_f64(), count));
        }
        count += self.buckets[BOUNDS_US.len()].get();
        let sum = Duration::from_nanos(self.sum_ns.get()).as_secs_f64();
        Distribution { buckets, count, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_of_its_bound_and_in_all_above() {
        let histogram = Histogram::default();
        for us in [50, 51, 1_000, 60_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let Distribution { buckets, count, sum } = histogram.distribution();
        let at = |bound: f64| buckets.iter().find(|(b, _)| *b >= bound).unwrap().1;
        assert_eq!((at(0.000_05), at(0.000_1), at(0.000_5), at(0.001), at(10.0)), (1, 2, 2, 3, 3));
        assert_eq!(count, 4);
        assert!((sum - 60.001_101).abs() < 1e-9, "{sum}");
    }
}
