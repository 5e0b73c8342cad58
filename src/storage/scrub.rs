//! Looking for damage in what was flushed long ago, before somebody needs it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::checksums::{BLOCK, Checksums, Mark, Marked};
use super::compare::{Compared, compare};
use super::damage::Frames;
use super::forgiving::Forgiving;
use super::log::Log;
use super::recovery::{Build, believed, build_sums, mark_known, survey};
use super::segment::{self, Segment};

/// Bytes read at once.
const STEP: u64 = 64 * BLOCK;

/// What one look through a log found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read and compared.
    pub bytes: u64,
    /// Segments in which something is damaged.
    pub damaged: u64,
    /// Segments that got checksums, having had none.
    pub summed: u64,
}

/// Reads at the pace of `pause`, and leaves the page cache as it found it.
struct Pace<'a> {
    segment: &'a Segment,
    pause: &'a mut dyn FnMut(u64) -> bool,
    bytes: u64,
    /// What was read last, if memory did not hold it before.
    cold: Option<(u64, u64)>,
}

impl Pace<'_> {
    fn before(&mut self, position: u64, len: u64) -> io::Result<()> {
        self.forget();
        if !(self.pause)(len) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.bytes += len;
        let file = &self.segment.file;
        self.cold = (!file.is_cached(position)).then_some((position, len));
        Ok(())
    }

    /// Nobody else has asked for it.
    fn forget(&mut self) {
        if let Some((position, len)) = self.cold.take() {
            self.segment.file.forget(position, len);
        }
    }
}

impl Log {
    /// Compares everything that was flushed with its checksums. Readers are kept from what is damaged, and it is written
    /// down. A segment that has no checksums, or damaged ones, gets new ones.
    ///
    /// `pause` is told how many bytes are read next, may wait, and ends the look by `false`: then the result is an error of
    /// the kind `Interrupted`, as it is for a log that is deleted meanwhile. Any other error is the first one that was met: the
    /// segments behind it were looked at all the same.
    pub fn scrub(&self, pause: &mut dyn FnMut(u64) -> bool) -> io::Result<Scrubbed> {
        let mut total = Scrubbed::default();
        let segments = self.segments.read().clone();
        let mut failed = None;
        for segment in segments {
            // It may replace files: the directory stays as long.
            let _names = self.names.read();
            self.refuse_discarded()?;
            let mut ended = false;
            let pause = &mut |bytes| {
                ended = !pause(bytes) || self.is_discarded();
                !ended
            };
            let mut pace = Pace { segment: &segment, pause, bytes: 0, cold: None };
            let result = self.scrub_segment(&segment, &mut pace, &mut total.summed);
            pace.forget();
            total.bytes += pace.bytes;
            match result {
                Err(error) if ended => return Err(error),
                result => failed = failed.or(result.err()),
            }
            total.damaged += u64::from(!segment.bad_ranges().is_empty());
        }
        // Not of the kind that says who was told to end: a call that a signal has interrupted does not end all scrubs.
        failed.map_or(Ok(total), |error| Err(io::Error::other(error)))
    }

    fn scrub_segment(
        &self,
        segment: &Segment,
        pace: &mut Pace<'_>,
        summed: &mut u64,
    ) -> io::Result<()> {
        let _scrubbing = self.scrubbing.lock();
        if segment.is_deleted() || self.unfinished.lock().replacement.is_some() {
            // It has no checksums any more, and needs none; or nobody knows which it has.
            return Ok(());
        }
        let usable = |(sums, _): &(Arc<Checksums>, bool)| sums.is_whole() && sums.is_readable();
        let Some((sums, in_use)) = self.sums_of(segment)?.filter(usable) else {
            *summed += 1;
            return self.sum_up(segment, None, pace);
        };
        // What was sealed and flushed has a mark.
        let unmarked = |mark: &Mark| !in_use && mark.position < segment.end().min(1);
        let mark = match sums.marked() {
            Marked::Upto(mark) => Some(mark).filter(|mark| !unmarked(mark)),
            Marked::Damaged => None,
        };
        let Some(mark) = mark else {
            tracing::warn!(
                segment = %segment.path(segment::WAL).display(),
                "checksums are damaged; they are made anew from what is there"
            );
            *summed += 1;
            return self.sum_up(segment, Some(&sums), pace);
        };
        let step = |position, len| pace.before(position, len);
        let Compared { bad, unknown } = compare(&*segment.file, &sums, 0, &mark, step)?;
        if !unknown.is_empty() {
            let _syncing = self.syncing.lock();
            sums.confirm()?;
        }
        for range in &unknown {
            self.sum_blocks(segment, &sums, range, pace)?;
        }
        for range in bad {
            segment.mark_bad(&segment.frames().over(&range));
            // Not the last one of the active segment, which the writer still writes.
            let last =
                if segment.is_sealed() { range.end.div_ceil(BLOCK) } else { range.end / BLOCK };
            let _syncing = self.syncing.lock();
            sums.put_all_bad(range.start / BLOCK..last, segment.end())?;
        }
        Ok(())
    }

    /// The checksums of a sealed segment, and how far it was flushed: whole. Makes them anew if there are none to be
    /// believed.
    pub(super) fn sums_for_compaction(
        &self,
        segment: &Segment,
        pause: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<(Checksums, Mark)> {
        let (path, base) = (segment.path(segment::SUM), segment.base_offset);
        let open = || -> io::Result<Option<(Checksums, Mark)>> {
            let sums = Checksums::open(&*self.env.disk, &path, base, 0, segment.end())?;
            Ok(sums.and_then(|sums| match sums.marked() {
                Marked::Upto(mark) if mark.position > 0 || segment.end() == 0 => Some((sums, mark)),
                Marked::Upto(_) | Marked::Damaged => None,
            }))
        };
        let mut found = open()?;
        if found.is_none() && !segment.is_deleted() {
            let _scrubbing = self.scrubbing.lock();
            let mut pace = Pace { segment, pause, bytes: 0, cold: None };
            let summed = self.sum_up(segment, None, &mut pace);
            pace.forget();
            summed?;
            found = open()?;
        }
        found.filter(|(_, mark)| mark.position == segment.end()).ok_or_else(|| {
            let what = "the segment has another length than was flushed, or no checksums";
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
        })
    }

    /// The checksums in use, or those on the disk, and whether they are in use: a flush comes to them. `None` if there are
    /// none.
    fn sums_of(&self, segment: &Segment) -> io::Result<Option<(Arc<Checksums>, bool)>> {
        let writer = self.writer.lock();
        if std::ptr::eq(&raw const *writer.active, segment) {
            return Ok(writer.sums.clone().map(|sums| (sums, true)));
        }
        let settling =
            writer.settling.iter().find(|s| std::ptr::eq(&raw const *s.segment, segment));
        if let Some(sums) = settling.and_then(|settling| settling.sums.clone()) {
            return Ok(Some((sums, true)));
        }
        drop(writer);
        let (path, base) = (segment.path(segment::SUM), segment.base_offset);
        let (disk, len) = (&*self.env.disk, segment.file.len()?);
        Ok(Checksums::open(disk, &path, base, 0, len)?.map(|sums| (Arc::new(sums), false)))
    }

    /// Makes the checksums of a sealed segment anew. `old` ones have lost their marks.
    fn sum_up(
        &self,
        segment: &Segment,
        old: Option<&Checksums>,
        pace: &mut Pace<'_>,
    ) -> io::Result<()> {
        if !segment.is_sealed() {
            // Without space for them. The next segment has some, and this one gets them when it is sealed.
            return Ok(());
        }
        let file = Forgiving(Arc::clone(&segment.file));
        let before = |position, len| pace.before(position, len);
        let (old, bad) = believed(&*segment.file, old, segment.end(), before)?;
        let before = |position, len| pace.before(position, len);
        let found = survey(&Frames { file: &file, ..segment.frames() }, bad, before)?;
        found.bad.iter().for_each(|bad| segment.mark_bad(bad));
        let build = Build {
            dir: &self.dir,
            base: segment.base_offset,
            file: &*segment.file,
            end: segment.end(),
            next_offset: segment.next_offset(),
            bad: &found.bad,
            old,
            segment_bytes: 0,
            note: segment.note(),
        };
        let built = build_sums(&self.env, &build, |position, len| pace.before(position, len));
        if segment.is_deleted() {
            // Its files were removed meanwhile.
            return self.env.disk.remove_file(&segment.path(segment::SUM));
        }
        let (sums, _) = built?;
        mark_known(segment, &sums, segment.end());
        Ok(())
    }

    /// Gives blocks whose checksum is gone the one of what they hold, but for those in which frames are broken.
    fn sum_blocks(
        &self,
        segment: &Segment,
        sums: &Checksums,
        range: &Range<u64>,
        pace: &mut Pace<'_>,
    ) -> io::Result<()> {
        tracing::warn!(
            segment = %segment.path(segment::SUM).display(), bytes = ?range,
            "checksums are damaged; those of these bytes are made anew"
        );
        self.env.metrics.checksums_rebuilt.inc();
        sums.reserve(range.end)?;
        let before = |position, len| pace.before(position, len);
        let broken = segment.frames().broken(range, before)?;
        let mut buf = vec![0; usize::try_from(STEP.min(range.end - range.start)).unwrap_or(0)];
        let mut at = range.start;
        while at < range.end {
            let len = STEP.min(range.end - at);
            pace.before(at, len)?;
            let buf = &mut buf[..usize::try_from(len).unwrap_or(0)];
            let read = segment.file.read_full_at(buf, at)?;
            sums.extend(at, &buf[..read], &mut 0);
            // Together: from here on their entries are believed.
            for &broken in broken.iter().filter(|broken| (at..at + len).contains(broken)) {
                segment.meet_damage(broken);
                sums.put_bad(broken / BLOCK);
            }
            at += len;
        }
        Ok(())
    }
}
