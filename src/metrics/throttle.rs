//! Lines of the log, held to so many a second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines in one second.
const LINES_PER_SECOND: u32 = 5;

/// Counts what is said within a second: a flood of what clients do must not become a flood of lines.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<(Option<Instant>, u32)>);

impl Throttle {
    /// Whether one more line may be written.
    pub fn allow(&self) -> bool {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let (since, count) = &mut *state;
        if since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1))
        {
            (*since, *count) = (Some(now), 0);
        }
        *count = count.saturating_add(1);
        *count <= LINES_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_few_lines_a_second() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let lines = (0..10_000).filter(|ms| throttle.allow_at(start + Duration::from_millis(*ms)));
        assert_eq!(lines.count(), 50);
    }
}
