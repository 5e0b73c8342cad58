//! One partition of a topic: its log, the readers that wait for more of it, and the producers that wait for the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::compaction::Attempts;
use super::dirt::{Dirt, Ended};
use super::error::AppendError;
use super::flusher::FlushQueue;
use super::space::Space;
use super::wake::{WaiterId, Waiters, Wake};
use crate::metrics::{Metrics, Traffic};
use crate::model::{Offset, TopicPartition};
use crate::record::Run;
use crate::storage::{
    self, AlterError, Appended, BadRange, Cleanup, Compacted, CompactionRules, Cursor, Deleted,
    Durability, Fetch, FlushError, LocateError, Log, LogOptions, Moved, Scrubbed, SegmentSize,
};

/// What all partitions of a broker share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) flush_queue: Arc<FlushQueue>,
    /// Longest time that a record waits for the beginning of its flush, if the disk keeps up.
    pub(super) flush_interval: Duration,
    pub(super) space: Space,
    pub(super) metrics: Arc<Metrics>,
}

/// One partition. Any thread may append and read.
#[derive(Debug)]
pub struct Partition {
    name: TopicPartition,
    ordinal: usize,
    log: Log,
    /// Readers at the end.
    readers: Waiters,
    /// Producers whose acks, or whose sockets, wait for a flush.
    producers: Waiters,
    /// Largest payload that a frame may have, for producers that connect.
    max_payload_bytes: AtomicU32,
    /// What waits for the disk.
    dirt: Mutex<Dirt>,
    /// The last append failed: said once, not for each frame.
    refusing: AtomicBool,
    /// A flush failed, and was counted.
    failed: AtomicBool,
    /// The last flush was postponed: said once.
    postponed: AtomicBool,
    compaction: Attempts,
    traffic: Traffic,
    shared: Arc<Shared>,
}

/// What producers can be told about what was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Records before this offset are stored.
    pub until: Offset,
    /// The others never will be: a flush failed. Else they are waited for.
    pub failed: bool,
}

impl Settled {
    /// Whether all of a run is stored.
    pub fn covers(self, run: Appended) -> bool {
        run.next <= self.until
    }
}

impl Partition {
    pub(super) fn new(
        name: TopicPartition,
        ordinal: usize,
        log: Log,
        max_payload_bytes: u32,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let partition = Arc::new(Self {
            name,
            ordinal,
            log,
            readers: Waiters::default(),
            producers: Waiters::default(),
            max_payload_bytes: AtomicU32::new(max_payload_bytes),
            dirt: Mutex::default(),
            refusing: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            postponed: AtomicBool::new(false),
            compaction: Attempts::default(),
            traffic: Traffic::default(),
            shared,
        });
        // What an earlier process wrote may still wait for the disk.
        let at = now + partition.delay();
        *partition.dirt.lock() = Dirt::queued(at);
        partition.queue(at);
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

    /// Offset of the next record that is appended.
    pub fn next_offset(&self) -> Offset {
        self.log.next_offset()
    }

    /// Offset after the last record, once no append is under way.
    pub(super) fn settled_end_offset(&self) -> Offset {
        self.log.settled_end_offset()
    }

    /// When its records count as stored.
    pub fn durability(&self) -> Durability {
        self.log.durability()
    }

    /// Offset after the last record that is known to be on the disk.
    pub(super) fn flushed_offset(&self) -> Offset {
        self.log.flushed_offset()
    }

    /// Largest payload of a frame, in bytes, for a producer that connects now.
    pub fn max_payload_bytes(&self) -> u32 {
        self.max_payload_bytes.load(Ordering::Relaxed)
    }

    /// Whether its topic was deleted: nothing is appended any more, and readers end.
    pub fn is_deleted(&self) -> bool {
        self.log.is_discarded()
    }

    /// Whether the partition is read-only; see [`Log::is_read_only`].
    pub fn is_read_only(&self) -> bool {
        self.log.is_read_only()
    }

    /// What has gone in and out.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Readers parked at the end.
    pub fn parked(&self) -> usize {
        self.readers.len()
    }

    /// Stores a run of frames, gives them their offsets in place, and wakes the readers that may see it.
    ///
    /// When this returns, the kernel has the bytes: they survive the process. Whether they count as stored already is
    /// what [`Partition::settled`] says.
    pub fn append(self: &Arc<Self>, run: &mut Run<'_>) -> Result<Appended, AppendError> {
        let Shared { space, metrics, .. } = &*self.shared;
        // The space that is left is for the broker's own topics.
        if space.is_low() && !self.name.topic.is_reserved() {
            metrics.frames_not_stored.add(run.frames() as u64);
            return Err(AppendError::LowSpace);
        }
        let begun = Instant::now();
        let appended = self.log.append(run).map_err(|error| self.refused(run, error))?;
        metrics.append_duration.observe(begun.elapsed());
        if self.refusing.load(Ordering::Relaxed) && self.refusing.swap(false, Ordering::Relaxed) {
            tracing::info!(partition = %self.name, "appends work again");
        }
        self.count_in(run);
        let due = self.dirt.lock().add(Instant::now, self.delay());
        if let Some(at) = due {
            self.queue(at);
        }
        if self.log.durability() == Durability::Interval {
            self.readers.wake_all();
        }
        Ok(appended)
    }

    fn count_in(&self, run: &Run<'_>) {
        let (Shared { metrics, .. }, traffic) = (&*self.shared, &self.traffic);
        let (bytes, frames) = (run.bytes().len() as u64, run.frames() as u64);
        metrics.bytes_in.add(bytes);
        metrics.frames_in.add(frames);
        metrics.records_in.add(run.records());
        traffic.bytes_in.add(bytes);
        traffic.frames_in.add(frames);
        traffic.records_in.add(run.records());
    }

    fn refused(&self, run: &Run<'_>, error: storage::AppendError) -> AppendError {
        self.shared.metrics.frames_not_stored.add(run.frames() as u64);
        if self.is_deleted() {
            return AppendError::Deleted;
        }
        if matches!(error, storage::AppendError::ReadOnly) {
            // What made it so has said so.
            return error.into();
        }
        if !self.refusing.swap(true, Ordering::Relaxed) {
            tracing::error!(partition = %self.name, %error, "append failed; producers are told to retry");
        }
        error.into()
    }

    /// How far appends count as stored.
    pub fn settled(&self) -> Settled {
        match self.log.durability() {
            Durability::Interval => Settled { until: Offset::MAX, failed: false },
            Durability::Always => self.flushed(),
        }
    }

    /// How far appends are on the disk, whatever the durability mode says.
    pub fn flushed(&self) -> Settled {
        // In this order: after a failure no flush moves the offset, so the two fit each other.
        let failed = self.log.is_read_only() || self.is_deleted();
        Settled { until: self.log.flushed_offset(), failed }
    }

    /// Whether the disk does not keep up: the oldest record that is not flushed is older than two flush intervals. Then
    /// producers are to send no more until a flush has ended, so that a power cut takes no more than it has to.
    pub fn is_behind(&self, now: Instant) -> bool {
        if self.log.durability() == Durability::Always {
            // What is not flushed is not acked.
            return false;
        }
        if self.is_deleted() {
            return false;
        }
        let oldest = self.dirt.lock().oldest();
        let most = self.shared.flush_interval * 2;
        oldest.is_some_and(|oldest| now.saturating_duration_since(oldest) > most)
    }

    /// A cursor for a reader that resumes at `offset`; one outside the log moves to its nearer end, and the second
    /// value says so. Reads the disk: not for a reactor.
    pub fn resume(&self, offset: Offset) -> Result<(Cursor, Option<Moved>), LocateError> {
        let mut to = offset;
        let cursor = loop {
            match self.log.locate(to) {
                // Again and again if what is oldest is deleted meanwhile.
                Err(LocateError::OutOfRange { start, end, .. }) => to = to.clamp(start, end),
                located => break located?,
            }
        };
        if to == offset {
            return Ok((cursor, None));
        }
        if offset > 0 && offset < to {
            self.shared.metrics.readers_moved.inc();
            tracing::debug!(
                partition = %self.name, from = offset, to,
                "a reader wants records that were deleted: it goes on at the oldest one"
            );
        }
        Ok((cursor, Some(Moved { from: offset, to })))
    }

    /// A cursor at the frame that holds `offset`, or at the first one after it; the log end is a valid place. Reads the
    /// disk: not for a reactor.
    pub fn locate(&self, offset: Offset) -> Result<Cursor, LocateError> {
        self.log.locate(offset)
    }

    /// A cursor at the first record of this time or later; see [`Log::locate_time`]. Not for a reactor.
    pub fn locate_time(&self, timestamp: u64) -> Result<Cursor, LocateError> {
        self.log.locate_time(timestamp)
    }

    /// Offset of the first frame that a reader gets; see [`Log::offset_at`]. Not for a reactor.
    pub fn offset_at(&self, cursor: &mut Cursor) -> Result<Offset, LocateError> {
        self.log.offset_at(cursor)
    }

    /// The next bytes for a reader; see [`Log::fetch`].
    pub fn fetch(&self, cursor: &mut Cursor, max: u64) -> Fetch {
        self.log.fetch(cursor, max)
    }

    /// Moves a reader past the damage it stands at; see [`Log::skip_damage`]. False if nothing is behind it.
    pub(super) fn skip_damage(&self, cursor: &mut Cursor) -> bool {
        self.log.skip_damage(cursor)
    }

    /// Compares what was flushed with its checksums; see [`Log::scrub`].
    pub(super) fn scrub(&self, pause: &mut dyn FnMut(u64) -> bool) -> io::Result<Scrubbed> {
        let found = match self.log.scrub(pause) {
            // There is nothing to be looked at any more.
            Err(_) if self.is_deleted() => return Ok(Scrubbed::default()),
            found => found?,
        };
        self.shared.metrics.scrubbed_bytes.add(found.bytes);
        Ok(found)
    }

    /// Deletes what is too old or too much; see [`Log::delete_due`]. Blocks for the disk.
    pub(super) fn retain(self: &Arc<Self>) -> io::Result<Deleted> {
        if self.log.seal_due() {
            self.flush_sealed();
        }
        self.log.delete_due()
    }

    /// How compaction went so far.
    pub(super) fn compaction(&self) -> &Attempts {
        &self.compaction
    }

    /// How what is not kept goes.
    pub(super) fn cleanup(&self) -> Cleanup {
        self.log.cleanup()
    }

    /// Takes superseded frames out, if that is due; see [`Log::compact`]. Blocks for the disk.
    pub(super) fn compact(
        self: &Arc<Self>,
        rules: &CompactionRules,
        pause: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Compacted> {
        if self.log.seal_lagging(rules) {
            self.flush_sealed();
        }
        self.log.compact(rules, pause)
    }

    /// The sizes of its segments, oldest first; see [`Log::sizes`].
    pub fn sizes(&self) -> Vec<SegmentSize> {
        self.log.sizes()
    }

    /// Records that are damaged, as far as is known.
    pub(super) fn damage(&self) -> Vec<BadRange> {
        self.log.damage()
    }

    /// Segments in which damage was found, of those that are there.
    pub(super) fn damaged_segments(&self) -> u64 {
        self.log.damaged_segments()
    }

    /// Keeps the partition in another way from now on; see [`Log::alter`]. Blocks for the disk.
    pub(super) fn alter(
        self: &Arc<Self>,
        options: LogOptions,
        max_payload_bytes: u32,
    ) -> Result<(), AlterError> {
        let result = self.log.alter(options);
        if let Err(AlterError::ReadOnly) = result {
            return result;
        }
        self.max_payload_bytes.store(max_payload_bytes, Ordering::Relaxed);
        if let Err(AlterError::Flush(error)) = &result {
            self.count_flush(Some(error));
        }
        // Some of them wait for what the old options would have brought.
        self.readers.wake_all();
        self.producers.wake_all();
        if options.durability == Durability::Always {
            self.hurry_flush();
        }
        result
    }

    /// Ends the partition: its directory is going to be taken away. Whoever waits is woken, and is told. Blocks for what is
    /// under way on the disk.
    pub(super) fn delete(self: &Arc<Self>) {
        self.log.discard();
        // The flusher lets go of it, and of its files.
        self.hurry_flush();
        self.readers.wake_all();
        self.producers.wake_all();
    }

    /// Deletes the oldest segments; see [`Log::delete_before`].
    pub(super) fn delete_before(&self, limit: Offset) -> io::Result<Deleted> {
        self.log.delete_before(limit)
    }

    /// Parks a reader at the end. The reader must fetch once more afterwards.
    pub fn park(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.readers.park(wake, waiter);
    }

    /// Takes a parked reader back.
    pub fn unpark(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.readers.unpark(wake, waiter);
    }

    /// Has a producer woken after the next flush, whether it succeeds or fails. The producer must look at
    /// [`Partition::settled`] and [`Partition::is_behind`] once more afterwards.
    pub fn await_flush(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.producers.park(wake, waiter);
    }

    /// Takes a producer back that awaits a flush.
    pub fn forget_flush(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.producers.unpark(wake, waiter);
    }

    /// Makes everything appended so far durable and tells those who wait for it. Blocks for the disk. For the thread that
    /// took the partition out of the queue, where it was until `at`: what was appended meanwhile is queued again, and so
    /// is what was postponed.
    pub(super) fn flush(self: &Arc<Self>, at: Instant) {
        if !self.dirt.lock().begin(at) {
            return;
        }
        let result = self.flush_now();
        let ended = match result {
            Ok(()) => Ended::Durable,
            Err(FlushError::Postponed(_)) => Ended::Postponed,
            Err(FlushError::Failed(_) | FlushError::Deleted) => Ended::Failed,
        };
        // Not at once: it would be postponed again.
        let postponed = ended == Ended::Postponed;
        let delay = if postponed { self.shared.flush_interval } else { self.delay() };
        let due = self.dirt.lock().end(ended, Instant::now, delay);
        if let Some(at) = due {
            self.queue(at);
        }
        self.producers.wake_all();
        if ended == Ended::Durable && self.log.durability() == Durability::Always {
            self.readers.wake_all();
        }
    }

    /// Makes everything appended so far durable, on the calling thread and beside the flusher. Blocks for the disk.
    pub(super) fn flush_now(&self) -> Result<(), FlushError> {
        let begun = Instant::now();
        let span = tracing::debug_span!("fsync", partition = %self.name);
        let result = span.in_scope(|| self.log.flush());
        self.shared.metrics.flush_duration.observe(begun.elapsed());
        self.count_flush(result.as_ref().err());
        result
    }

    /// Makes what was just sealed durable: it is deleted or compacted after that. A failure is counted, and stops appends,
    /// not this. Then a flusher comes by, who tells those who wait, and does again what was postponed.
    fn flush_sealed(self: &Arc<Self>) {
        let _ = self.flush_now();
        let due = self.dirt.lock().add(Instant::now, Duration::ZERO);
        if let Some(at) = due {
            self.queue(at);
        }
    }

    /// Has what was appended flushed at once: a producer waits for it whose topic would let it wait.
    pub fn hurry_flush(self: &Arc<Self>) {
        let now = Instant::now();
        let queued = self.dirt.lock().hurry(now);
        if let Some(later) = queued {
            self.shared.flush_queue.hurry(Arc::clone(self), later, now);
        }
    }

    /// How long a record may wait for the beginning of its flush.
    fn delay(&self) -> Duration {
        match self.log.durability() {
            Durability::Interval => self.shared.flush_interval,
            Durability::Always => Duration::ZERO,
        }
    }

    /// Has a flusher come by.
    fn queue(self: &Arc<Self>, at: Instant) {
        self.shared.flush_queue.push(Arc::clone(self), at);
    }

    /// Flushes for good; nothing can be appended afterwards.
    pub(super) fn close(&self) -> Result<(), FlushError> {
        let result = self.log.close();
        self.count_flush(result.as_ref().err());
        self.producers.wake_all();
        self.readers.wake_all();
        result
    }

    fn count_flush(&self, error: Option<&FlushError>) {
        self.shared.metrics.flushes.inc();
        let postponed = matches!(error, Some(FlushError::Postponed(_)));
        let changed = self.postponed.swap(postponed, Ordering::AcqRel) != postponed;
        match error {
            None if changed => tracing::info!(partition = %self.name, "flushed again"),
            Some(FlushError::Postponed(error)) if changed => {
                tracing::warn!(
                    partition = %self.name, %error,
                    "flush postponed; until it succeeds a power cut may lose records"
                );
            }
            None | Some(FlushError::Postponed(_) | FlushError::Deleted) => {}
            Some(error @ FlushError::Failed(_)) => {
                if !self.failed.swap(true, Ordering::AcqRel) {
                    self.shared.metrics.flush_errors.inc();
                    tracing::error!(partition = %self.name, %error, "flush failed");
                }
            }
        }
    }
}
