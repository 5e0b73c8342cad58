//! How fast background work may use the disk, and when it has to stop.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::model::limits::MIB;

/// Uses the disk no faster than it may.
#[derive(Debug)]
pub(super) struct Pace {
    /// Hangs up when it is to stop.
    stopped: Receiver<()>,
    bytes_per_s: u32,
    /// When the next bytes may be used.
    next: Instant,
}

impl Pace {
    pub(super) fn new(stopped: Receiver<()>, mb_per_s: u32) -> Self {
        // The configuration keeps it within bounds.
        let bytes_per_s = u32::try_from(u64::from(mb_per_s) * MIB).unwrap_or(u32::MAX).max(1);
        Self { stopped, bytes_per_s, next: Instant::now() }
    }

    /// Waits until `bytes` more may be used; false if it is to stop.
    pub(super) fn pause(&mut self, bytes: u64) -> bool {
        let begin = self.next.max(Instant::now());
        self.next = begin + Duration::from_secs(bytes) / self.bytes_per_s;
        self.wait_until(begin)
    }

    pub(super) fn wait_until(&self, at: Instant) -> bool {
        let wait = at.saturating_duration_since(Instant::now());
        self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
    }
}
