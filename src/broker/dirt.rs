//! What of a partition waits for the disk, and since when. No I/O: the partition acts on what this says.

use std::time::Instant;

/// Where a partition stands with the flusher. It is in the queue or being flushed by one thread, never both and never
/// twice: what is appended during a flush is covered by the next one, which is queued when this one ends.
#[derive(Debug, Default)]
pub(super) struct Dirt {
    /// In the flusher's queue.
    queued: bool,
    /// Being flushed.
    flushing: bool,
    /// When the oldest record was appended that no flush has begun on.
    waiting: Option<Instant>,
    /// The same of those that the running flush covers.
    covered: Option<Instant>,
}

/// How a flush ended, as far as what comes next depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything appended before it began is durable.
    Durable,
    /// It was not done, and must be done again.
    Postponed,
    /// It failed for good: nothing will be appended any more.
    Failed,
}

impl Dirt {
    /// A partition that is in the queue from the start.
    pub(super) fn queued() -> Self {
        Self { queued: true, ..Self::default() }
    }

    /// Something was appended. If the partition must be queued for it: since when it waits. The clock is asked once for
    /// each flush, not for each append.
    pub(super) fn add(&mut self, now: impl FnOnce() -> Instant) -> Option<Instant> {
        let since = *self.waiting.get_or_insert_with(now);
        self.enqueue().then_some(since)
    }

    fn enqueue(&mut self) -> bool {
        let idle = !self.queued && !self.flushing;
        self.queued |= idle;
        idle
    }

    /// A flush begins, by the thread that took the partition out of the queue.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.queued && !self.flushing, "one thread at a time");
        self.queued = false;
        self.flushing = true;
        self.covered = self.waiting.take();
    }

    /// The flush has ended. If the partition must be queued again: since when something waits.
    pub(super) fn end(&mut self, ended: Ended, now: impl FnOnce() -> Instant) -> Option<Instant> {
        debug_assert!(self.flushing);
        self.flushing = false;
        self.covered = None;
        match ended {
            Ended::Durable => {}
            // It counts as new: the disk is not slow, and holding up producers would not give the broker a descriptor.
            Ended::Postponed => self.waiting = Some(now()),
            Ended::Failed => self.waiting = None,
        }
        let since = self.waiting?;
        self.enqueue().then_some(since)
    }

    /// When the oldest record was appended that is not known to be durable; `None` if all of them are.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.covered.or(self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An instant so many seconds behind a fixed one.
    fn at(start: Instant, seconds: u64) -> impl FnOnce() -> Instant {
        move || start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_appended_during_a_flush_is_the_next_ones() {
        let start = Instant::now();
        let mut dirt = Dirt::default();
        assert_eq!(dirt.oldest(), None);
        assert_eq!(dirt.add(at(start, 1)), Some(at(start, 1)()));
        assert_eq!(dirt.add(at(start, 2)), None, "queued once");
        dirt.begin();
        assert_eq!(dirt.oldest(), Some(at(start, 1)()), "not durable yet");
        assert_eq!(dirt.add(at(start, 3)), None, "not flushed by two at a time");
        assert_eq!(dirt.oldest(), Some(at(start, 1)()));
        assert_eq!(dirt.end(Ended::Durable, at(start, 4)), Some(at(start, 3)()));
        assert_eq!(dirt.oldest(), Some(at(start, 3)()));
        dirt.begin();
        assert_eq!(dirt.end(Ended::Durable, at(start, 5)), None);
        assert_eq!(dirt.oldest(), None);
        assert_eq!(dirt.add(at(start, 6)), Some(at(start, 6)()));
    }

    #[test]
    fn a_postponed_flush_begins_anew_and_a_failed_one_is_the_last() {
        let start = Instant::now();
        let mut dirt = Dirt::queued();
        dirt.begin();
        assert_eq!(dirt.end(Ended::Postponed, at(start, 1)), Some(at(start, 1)()));
        dirt.add(at(start, 2));
        dirt.begin();
        dirt.add(at(start, 3));
        assert_eq!(dirt.oldest(), Some(at(start, 1)()));
        assert_eq!(dirt.end(Ended::Postponed, at(start, 4)), Some(at(start, 4)()));
        dirt.begin();
        dirt.add(at(start, 5));
        assert_eq!(dirt.end(Ended::Failed, at(start, 6)), None, "nothing more to be done");
        assert_eq!(dirt.oldest(), None);
    }
}
