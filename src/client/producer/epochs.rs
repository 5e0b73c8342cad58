//! Which records a `flush` waits for.
//!
//! Records can complete in another order than they were handed over, so a plain count does not tell. Each flush ends an
//! epoch; records belong to the epoch in which they were handed over, and a flush is over when no record of its epoch or
//! of an earlier one is left. There are as many epochs as flushes under way, plus one.

use std::collections::VecDeque;

/// Records that are not completed, by epoch.
#[derive(Debug)]
pub(super) struct Epochs {
    /// Number of the oldest epoch in `open`.
    first: u64,
    /// Never empty: the last one is the current epoch.
    open: VecDeque<usize>,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { first: 0, open: VecDeque::from([0]) }
    }
}

impl Epochs {
    /// A record comes in: its epoch.
    pub(super) fn enter(&mut self) -> u64 {
        if let Some(current) = self.open.back_mut() {
            *current += 1;
        }
        self.first + (self.open.len() as u64 - 1)
    }

    /// Ends the current epoch and returns it.
    pub(super) fn mark(&mut self) -> u64 {
        let ended = self.first + (self.open.len() as u64 - 1);
        self.open.push_back(0);
        self.trim();
        ended
    }

    fn leave(&mut self, epoch: u64, records: usize) {
        let index = usize::try_from(epoch.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(open) = self.open.get_mut(index) {
            debug_assert!(*open >= records);
            *open = open.saturating_sub(records);
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.open.len() > 1 && self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first += 1;
        }
    }

    /// Whether all records up to the end of `epoch` are completed.
    pub(super) fn is_over(&self, epoch: u64) -> bool {
        self.first > epoch
    }
}

/// Completed records, gathered so that the window is told of a whole bulk at once.
#[derive(Debug, Default)]
pub(super) struct Released {
    bytes: usize,
    records: usize,
    by_epoch: Vec<(u64, usize)>,
}

impl Released {
    pub(super) fn add(&mut self, epoch: u64, bytes: usize) {
        self.bytes += bytes;
        self.records += 1;
        match self.by_epoch.last_mut() {
            Some((last, records)) if *last == epoch => *records += 1,
            _ => self.by_epoch.push((epoch, 1)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// Takes the records out of their epochs and starts over.
    pub(super) fn leave(&mut self, epochs: &mut Epochs) {
        for (epoch, records) in self.by_epoch.drain(..) {
            epochs.leave(epoch, records);
        }
        self.bytes = 0;
        self.records = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_its_own_records_and_earlier_ones_alone() {
        let mut epochs = Epochs::default();
        let mut released = Released::default();
        let (a, b) = (epochs.enter(), epochs.enter());
        let first = epochs.mark();
        let c = epochs.enter();
        let second = epochs.mark();
        let later = epochs.enter();
        assert!(a == b && b < c && c < later);

        released.add(c, 1);
        released.add(a, 1);
        released.leave(&mut epochs);
        assert!(released.is_empty());
        assert!(!epochs.is_over(first) && !epochs.is_over(second), "b is not completed");
        released.add(b, 1);
        released.leave(&mut epochs);
        assert!(epochs.is_over(first) && epochs.is_over(second));

        let third = epochs.mark();
        assert!(!epochs.is_over(third), "one record was handed over before it");
        released.add(later, 1);
        released.leave(&mut epochs);
        assert!(epochs.is_over(third));
        let empty = epochs.mark();
        assert!(epochs.is_over(empty));
    }
}
