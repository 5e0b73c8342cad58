//! The same line again and again: what a client can cause without end must not fill a disk.
//!
//! Each place in the source may log so many lines in a period; those beyond it are counted, and the count is logged once the
//! period is over and the place speaks again. Lines at debug and below are for whoever looks for them: they pass. So do those for
//! whoever audits: many principals speak from one place there, and each is held to a number of its own where that is needed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// Lines that one place may log in a period.
const LINES_PER_PERIOD: u32 = 100;

const PERIOD: Duration = Duration::from_secs(10);

/// The target of lines for whoever audits.
const AUDIT: &str = "hermitmq::audit";

/// Holds back repeats.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    places: Mutex<HashMap<Identifier, Place>>,
}

/// What one place has said in its period.
#[derive(Debug)]
struct Place {
    since: Instant,
    lines: u32,
    held_back: u64,
}

impl Place {
    /// Whether another line may pass now; and how many of the period that has ended did not.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut held_back = 0;
        if now.saturating_duration_since(self.since) >= PERIOD {
            held_back = self.held_back;
            *self = Self { since: now, lines: 0, held_back: 0 };
        }
        let passes = self.lines < LINES_PER_PERIOD;
        if passes {
            self.lines += 1;
        } else {
            self.held_back += 1;
        }
        (passes, held_back)
    }
}

fn is_counted(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && *metadata.level() <= Level::INFO && metadata.target() != AUDIT
}

/// As a part of the filter of the log: what the log does not want is not counted, and nobody else misses what is held back.
impl<S> Filter<S> for Repeats {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // What may be held back must be asked about each time, or tracing-subscriber loses count of its filters.
        if is_counted(metadata) { Interest::sometimes() } else { Interest::always() }
    }

    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if !is_counted(metadata) {
            return true;
        }
        let now = Instant::now();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Place { since: now, lines: 0, held_back: 0 };
        let (passes, held_back) = places.entry(metadata.callsite()).or_insert(fresh).admit(now);
        // The next line is another one's.
        drop(places);
        if held_back > 0 {
            let (file, line) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or(0));
            tracing::warn!(lines = held_back, file, line, "lines like the next one were held back");
        }
        passes
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_ends_with_its_period() {
        let begun = Instant::now();
        let mut place = Place { since: begun, lines: 0, held_back: 0 };
        for _ in 0..LINES_PER_PERIOD {
            assert_eq!(place.admit(begun), (true, 0));
        }
        for _ in 0..7 {
            assert_eq!(place.admit(begun + PERIOD / 2), (false, 0));
        }
        assert_eq!(place.admit(begun + PERIOD), (true, 7), "told once");
        assert_eq!(place.admit(begun + PERIOD), (true, 0));
    }
}
