//! One pass: learning the keys, then going through the segments.

use std::io;
use std::sync::Arc;

use super::keys::{Full, Keys};
use super::output::{Output, discard};
use super::source::{Frame, Pace, Source, SourceError};
use super::{Candidate, Compacted, Rules};
use crate::model::Offset;
use crate::record::HEADER_LEN;
use crate::storage::checksums::Note;
use crate::storage::log::Log;
use crate::storage::segment::Segment;

/// Segments become one only if their times are within this part of what they are kept for: what is old must not stay because
/// something new came to it.
const SPREAD: u64 = 4;

/// A pass under way.
pub(super) struct Pass<'a> {
    log: &'a Log,
    rules: &'a Rules,
    candidates: &'a [Candidate],
    now_ns: u64,
    pace: Pace<'a>,
    keys: Keys,
    done: Compacted,
    /// What is being written.
    group: Option<Group>,
}

/// How far the keys are known.
struct Known {
    /// The candidates before this one are compacted.
    end: usize,
    /// The last of them only before this offset: there was no room for more keys.
    until: Option<Offset>,
}

/// Segments that become one.
pub(super) struct Group {
    /// Base offset of the first source.
    base: Offset,
    pub(super) sources: Vec<Arc<Segment>>,
    /// Where the records of each end in the new segment.
    pub(super) ends: Vec<u64>,
    /// `None` while nothing was taken out of the one there is: then it need not be written again.
    output: Option<Output>,
    /// The one there is then.
    first: Option<Source>,
    pub(super) note: Note,
    /// Times of the tombstones that are kept: the oldest, the newest.
    tombstones: Option<[u64; 2]>,
    /// Times of the last records of the sources: the oldest, the newest.
    last: [u64; 2],
    frames_removed: u64,
    bytes_removed: u64,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        log: &'a Log,
        rules: &'a Rules,
        candidates: &'a [Candidate],
        now_ns: u64,
        pause: &'a mut dyn FnMut(u64) -> bool,
    ) -> Self {
        let first = candidates.iter().position(Candidate::is_dirty).unwrap_or(candidates.len());
        let bytes: u64 = candidates[first..].iter().map(|c| c.segment.end()).sum();
        Self {
            log,
            rules,
            candidates,
            now_ns,
            pace: Pace { pause, read: 0 },
            keys: Keys::new(rules.memory_bytes, bytes / (HEADER_LEN as u64 + 1)),
            done: Compacted::default(),
            group: None,
        }
    }

    /// Does it all. What was begun and not put in place is taken away.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let result = self.learn().and_then(|known| self.rewrite(&known));
        if let Some(group) = self.group.take().filter(|group| group.output.is_some()) {
            discard(&*self.log.env.disk, &self.log.dir, group.base);
        }
        match result {
            // The next pass goes by what is there then.
            Ok(()) | Err(SourceError::Gone) => Ok(()),
            // It is left alone from now on; the next pass does without it.
            Err(SourceError::Damaged(_)) => {
                self.done.damaged += 1;
                Ok(())
            }
            Err(error @ SourceError::Unknown(_)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
            Err(SourceError::Io(error)) => Err(error),
        }
    }

    pub(super) fn end(self) -> Compacted {
        Compacted { passes: 1, bytes_read: self.pace.read, ..self.done }
    }

    /// Learns the keys of what is dirty, and of all behind it.
    fn learn(&mut self) -> Result<Known, SourceError> {
        let candidates = self.candidates;
        let all = Known { end: candidates.len(), until: None };
        let Some(first) = candidates.iter().position(Candidate::is_dirty) else { return Ok(all) };
        for (number, candidate) in candidates.iter().enumerate().skip(first) {
            if candidate.left_alone {
                continue;
            }
            let from = candidate.note.filter(|_| number == first).map_or(0, |n| n.clean_until);
            if let Some(full_at) = self.read(candidate, |pass, source| pass.put(source, from))? {
                // Of the first one, what there was room for: else no pass would ever come further.
                return Ok(if number == first {
                    Known { end: number + 1, until: Some(full_at) }
                } else {
                    Known { end: number, until: None }
                });
            }
        }
        Ok(all)
    }

    /// Notes the keys of the frames from an offset on. Returns the offset of the first one that there is no room for.
    fn put(&mut self, source: &mut Source, from: Offset) -> Result<Option<Offset>, SourceError> {
        let (mut position, mut expected) = (0, source.segment.base_offset);
        while let Some(frame) = source.frame(position, expected, &mut self.pace)? {
            (position, expected) = (frame.end(), frame.header.next_offset());
            if frame.has_key() && frame.header.offset >= from {
                let key = source.key(&frame, self.keys.hasher(), &mut self.pace)?;
                if self.keys.put(key, frame.header.offset) == Err(Full) {
                    return Ok(Some(frame.header.offset));
                }
            }
        }
        Ok(None)
    }

    /// Reads a segment, and remembers damage that is met.
    fn read<T>(
        &mut self,
        candidate: &Candidate,
        look: impl FnOnce(&mut Self, &mut Source) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let mut source = self.open(candidate)?;
        let result = look(self, &mut source);
        source.forget();
        source.remember_damage(&result);
        result
    }

    fn open(&mut self, candidate: &Candidate) -> Result<Source, SourceError> {
        let segment = &candidate.segment;
        let sums = self.log.sums_for_compaction(segment, self.pace.pause);
        // In this order: a segment is deleted before its files are.
        let (sums, mark) = sums
            .map_err(|error| if segment.is_deleted() { SourceError::Gone } else { error.into() })?;
        Ok(Source::new(Arc::clone(segment), sums, mark))
    }

    /// Goes through the segments, oldest first.
    fn rewrite(&mut self, known: &Known) -> Result<(), SourceError> {
        let candidates = self.candidates;
        for (number, candidate) in candidates.iter().enumerate().take(known.end) {
            let tombstones_go = candidate.tombstones_go(self.rules, self.now_ns);
            if candidate.left_alone {
                self.close()?;
                // Once it is repaired, it holds what this pass would have taken out: until then, tombstones stay.
                self.log.forget_note(&candidate.segment)?;
                continue;
            }
            if self.keys.is_empty() && !tombstones_go && candidate.is_clean() {
                self.close()?;
                continue;
            }
            let until = known.until.filter(|_| number + 1 == known.end);
            // One that is compacted in part stays alone: the others would not count as compacted.
            let joins = |group: &Group| until.is_none() && self.joins(group, candidate);
            if !self.group.as_ref().is_some_and(joins) {
                self.close()?;
            }
            self.take_in(candidate, until, tombstones_go)?;
        }
        self.close()
    }

    /// Whether a segment becomes one with those before it.
    fn joins(&self, group: &Group, candidate: &Candidate) -> bool {
        let within = |[from, to]: [u64; 2], [oldest, newest]: [u64; 2], spread: u64| {
            newest.max(to) - oldest.min(from) <= spread / SPREAD
        };
        let LogLimits { segment_bytes, age_ns } = self.limits();
        let segment = &candidate.segment;
        let fits = group.len().saturating_add(segment.end()) <= segment_bytes;
        let ages = age_ns.is_none_or(|age| within(group.last, [segment.last_ns(); 2], age));
        // Not known yet for what is dirty, or behind that: it may have some, whose time begins now.
        let its = match candidate.note.filter(|_| candidate.settled) {
            Some(_) if candidate.tombstones_go(self.rules, self.now_ns) => None,
            Some(note) => Some(note.tombstones_ns).filter(|its| *its != [0; 2]),
            None => Some([self.now_ns; 2]),
        };
        let kept_ns = self.rules.tombstone_retention_ns;
        let both = group.tombstones.zip(its);
        let tombstones = both.is_none_or(|(span, its)| within(span, its, kept_ns));
        fits && ages && tombstones
    }

    fn limits(&self) -> LogLimits {
        let options = self.log.options.get();
        LogLimits { segment_bytes: options.segment_bytes, age_ns: options.retention.age_ns }
    }

    /// Goes through one segment, and appends what is kept of it to the group.
    fn take_in(
        &mut self,
        candidate: &Candidate,
        until: Option<Offset>,
        tombstones_go: bool,
    ) -> Result<(), SourceError> {
        let mut source = self.open(candidate)?;
        let mut group = match self.group.take() {
            Some(group) => group,
            None => Group::new(candidate),
        };
        let result = self.join(&mut group, candidate, &mut source, tombstones_go);
        source.forget();
        source.remember_damage(&result);
        group.note.covers = candidate.next_base;
        group.note.clean_until = until.unwrap_or(candidate.next_base);
        if group.output.is_none() {
            group.first = Some(source);
        }
        self.group = Some(group);
        result
    }

    fn join(
        &mut self,
        group: &mut Group,
        candidate: &Candidate,
        source: &mut Source,
        tombstones_go: bool,
    ) -> Result<(), SourceError> {
        if let Some(mut first) = group.first.take() {
            let all = first.segment.end();
            let begun = self.begin(group, &mut first, all);
            first.remember_damage(&begun);
            begun?;
        }
        let segment = Arc::clone(&candidate.segment);
        // When its tombstones had nothing left to supersede.
        let since_ns = match candidate.note {
            Some(note) if candidate.settled && note.tombstones_ns != [0; 2] => note.tombstones_ns,
            _ => [self.now_ns; 2],
        };
        let (mut position, mut expected) = (0, segment.base_offset);
        while let Some(frame) = source.frame(position, expected, &mut self.pace)? {
            (position, expected) = (frame.end(), frame.header.next_offset());
            let superseded = self.is_superseded(source, &frame)?;
            if superseded || frame.is_tombstone() && tombstones_go {
                if group.output.is_none() {
                    self.begin(group, source, frame.position)?;
                }
                group.frames_removed += 1;
                group.bytes_removed += frame.header.frame_len();
                continue;
            }
            if frame.is_tombstone() {
                group.note_tombstone(since_ns);
            }
            if let Some(output) = &mut group.output {
                source.copy(&frame, output, &mut self.pace)?;
            }
        }
        let end = group.output.as_ref().map_or(position, Output::len);
        group.add(segment, end);
        Ok(())
    }

    fn is_superseded(&mut self, source: &mut Source, frame: &Frame) -> Result<bool, SourceError> {
        if !frame.has_key() || self.keys.is_empty() {
            return Ok(false);
        }
        let key = source.key(frame, self.keys.hasher(), &mut self.pace)?;
        Ok(self.keys.get(key).is_some_and(|newest| newest > frame.header.offset))
    }

    /// Begins to write the group's segment, with the frames of its first source before a position.
    fn begin(
        &mut self,
        group: &mut Group,
        first: &mut Source,
        until: u64,
    ) -> Result<(), SourceError> {
        let (disk, dir) = (&*self.log.env.disk, &self.log.dir);
        let segment = Arc::clone(&first.segment);
        let most = self.limits().segment_bytes.max(segment.end());
        let output = Output::begin(disk, dir, segment.base_offset, segment.began_ns(), most);
        let output = output.inspect_err(|_| discard(disk, dir, segment.base_offset))?;
        let output = group.output.insert(output);
        let (mut position, mut expected) = (0, segment.base_offset);
        while position < until
            && let Some(frame) = first.frame(position, expected, &mut self.pace)?
        {
            (position, expected) = (frame.end(), frame.header.next_offset());
            first.copy(&frame, output, &mut self.pace)?;
        }
        Ok(())
    }

    /// Puts what was written in the place of what it was made of.
    fn close(&mut self) -> Result<(), SourceError> {
        let Some(mut group) = self.group.take() else { return Ok(()) };
        group.note.tombstones_ns = group.tombstones.unwrap_or_default();
        let Some(output) = group.output.take() else {
            if let Some(first) = &group.first {
                self.log.note_compacted(first, group.note)?;
            }
            return Ok(());
        };
        let (disk, dir, base) = (&*self.log.env.disk, &self.log.dir, group.base);
        let completed = output.complete(disk, group.note, group.last[1]);
        let done = completed.inspect_err(|_| discard(disk, dir, base))?;
        if !self.log.install(&group, &done)? {
            // What is behind it must not count as compacted before it does.
            return Err(SourceError::Gone);
        }
        self.done.frames_removed += group.frames_removed;
        self.done.bytes_removed += group.bytes_removed;
        self.done.segments_merged += group.sources.len() as u64 - 1;
        Ok(())
    }
}

/// What bounds a segment.
struct LogLimits {
    segment_bytes: u64,
    age_ns: Option<u64>,
}

impl Group {
    fn new(candidate: &Candidate) -> Self {
        let (next, last_ns) = (candidate.next_base, candidate.segment.last_ns());
        Self {
            base: candidate.segment.base_offset,
            sources: Vec::new(),
            ends: Vec::new(),
            output: None,
            first: None,
            note: Note { covers: next, clean_until: next, tombstones_ns: [0; 2] },
            tombstones: None,
            last: [last_ns; 2],
            frames_removed: 0,
            bytes_removed: 0,
        }
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn add(&mut self, segment: Arc<Segment>, end: u64) {
        let last_ns = segment.last_ns();
        self.last = [self.last[0].min(last_ns), self.last[1].max(last_ns)];
        self.sources.push(segment);
        self.ends.push(end);
    }

    fn note_tombstone(&mut self, [oldest_ns, newest_ns]: [u64; 2]) {
        let [oldest, newest] = self.tombstones.unwrap_or([oldest_ns, newest_ns]);
        self.tombstones = Some([oldest.min(oldest_ns), newest.max(newest_ns)]);
    }
}
