//! What changes about a log while it is open: how it is kept, and, at its end, that it is deleted.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::durability::{Durability, Timestamps};
use super::error::FlushError;
use super::log::{Log, LogOptions};
use super::writer::Writer;

/// How a log is kept now. What appends and reads ask for takes no lock.
#[derive(Debug)]
pub(super) struct LiveOptions {
    all: RwLock<LogOptions>,
    always: AtomicBool,
    stamps: AtomicBool,
    segment_bytes: AtomicU64,
}

impl LiveOptions {
    pub(super) fn new(options: LogOptions) -> Self {
        Self {
            all: RwLock::new(options),
            always: AtomicBool::new(options.durability == Durability::Always),
            stamps: AtomicBool::new(options.timestamps == Timestamps::Append),
            segment_bytes: AtomicU64::new(options.segment_bytes),
        }
    }

    /// All of them, of one moment.
    pub(super) fn get(&self) -> LogOptions {
        *self.all.read()
    }

    /// Changes under the writer's lock alone.
    pub(super) fn durability(&self) -> Durability {
        if self.always.load(Ordering::Acquire) { Durability::Always } else { Durability::Interval }
    }

    /// Whether the broker's time is written into records.
    pub(super) fn stamps(&self) -> bool {
        self.stamps.load(Ordering::Relaxed)
    }

    /// For segments that begin.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    fn set(&self, options: LogOptions) {
        let mut all = self.all.write();
        self.always.store(options.durability == Durability::Always, Ordering::Release);
        self.stamps.store(options.timestamps == Timestamps::Append, Ordering::Relaxed);
        self.segment_bytes.store(options.segment_bytes, Ordering::Relaxed);
        *all = options;
    }
}

impl Log {
    /// Keeps the log in another way from now on. A new size of segments holds for those that begin from now on.
    ///
    /// From [`Durability::Interval`] to [`Durability::Always`]: what readers were shown is durable when this returns; waits
    /// for the disk. The other way, what was waiting for the disk is shown. A log that a failed flush has made read-only
    /// keeps its durability, which is the error, and then nothing is changed; another error is that of the flush, and
    /// everything is.
    pub fn alter(&self, options: LogOptions) -> Result<(), AlterError> {
        let writer = self.writer.lock();
        let switched = options.durability != self.options.durability();
        if switched && self.is_read_only() {
            return Err(AlterError::ReadOnly);
        }
        if switched && options.durability == Durability::Interval {
            // Before producers are told by it.
            self.show_all(&writer);
        }
        self.options.set(options);
        drop(writer);
        if switched && options.durability == Durability::Always {
            self.flush()?;
        }
        Ok(())
    }

    /// Shows readers everything that was written.
    fn show_all(&self, writer: &Writer) {
        for settling in &writer.settling {
            settling.show();
        }
        writer.active.publish(writer.position, writer.next_offset);
        self.end_offset.fetch_max(writer.next_offset, Ordering::AcqRel);
    }

    /// Ends a log whose directory is going to be taken away: nothing is appended or flushed any more, and when this returns
    /// no file of it is opened, renamed or removed by name. Readers get what is left of the segment they are in, then
    /// [`Fetch::Deleted`](super::Fetch::Deleted). Waits for what is under way on the disk.
    pub fn discard(&self) {
        // First: a scrub and a compaction, which are slow, end by it.
        self.discarded.store(true, Ordering::Release);
        let _names = self.names.write();
        let _unfinished = self.unfinished.lock();
        let _syncing = self.syncing.lock();
        let _writer = self.writer.lock();
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the log was deleted.
    pub fn is_discarded(&self) -> bool {
        self.discarded.load(Ordering::Acquire)
    }

    pub(super) fn refuse_discarded(&self) -> io::Result<()> {
        if self.is_discarded() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// A log is kept as before, or what was shown of it is not durable.
#[derive(Debug, thiserror::Error)]
pub enum AlterError {
    /// A flush has failed: when records count as stored cannot be changed until a restart. Nothing was changed.
    #[error("read-only until a restart")]
    ReadOnly,
    /// Everything was changed, and then the flush failed.
    #[error(transparent)]
    Flush(#[from] FlushError),
}
