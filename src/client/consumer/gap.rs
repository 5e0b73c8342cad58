//! What a consumer does not get.

use std::collections::VecDeque;

use crate::model::Offset;

/// Gaps that nobody has asked for, at most; the oldest are forgotten first.
const KEPT: usize = 64;

/// Records that a consumer does not get. It goes on behind them by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// First offset that is missing; `None` if the consumer had not begun.
    pub from: Option<Offset>,
    /// Offset that it goes on at.
    pub to: Offset,
    /// Why.
    pub reason: GapReason,
    /// What the broker says, for people.
    pub message: String,
}

/// Why records are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// They were deleted before they were read: retention was faster.
    Deleted,
    /// They are damaged, and the broker skips what is.
    Damaged,
}

/// Gaps that nobody has asked for yet.
#[derive(Debug, Default)]
pub(super) struct Gaps(VecDeque<Gap>);

impl Gaps {
    pub(super) fn add(&mut self, gap: Gap) {
        tracing::warn!(from = gap.from, to = gap.to, reason = ?gap.reason, message = gap.message, "records are missing");
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(gap);
    }

    pub(super) fn take(&mut self) -> Option<Gap> {
        self.0.pop_front()
    }
}
