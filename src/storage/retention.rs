//! Deleting what is too old or too much: whole segments, the oldest first, never the last one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::error::AppendError;
use super::log::Log;
use super::replace;
use super::segment::{self, Segment};
use crate::model::Offset;

/// How long records are kept, and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// A segment whose last record is this old, in ns, is deleted.
    pub age_ns: Option<u64>,
    /// A segment is deleted once those after it hold this many bytes.
    pub bytes: Option<u64>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Segments.
    pub segments: u64,
    /// Bytes of their logs.
    pub bytes: u64,
}

/// What is left to do to the files of segments that are out of the list. Nothing else is done to a log's files before.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The segment with this base offset is being replaced, and that was decided.
    pub(super) replacement: Option<Offset>,
    /// Their files are to be removed, in this order.
    pub(super) doomed: VecDeque<Arc<Segment>>,
}

/// What a segment takes, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSize {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// When it was last appended to, in the broker's time, in ns since the Unix epoch.
    pub last_ns: u64,
    /// Bytes of its log.
    pub bytes: u64,
}

impl Retention {
    /// Offset before which segments go. The segments after a segment are at least as new as it is.
    fn limit(&self, sizes: &[SegmentSize], now_ns: u64) -> Offset {
        let mut kept = 0;
        let goes = |(size, next): (&SegmentSize, &SegmentSize)| {
            kept += next.bytes;
            let goes = self.is_old(size.last_ns, now_ns) || self.is_enough(kept);
            goes.then_some(next.base_offset)
        };
        sizes.iter().zip(sizes.iter().skip(1)).rev().find_map(goes).unwrap_or(0)
    }

    fn is_old(&self, since_ns: u64, now_ns: u64) -> bool {
        self.age_ns.is_some_and(|age| now_ns.saturating_sub(since_ns) >= age)
    }

    fn is_enough(&self, bytes: u64) -> bool {
        self.bytes.is_some_and(|enough| bytes >= enough)
    }
}

impl Log {
    /// Seals the active segment if it began as long ago as [`LogOptions::retention`](super::LogOptions) keeps records, or
    /// alone holds as much: so that it can go one day, as soon as a flush has made it durable. True if it did.
    pub fn seal_due(&self) -> bool {
        let (retention, now_ns) = (self.options.get().retention, self.env.clock.now_ns());
        let sealed = self.roll_if(|active| {
            retention.is_old(active.began_ns(), now_ns) || retention.is_enough(active.end())
        });
        if let Err(AppendError::Io(error)) = &sealed {
            tracing::warn!(dir = %self.dir.display(), %error, "the active segment is not sealed yet");
        }
        sealed.unwrap_or(false)
    }

    /// Deletes what [`LogOptions::retention`](super::LogOptions) does not keep. Waits for the disk.
    pub fn delete_due(&self) -> io::Result<Deleted> {
        let now_ns = self.env.clock.now_ns();
        self.delete_before(self.options.get().retention.limit(&self.sizes(), now_ns))
    }

    /// The segments, oldest first. A segment was not appended to after the next one began, and not in the future: where
    /// their times say otherwise, a clock was wrong.
    pub fn sizes(&self) -> Vec<SegmentSize> {
        let now_ns = self.env.clock.now_ns();
        let segments = self.segments.read().clone();
        let mut bound = u64::MAX;
        let mut sizes: Vec<_> = segments
            .iter()
            .rev()
            .map(|segment| {
                segment.date_at_most(now_ns);
                let last_ns = segment.last_ns().min(bound);
                bound = bound.min(segment.began_ns());
                SegmentSize { base_offset: segment.base_offset, last_ns, bytes: segment.end() }
            })
            .collect();
        sizes.reverse();
        sizes
    }

    /// Deletes the oldest segments, as far as they end at or before `limit`: those that are durable, with the names of their
    /// successors. An offset, not how many: compaction may merge segments between the look at them and this.
    ///
    /// Readers do not find them from here on; those who are in one read on to its end. After an error the rest is deleted
    /// by the next call, before anything else.
    pub fn delete_before(&self, limit: Offset) -> io::Result<Deleted> {
        let mut unfinished = self.unfinished.lock();
        if self.is_discarded() {
            return Ok(Deleted::default());
        }
        let until = limit.min(self.settled_until());
        let mut segments = self.segments.write();
        let count = segments.iter().skip(1).take_while(|next| next.base_offset <= until).count();
        for segment in segments.drain(..count) {
            segment.set_deleted();
            unfinished.doomed.push_back(segment);
        }
        debug_assert!(!segments.is_empty(), "the last segment is never deleted");
        drop(segments);
        self.finish_files(&mut unfinished)
    }

    /// Base offset of the first segment that is not durable yet, or has no name for good, or is appended to. The ones
    /// before it may be deleted and compacted.
    pub(super) fn settled_until(&self) -> Offset {
        let writer = self.writer.lock();
        let unsettled = writer.settling.front().map(|settling| settling.segment.base_offset);
        unsettled.unwrap_or(writer.active.base_offset)
    }

    /// Does what is left to do. After an error the rest is done by the next call. Returns what was deleted by retention.
    pub(super) fn finish_files(&self, unfinished: &mut Unfinished) -> io::Result<Deleted> {
        if let Some(base) = unfinished.replacement {
            replace::finish(&*self.env.disk, &self.dir, base)?;
            unfinished.replacement = None;
        }
        let mut deleted = Deleted::default();
        while let Some(segment) = unfinished.doomed.front() {
            self.remove(segment)?;
            if !segment.is_replaced() {
                deleted.segments += 1;
                deleted.bytes += segment.end();
                tracing::debug!(
                    segment = %segment.path(segment::WAL).display(), bytes = segment.end(), "segment deleted"
                );
            }
            unfinished.doomed.pop_front();
        }
        self.env.metrics.segments_deleted.add(deleted.segments);
        self.env.metrics.bytes_deleted.add(deleted.bytes);
        Ok(deleted)
    }

    /// The log first, durably, and one after the other: a crash leaves a whole segment or none, and never a hole. What it
    /// leaves of the rest, the next start removes.
    fn remove(&self, segment: &Arc<Segment>) -> io::Result<()> {
        let disk = &*self.env.disk;
        let remove = |extension| disk.remove_file(&segment.path(extension));
        remove(segment::WAL)?;
        disk.sync_dir(&self.dir)?;
        remove(segment::IDX)?;
        remove(replace::SUM_TEMPORARY)?;
        remove(segment::SUM)
    }
}
