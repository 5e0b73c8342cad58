//! What of a partition waits for the disk, and since when. No I/O: the partition acts on what this says.

use std::time::{Duration, Instant};

/// Where a partition stands with the flusher. It is in the queue or being flushed by one thread, never both and never
/// twice: what is appended during a flush is covered by the next one, which is queued when this one ends.
#[derive(Debug, Default)]
pub(super) struct Dirt {
    /// In the flusher's queue: until then.
    queued: Option<Instant>,
    /// Being flushed.
    flushing: bool,
    /// What was appended during the flush is not to wait: somebody waits for it.
    hurried: bool,
    /// The last flush was postponed.
    postponed: bool,
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
    /// A partition that is in the queue from the start, until `at`.
    pub(super) fn queued(at: Instant) -> Self {
        Self { queued: Some(at), ..Self::default() }
    }

    /// Something was appended, which may wait for `delay`. If the partition must be queued for it: until when. The clock
    /// is asked once for each flush, not for each append.
    pub(super) fn add(
        &mut self,
        now: impl FnOnce() -> Instant,
        delay: Duration,
    ) -> Option<Instant> {
        let since = *self.waiting.get_or_insert_with(now);
        self.enqueue(since + delay)
    }

    fn enqueue(&mut self, at: Instant) -> Option<Instant> {
        if self.queued.is_some() || self.flushing {
            return None;
        }
        self.queued = Some(at);
        self.queued
    }

    /// Somebody waits for what was appended. If it is queued until later: until when, and it is queued until `now` instead.
    /// Not what was postponed: it would be again, and again.
    pub(super) fn hurry(&mut self, now: Instant) -> Option<Instant> {
        if self.postponed {
            return None;
        }
        self.hurried |= self.flushing;
        let later = self.queued.filter(|at| *at > now)?;
        self.queued = Some(now);
        Some(later)
    }

    /// A flush begins, by the thread that took the partition out of the queue, where it was until `at`. False if it is
    /// there until another time: then this is not its turn.
    pub(super) fn begin(&mut self, at: Instant) -> bool {
        if self.queued != Some(at) {
            return false;
        }
        debug_assert!(!self.flushing, "one thread at a time");
        self.queued = None;
        self.flushing = true;
        self.covered = self.waiting.take();
        true
    }

    /// The flush has ended; what was appended meanwhile may wait for `delay`. If the partition must be queued again: until
    /// when.
    pub(super) fn end(
        &mut self,
        ended: Ended,
        now: impl FnOnce() -> Instant,
        delay: Duration,
    ) -> Option<Instant> {
        debug_assert!(self.flushing);
        self.flushing = false;
        self.covered = None;
        let hurried = std::mem::take(&mut self.hurried);
        self.postponed = ended == Ended::Postponed;
        match ended {
            Ended::Durable => {}
            // It counts as new: the disk is not slow, and holding up producers would not give the broker a descriptor.
            Ended::Postponed => self.waiting = Some(now()),
            Ended::Failed => self.waiting = None,
        }
        // One that was postponed is not hurried: it would be postponed again.
        let at_once = hurried && ended == Ended::Durable;
        let since = self.waiting?;
        self.enqueue(if at_once { since } else { since + delay })
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

    const DELAY: Duration = Duration::from_millis(10);

    #[test]
    fn what_is_appended_during_a_flush_is_the_next_ones() {
        let start = Instant::now();
        let due = |seconds| Some(at(start, seconds)() + DELAY);
        let mut dirt = Dirt::default();
        assert_eq!(dirt.oldest(), None);
        assert_eq!(dirt.add(at(start, 1), DELAY), due(1));
        assert_eq!(dirt.add(at(start, 2), DELAY), None, "queued once");
        assert!(dirt.begin(due(1).unwrap()));
        assert_eq!(dirt.oldest(), Some(at(start, 1)()), "not durable yet");
        assert_eq!(dirt.add(at(start, 3), DELAY), None, "not flushed by two at a time");
        assert_eq!(dirt.oldest(), Some(at(start, 1)()));
        assert_eq!(dirt.end(Ended::Durable, at(start, 4), DELAY), due(3));
        assert_eq!(dirt.oldest(), Some(at(start, 3)()));
        assert!(dirt.begin(due(3).unwrap()));
        assert_eq!(dirt.end(Ended::Durable, at(start, 5), DELAY), None);
        assert_eq!(dirt.oldest(), None);
        assert_eq!(dirt.add(at(start, 6), DELAY), due(6));
    }

    #[test]
    fn a_postponed_flush_begins_anew_and_a_failed_one_is_the_last() {
        let start = Instant::now();
        let due = |seconds| Some(at(start, seconds)() + DELAY);
        let mut dirt = Dirt::queued(start);
        assert!(dirt.begin(start));
        assert_eq!(dirt.end(Ended::Postponed, at(start, 1), DELAY), due(1));
        dirt.add(at(start, 2), DELAY);
        assert!(dirt.begin(due(1).unwrap()));
        dirt.add(at(start, 3), DELAY);
        assert_eq!(dirt.oldest(), Some(at(start, 1)()));
        assert_eq!(dirt.end(Ended::Postponed, at(start, 4), DELAY), due(4));
        assert!(dirt.begin(due(4).unwrap()));
        dirt.add(at(start, 5), DELAY);
        assert_eq!(dirt.end(Ended::Failed, at(start, 6), DELAY), None, "nothing more to be done");
        assert_eq!(dirt.oldest(), None);
    }

    #[test]
    fn what_somebody_waits_for_is_queued_anew_and_its_old_place_is_void() {
        let start = Instant::now();
        let late = start + DELAY;
        let mut dirt = Dirt::default();
        assert_eq!(dirt.hurry(start), None, "nothing is queued");
        assert_eq!(dirt.add(at(start, 0), DELAY), Some(late));
        assert_eq!(dirt.hurry(start), Some(late));
        assert_eq!(dirt.hurry(start), None, "once");
        assert!(!dirt.begin(late));
        assert!(dirt.begin(start));
        dirt.add(at(start, 1), DELAY);
        assert_eq!(dirt.hurry(start), None, "the flush that runs comes first");
        assert_eq!(dirt.end(Ended::Durable, at(start, 2), DELAY), Some(at(start, 1)()));
        assert!(dirt.begin(at(start, 1)()));
        let due = Some(at(start, 3)() + DELAY);
        assert_eq!(dirt.end(Ended::Postponed, at(start, 3), DELAY), due);
        assert_eq!(dirt.hurry(start), None, "it would be postponed again, and again");
    }
}
