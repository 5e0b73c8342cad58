//! Compaction: of each key the newest frame is kept, what is older goes.
//!
//! It works on segments that are sealed and settled. A pass first learns the newest offset of each key in the segments that
//! were not compacted yet (the *dirty* ones), then writes all segments again without the frames that have a newer one,
//! oldest first, and small ones together. What is kept keeps its offset and its place in the order. A segment that loses
//! nothing is not written again. Specification: `docs/STORAGE.md`, "Compaction".
//!
//! * Frames without a key are kept. So is a tombstone (a key without a payload), until it has been there for
//!   [`Rules::tombstone_retention_ns`] since the pass that removed what it supersedes: whoever reads the log from its
//!   beginning in less than that meets it.
//! * Where there is no room for all keys, a pass ends there, and the next one goes on.
//! * Each byte is compared with its checksum before it is believed. A segment with damage is left alone, as it is.
//! * A crash leaves each group of segments as it was, or compacted ([`replace`](super::replace)).
//!
//! Reading order: this file (what is due), `pass` (going through the segments), `keys`, `source` and `output`, `install` (the
//! moment of replacing).

mod install;
mod keys;
mod options;
mod output;
mod pass;
mod source;

use std::io;
use std::sync::Arc;

use super::checksums::Note;
use super::error::AppendError;
use super::log::Log;
use super::segment::Segment;
use crate::model::Offset;

use pass::Pass;

pub use options::{Cleanup, CompactionOptions, Rules};

/// What a pass has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Passes: none if nothing was due.
    pub passes: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes of frames that were taken out.
    pub bytes_removed: u64,
    /// Frames that were taken out.
    pub frames_removed: u64,
    /// Segments there are less.
    pub segments_merged: u64,
    /// Segments that were found damaged, and left alone.
    pub damaged: u64,
}

/// A segment that may be compacted.
#[derive(Debug, Clone)]
struct Candidate {
    segment: Arc<Segment>,
    note: Option<Note>,
    /// Base offset of the segment behind it.
    next_base: Offset,
    /// It has damage.
    left_alone: bool,
    /// All before it, and it itself, are compacted: no tombstone in it has anything left to supersede.
    settled: bool,
}

impl Candidate {
    fn is_clean(&self) -> bool {
        self.note.is_some_and(|note| note.is_clean())
    }

    fn is_dirty(&self) -> bool {
        !self.left_alone && !self.is_clean()
    }

    /// Whether its tombstones have been there long enough.
    fn tombstones_go(&self, rules: &Rules, now_ns: u64) -> bool {
        let [_, newest_ns] = self.note.map_or([0; 2], |note| note.tombstones_ns);
        let old = now_ns.saturating_sub(newest_ns) >= rules.tombstone_retention_ns;
        self.settled && newest_ns > 0 && old
    }
}

impl Log {
    /// Seals the active segment of a log that is compacted if it began as long ago as a superseded frame may stay. True if
    /// it did: it is compacted once a flush has made it durable.
    pub fn seal_lagging(&self, rules: &Rules) -> bool {
        if !self.cleanup().compacts() {
            return false;
        }
        let now_ns = self.env.clock.now_ns();
        let lags = |active: &Segment| now_ns.saturating_sub(active.began_ns()) >= rules.max_lag_ns;
        let sealed = self.roll_if(lags);
        if let Err(AppendError::Io(error)) = &sealed {
            tracing::warn!(dir = %self.dir.display(), %error, "the active segment is not sealed yet");
        }
        sealed.unwrap_or(false)
    }

    /// Makes one pass over the log if one is due. Waits for the disk, as slowly as `pause` wants: it is told how many bytes
    /// are read or written next, and ends the pass by `false`; then the result is an error of the kind `Interrupted`.
    ///
    /// Retention may run beside it; segments that it takes are not compacted. After an error what was replaced already
    /// stays so, and the next pass does the rest.
    pub fn compact(
        &self,
        rules: &Rules,
        pause: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Compacted> {
        if !self.cleanup().compacts() {
            return Ok(Compacted::default());
        }
        let _compacting = self.compacting.lock();
        // The directory stays as long. A deletion, which waits for that, ends the pass.
        let _names = self.names.read();
        self.refuse_discarded()?;
        let mut ended = false;
        let pause = &mut |bytes| {
            ended = !pause(bytes) || self.is_discarded();
            !ended
        };
        self.finish_files(&mut self.unfinished.lock())?;
        let (candidates, now_ns) = (self.candidates(), self.env.clock.now_ns());
        if !is_due(&candidates, rules, now_ns) {
            return Ok(Compacted::default());
        }
        let _in_span = tracing::debug_span!("compaction", dir = %self.dir.display()).entered();
        let mut pass = Pass::new(self, rules, &candidates, now_ns, pause);
        let result = pass.run();
        let done = pass.end();
        let metrics = &self.env.metrics;
        metrics.compaction_bytes_read.add(done.bytes_read);
        metrics.compaction_bytes_removed.add(done.bytes_removed);
        metrics.compaction_frames_removed.add(done.frames_removed);
        metrics.segments_merged.add(done.segments_merged);
        // As in a scrub: a call that a signal has interrupted does not end all compaction.
        result.map(|()| done).map_err(|error| if ended { error } else { io::Error::other(error) })
    }

    /// The segments that may be compacted, oldest first.
    fn candidates(&self) -> Vec<Candidate> {
        let until = self.settled_until();
        let segments = self.segments.read().clone();
        let mut settled = true;
        let pairs = segments.iter().zip(segments.iter().skip(1));
        pairs
            .take_while(|(segment, _)| segment.base_offset < until)
            .map(|(segment, next)| {
                let left_alone = !segment.bad_ranges().is_empty();
                let (segment, next_base) = (Arc::clone(segment), next.base_offset);
                let note = segment.note();
                let mut candidate = Candidate { segment, note, next_base, left_alone, settled };
                settled &= candidate.is_clean() && !left_alone;
                candidate.settled = settled;
                candidate
            })
            .collect()
    }
}

/// Whether a pass is worth it.
fn is_due(candidates: &[Candidate], rules: &Rules, now_ns: u64) -> bool {
    let bytes = |dirty: bool| -> u128 {
        let these = candidates.iter().filter(|c| !c.left_alone && c.is_dirty() == dirty);
        these.map(|candidate| u128::from(candidate.segment.end())).sum()
    };
    let (dirty, clean) = (bytes(true), bytes(false));
    let oldest = candidates.iter().find(|candidate| candidate.is_dirty());
    let lags = oldest
        .is_some_and(|oldest| now_ns.saturating_sub(oldest.segment.began_ns()) >= rules.max_lag_ns);
    let many = dirty > 0 && dirty * 100 >= (dirty + clean) * u128::from(rules.min_dirty_percent);
    let tombstones = || candidates.iter().any(|candidate| candidate.tombstones_go(rules, now_ns));
    many || lags || tombstones()
}
