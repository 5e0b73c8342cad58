//! One partition's log: segments back to back, appended to at one end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::alter::LiveOptions;
use super::clock::Clock;
use super::compaction::Cleanup;
use super::damage::BadRange;
use super::disk::Disk;
use super::durability::{Durability, OnCorruption, Timestamps};
use super::error::{LocateError, OpenError};
use super::file_slice::FileSlice;
use super::recovery::{Recovered, Recovery};
use super::retention::{Retention, Unfinished};
use super::segment::{self, Next, Segment};
use super::writer::Writer;
use crate::metrics::Metrics;
use crate::model::Offset;

/// What logs work with; all of a broker's share it.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The broker's time: segments note when they were written.
    pub clock: Arc<dyn Clock>,
    /// The instruments.
    pub metrics: Arc<Metrics>,
}

/// How one log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes at which a segment is sealed and the next one begins.
    pub segment_bytes: u64,
    /// When a record counts as stored.
    pub durability: Durability,
    /// What readers meet where the log is damaged.
    pub on_corruption: OnCorruption,
    /// What is kept.
    pub retention: Retention,
    /// Whose time records carry.
    pub timestamps: Timestamps,
    /// How what is not kept goes.
    pub cleanup: Cleanup,
}

/// The log of one partition.
///
/// Appends take the writer's lock; readers take none on their way through a segment, and the list's lock when they
/// change segments. Lock order: `compacting`, `names`, `scrubbing`, `unfinished`, `syncing`, `writer`, `segments`.
#[derive(Debug)]
pub struct Log {
    pub(super) env: Environment,
    pub(super) dir: Arc<Path>,
    pub(super) options: LiveOptions,
    pub(super) writer: Mutex<Writer>,
    pub(super) segments: RwLock<Vec<Arc<Segment>>>,
    /// Offset after the last record that readers may see.
    pub(super) end_offset: AtomicU64,
    /// Offset after the last record that is durable.
    pub(super) flushed_offset: AtomicU64,
    /// A flush failed: pages may be lost, so nothing is appended any more. Or `incomplete`.
    pub(super) failed: AtomicBool,
    /// The start could not take over the end of the log, or cut and keep it: nothing is appended before one that can.
    pub(super) incomplete: bool,
    /// Nothing is appended any more. Set under the writer's lock.
    pub(super) closed: AtomicBool,
    /// Held while flushing: segments become durable in order, and the system tells an error once, so whoever syncs next
    /// must know of it.
    pub(super) syncing: Mutex<()>,
    /// The log was deleted.
    pub(super) discarded: AtomicBool,
    /// Held shared by whoever works on files by their names for long, the log's other locks apart: once it was held alone,
    /// the directory may be another one's.
    pub(super) names: RwLock<()>,
    /// What is left to do to the files of segments that are out of the list. Held by whoever takes some out, so retention
    /// and compaction never do that at once.
    pub(super) unfinished: Mutex<Unfinished>,
    /// Held while a segment is compared with its checksums, and while both are replaced.
    pub(super) scrubbing: Mutex<()>,
    /// Held by the one compaction at a time.
    pub(super) compacting: Mutex<()>,
}

/// A reader's place in a log. See [`Log::fetch`].
#[derive(Debug, Clone)]
pub struct Cursor {
    pub(super) segment: Arc<Segment>,
    pub(super) position: u64,
    /// Where it went on behind damage, until somebody asks.
    pub(super) skipped: Option<Offset>,
    pub(super) moved: Option<Moved>,
}

/// A reader did not get the place it asked for, or not what came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Offset it was to get.
    pub from: Offset,
    /// Offset it goes on at.
    pub to: Offset,
}

/// What a reader gets next.
#[derive(Debug)]
pub enum Fetch {
    /// Bytes to send.
    Slice(FileSlice),
    /// Nothing yet: the reader has all there is.
    Tail,
    /// The bytes that come next are damaged.
    Damaged,
    /// The log was deleted. The reader stands between two frames.
    Deleted,
}

impl Log {
    /// Opens the log in `dir`, which must exist, or begins a new one there. Recovers from an unclean end.
    pub fn open(env: Environment, dir: &Path, options: LogOptions) -> Result<Self, OpenError> {
        let dir: Arc<Path> = Arc::from(dir);
        let Recovered { sealed, active, settling } =
            Recovery { env: &env, dir: &dir, options }.run()?;
        let (next_offset, read_only) = (active.next_offset, !active.whole);
        let settled = settling.is_empty() && active.flushed == active.segment.end();
        let flushed_offset = if settled { next_offset } else { 0 };
        let writer = Writer::new(active, settling, options.segment_bytes);
        let segments = sealed.into_iter().chain([Arc::clone(&writer.active)]).collect();
        let log = Self {
            env,
            dir,
            options: LiveOptions::new(options),
            writer: Mutex::new(writer),
            segments: RwLock::new(segments),
            end_offset: AtomicU64::new(next_offset),
            flushed_offset: AtomicU64::new(flushed_offset),
            failed: AtomicBool::new(read_only),
            incomplete: read_only,
            closed: AtomicBool::new(false),
            syncing: Mutex::new(()),
            discarded: AtomicBool::new(false),
            names: RwLock::new(()),
            unfinished: Mutex::default(),
            scrubbing: Mutex::new(()),
            compacting: Mutex::new(()),
        };
        if options.timestamps == Timestamps::Append {
            log.writer.lock().stamped = log.last_stamp();
        }
        if options.durability == Durability::Always && !read_only {
            // What an earlier process wrote and did not flush is not shown before it is durable. A failure makes the
            // log read-only, and is told at the next flush.
            let _ = log.flush();
        }
        Ok(log)
    }

    /// Offset of the oldest record kept (or of the first to come).
    pub fn start_offset(&self) -> Offset {
        self.segments.read().first().map_or(0, |segment| segment.base_offset)
    }

    /// Offset after the last record that readers may see.
    pub fn end_offset(&self) -> Offset {
        self.end_offset.load(Ordering::Acquire)
    }

    /// Offset after the last record that is durable.
    pub fn flushed_offset(&self) -> Offset {
        self.flushed_offset.load(Ordering::Acquire)
    }

    /// When a record counts as stored.
    pub fn durability(&self) -> Durability {
        self.options.durability()
    }

    /// How what is not kept goes.
    pub fn cleanup(&self) -> Cleanup {
        self.options.get().cleanup
    }

    /// Offset after the last record that a reader can have got. Readers see a run a moment before [`Log::end_offset`]
    /// counts it; this one never lags behind them.
    pub fn settled_end_offset(&self) -> Offset {
        let writer = self.writer.lock();
        match self.options.durability() {
            Durability::Interval => writer.next_offset,
            Durability::Always => self.end_offset(),
        }
    }

    /// Whether a failed flush, or an end that the start could neither take over nor cut, has made the log read-only.
    pub fn is_read_only(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// A cursor at the frame that holds `offset`, or at the first one after it. The log end is a valid place.
    pub fn locate(&self, offset: Offset) -> Result<Cursor, LocateError> {
        // Read before the list: a segment list taken later covers it.
        let end = self.end_offset();
        let segments = self.segments.read();
        let start = segments.first().map_or(0, |segment| segment.base_offset);
        let out_of_range = LocateError::OutOfRange { offset, start, end };
        if offset < start || offset > end {
            return Err(out_of_range);
        }
        let number = segments.partition_point(|segment| segment.base_offset <= offset);
        let segment = number.checked_sub(1).and_then(|number| segments.get(number)).map(Arc::clone);
        drop(segments);
        let segment = segment.ok_or(out_of_range)?;
        let position = segment.locate(offset)?;
        Ok(Cursor::new(segment, position))
    }

    /// The next bytes for a reader, at most `max`, across as many records as they hold. Takes no lock within a segment.
    ///
    /// The slice begins where the cursor stands; [`Cursor::advance`] moves it by what was really sent. A slice shorter
    /// than `max` ends at the end of a frame.
    pub fn fetch(&self, cursor: &mut Cursor, max: u64) -> Fetch {
        loop {
            // In this order: once a segment is seen sealed, its end is final.
            let sealed = cursor.segment.is_sealed();
            match cursor.segment.next(cursor.position, max) {
                Next::Slice(slice) => return Fetch::Slice(slice),
                Next::Bad(bad) if self.may_skip(cursor, &bad) => {
                    cursor.position = bad.positions.end;
                    cursor.skipped = Some(bad.offsets.end);
                    continue;
                }
                Next::Bad(_) => return Fetch::Damaged,
                Next::Nothing => {}
            }
            if self.is_discarded() {
                return Fetch::Deleted;
            }
            if !sealed {
                return Fetch::Tail;
            }
            match self.next_segment(cursor) {
                Ok(true) => {}
                Ok(false) => return Fetch::Tail,
                Err(error) => {
                    tracing::error!(dir = %self.dir.display(), %error, "a reader does not find where to go on");
                    return Fetch::Damaged;
                }
            }
        }
    }

    /// Whether a reader goes on behind damaged records. Not in the middle of a frame: its peer would take what comes next
    /// for the rest of it.
    fn may_skip(&self, cursor: &Cursor, bad: &BadRange) -> bool {
        let skips = cursor.position == bad.positions.start
            && self.options.get().on_corruption == OnCorruption::Skip;
        if skips {
            self.env.metrics.damage_skipped.inc();
            tracing::warn!(
                segment = %cursor.segment.path(segment::WAL).display(), offsets = ?bad.offsets,
                "a reader was moved past damaged records"
            );
        }
        skips
    }

    /// Moves a cursor to the first record that can be believed behind the damage it stands at; false if there is none.
    pub fn skip_damage(&self, cursor: &mut Cursor) -> bool {
        if cursor.segment.bad_at(cursor.position).is_none() {
            cursor.segment.meet_damage(cursor.position);
        }
        match cursor.segment.bad_at(cursor.position) {
            Some(bad) if bad.positions.end > cursor.position => {
                cursor.position = bad.positions.end;
                true
            }
            _ => self.next_segment(cursor).unwrap_or(false),
        }
    }

    /// Moves a cursor on behind a segment that was read to its end; false if nothing is there yet. Reads the disk only
    /// where what has replaced the segment was replaced meanwhile.
    pub(super) fn next_segment(&self, cursor: &mut Cursor) -> Result<bool, LocateError> {
        let segments = self.segments.read();
        // Under the lock: a segment is replaced and the list changed at one moment.
        if let Some((segment, position)) = cursor.segment.successor() {
            drop(segments);
            *cursor = Cursor { segment, position, ..cursor.clone() };
            return Ok(true);
        }
        let (from, start) = (cursor.segment.next_offset(), segments.first().map(Arc::clone));
        let replaced = cursor.segment.is_replaced();
        let number = segments.partition_point(|s| s.base_offset <= cursor.segment.base_offset);
        let next = segments.get(number).map(Arc::clone);
        drop(segments);
        if replaced && start.as_ref().is_some_and(|start| start.base_offset <= from) {
            let Cursor { segment, position, .. } = self.locate(from)?;
            *cursor = Cursor { segment, position, ..cursor.clone() };
            return Ok(true);
        }
        let Some(segment) = (if replaced { start } else { next }) else { return Ok(false) };
        let to = segment.base_offset;
        let mut moved = cursor.moved;
        if from < to && cursor.segment.is_deleted() {
            self.env.metrics.readers_moved.inc();
            tracing::warn!(
                dir = %self.dir.display(), from, to,
                "a reader was slower than retention: it goes on at the oldest record"
            );
            moved = Some(Moved { from, to });
        }
        *cursor = Cursor { segment, position: 0, skipped: cursor.skipped, moved };
        Ok(true)
    }

    /// Records of the log that are damaged, as far as is known.
    pub fn damage(&self) -> Vec<BadRange> {
        self.segments.read().iter().flat_map(|segment| segment.bad_ranges()).collect()
    }

    /// Segments in which damage was found.
    pub fn damaged_segments(&self) -> u64 {
        self.segments.read().iter().map(|segment| u64::from(segment.is_damaged())).sum()
    }
}

impl Cursor {
    /// Where the reader was moved by [`Log::fetch`] because records were deleted, once for each time.
    pub fn take_moved(&mut self) -> Option<Moved> {
        self.moved.take()
    }

    /// Moves on by bytes that were sent.
    pub fn advance(&mut self, bytes: u64) {
        self.position += bytes;
        debug_assert!(
            self.position <= self.segment.end(),
            "nothing past the published end is sent"
        );
    }
}
