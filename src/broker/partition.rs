//! One partition of a topic: its log, and the readers that wait for more of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::flusher::FlushQueue;
use super::wake::{WaiterId, Waiters, Wake};
use crate::metrics::Metrics;
use crate::model::{Offset, TopicPartition};
use crate::record::Run;
use crate::storage::{AppendError, Appended, Cursor, Fetch, FlushError, LocateError, Log};

/// One partition. Any thread may append and read.
#[derive(Debug)]
pub struct Partition {
    name: TopicPartition,
    ordinal: usize,
    log: Log,
    waiters: Waiters,
    /// Waits in the flush queue.
    queued: AtomicBool,
    /// The last append failed: said once, not for each frame.
    refusing: AtomicBool,
    /// A flush failed, and was counted.
    failed: AtomicBool,
    /// The last flush was postponed: said once.
    postponed: AtomicBool,
    flush_queue: Arc<FlushQueue>,
    metrics: Arc<Metrics>,
}

impl Partition {
    pub(super) fn new(
        name: TopicPartition,
        ordinal: usize,
        log: Log,
        flush_queue: Arc<FlushQueue>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let partition = Arc::new(Self {
            name,
            ordinal,
            log,
            waiters: Waiters::default(),
            queued: AtomicBool::new(true),
            refusing: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            postponed: AtomicBool::new(false),
            flush_queue,
            metrics,
        });
        // What an earlier process wrote may still wait for the disk.
        partition.flush_queue.push(Arc::clone(&partition));
        partition
    }

    /// Topic and number.
    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// The partition's number among all of the broker's: what a reactor is chosen by.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Offset of the oldest record kept.
    pub fn start_offset(&self) -> Offset {
        self.log.start_offset()
    }

    /// Offset after the last record.
    pub fn end_offset(&self) -> Offset {
        self.log.end_offset()
    }

    /// Offset after the last record, once no append is under way.
    pub(super) fn settled_end_offset(&self) -> Offset {
        self.log.settled_end_offset()
    }

    /// Whether a failed flush has made the partition read-only.
    pub fn is_read_only(&self) -> bool {
        self.log.is_read_only()
    }

    /// Readers parked at the end.
    pub fn parked(&self) -> usize {
        self.waiters.len()
    }

    /// Stores a run of frames, gives them their offsets in place, and wakes the readers that wait.
    ///
    /// When this returns, the kernel has the bytes: they survive the process, and a power cut after the next flush.
    pub fn append(self: &Arc<Self>, run: &mut Run<'_>) -> Result<Appended, AppendError> {
        let appended = self.log.append(run).inspect_err(|error| self.refused(run, error))?;
        if self.refusing.load(Ordering::Relaxed) && self.refusing.swap(false, Ordering::Relaxed) {
            tracing::info!(partition = %self.name, "appends work again");
        }
        self.metrics.bytes_in.add(run.bytes().len() as u64);
        self.metrics.frames_in.add(run.frames() as u64);
        self.metrics.records_in.add(run.records());
        self.queue();
        self.waiters.wake_all();
        Ok(appended)
    }

    fn refused(&self, run: &Run<'_>, error: &AppendError) {
        self.metrics.frames_not_stored.add(run.frames() as u64);
        if !self.refusing.swap(true, Ordering::Relaxed) {
            tracing::error!(partition = %self.name, %error, "append failed; producers are told to retry");
        }
    }

    /// A cursor for a reader that resumes at `offset`; one outside the log moves to its nearer end, and the second
    /// value says so. Reads the disk: not for a reactor.
    pub fn resume(&self, offset: Offset) -> Result<(Cursor, Option<Moved>), LocateError> {
        match self.log.locate(offset) {
            Err(LocateError::OutOfRange { start, end, .. }) => {
                let to = offset.clamp(start, end);
                let cursor = self.log.locate(to)?;
                Ok((cursor, Some(Moved { from: offset, to })))
            }
            located => Ok((located?, None)),
        }
    }

    /// The next bytes for a reader; see [`Log::fetch`].
    pub fn fetch(&self, cursor: &mut Cursor, max: u64) -> Fetch {
        self.log.fetch(cursor, max)
    }

    /// Moves a reader past the damage it stands at; see [`Log::skip_damage`]. False if nothing is behind it.
    pub(super) fn skip_damage(&self, cursor: &mut Cursor) -> bool {
        self.log.skip_damage(cursor)
    }

    /// Parks a reader at the end. The reader must fetch once more afterwards.
    pub fn park(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.waiters.park(wake, waiter);
    }

    /// Takes a parked reader back.
    pub fn unpark(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.waiters.unpark(wake, waiter);
    }

    /// Makes everything appended so far durable. Blocks for the disk. What is postponed waits for the next flush.
    pub(super) fn flush(self: &Arc<Self>) -> Result<(), FlushError> {
        // Before the flush: what is appended while it runs queues the partition again.
        self.queued.store(false, Ordering::Release);
        let result = self.log.flush();
        self.count(&result);
        if matches!(result, Err(FlushError::Postponed(_))) {
            self.queue();
        }
        result
    }

    /// Sees to it that the flusher comes by.
    fn queue(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.flush_queue.push(Arc::clone(self));
        }
    }

    /// Flushes for good; nothing can be appended afterwards.
    pub(super) fn close(&self) -> Result<(), FlushError> {
        let result = self.log.close();
        self.count(&result);
        result
    }

    fn count(&self, result: &Result<(), FlushError>) {
        self.metrics.flushes.inc();
        let postponed = matches!(result, Err(FlushError::Postponed(_)));
        let changed = self.postponed.swap(postponed, Ordering::AcqRel) != postponed;
        match result {
            Ok(()) if changed => tracing::info!(partition = %self.name, "flushed again"),
            Err(FlushError::Postponed(error)) if changed => {
                tracing::warn!(
                    partition = %self.name, %error,
                    "flush postponed; until it succeeds a power cut may lose records"
                );
            }
            Ok(()) | Err(FlushError::Postponed(_)) => {}
            Err(error @ FlushError::Failed(_)) => {
                if !self.failed.swap(true, Ordering::AcqRel) {
                    self.metrics.flush_errors.inc();
                    tracing::error!(partition = %self.name, %error, "flush failed");
                }
            }
        }
    }
}

/// A reader did not get the place it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Offset asked for.
    pub from: Offset,
    /// Offset it begins at.
    pub to: Offset,
}
