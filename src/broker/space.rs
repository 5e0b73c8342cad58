//! Disk space that is kept for what must go on when records cannot.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::metrics::Metrics;
use crate::model::limits::MIB;
use crate::storage::Disk;

/// Whether enough space is left to append records.
///
/// A log that runs into the end of the disk recovers by itself. But committed offsets need space, too, and a group that
/// cannot commit cannot get out of the way: so records stop a little earlier.
#[derive(Debug)]
pub(super) struct Space {
    /// With less than this, in bytes, no record is appended; 0 if that is switched off.
    min_bytes: AtomicU64,
    low: AtomicBool,
    /// The file system could not be asked: said once.
    unknown: AtomicBool,
}

impl Space {
    pub(super) fn new(min_free_mb: u32) -> Self {
        let min_bytes = AtomicU64::new(u64::from(min_free_mb) * MIB);
        Self { min_bytes, low: AtomicBool::new(false), unknown: AtomicBool::new(false) }
    }

    pub(super) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    pub(super) fn min_bytes(&self) -> u64 {
        self.min_bytes.load(Ordering::Relaxed)
    }

    /// Holds from the next look on.
    pub(super) fn set_min(&self, min_free_mb: u32) {
        self.min_bytes.store(u64::from(min_free_mb) * MIB, Ordering::Relaxed);
    }

    /// Asks the file system of `path`. What it does not say stays as it was.
    pub(super) fn look(&self, disk: &dyn Disk, path: &Path, metrics: &Metrics) {
        let free = match disk.free_bytes(path) {
            Ok(free) => free,
            Err(error) => {
                if !self.unknown.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the free disk space is unknown; storage.min_free_mb has no effect");
                }
                return;
            }
        };
        self.unknown.store(false, Ordering::Relaxed);
        let low = free < self.min_bytes();
        metrics.disk_free_bytes.set(i64::try_from(free).unwrap_or(i64::MAX));
        metrics.disk_space_low.set(low.into());
        self.low.store(low, Ordering::Relaxed);
    }
}
