//! Looking for damage in what was flushed long ago, before somebody needs it.

use std::io;
use std::sync::Arc;

use super::checksums::{BLOCK, Checksums, Marked};
use super::compare::{Compared, compare};
use super::log::Log;
use super::recovery::{Build, build_sums, survey};
use super::segment::{self, Segment};

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
    /// the kind `Interrupted`, as it is for a log that is deleted meanwhile.
    pub fn scrub(&self, pause: &mut dyn FnMut(u64) -> bool) -> io::Result<Scrubbed> {
        let mut total = Scrubbed::default();
        let segments = self.segments.read().clone();
        // One that is deleted meanwhile has no checksums any more, and needs none.
        for segment in segments.into_iter().filter(|segment| !segment.is_deleted()) {
            // It may replace files: the directory stays as long.
            let _names = self.names.read();
            self.refuse_discarded()?;
            let pause = &mut |bytes| pause(bytes) && !self.is_discarded();
            let mut pace = Pace { segment: &segment, pause, bytes: 0, cold: None };
            let result = self.scrub_segment(&segment, &mut pace, &mut total.summed);
            pace.forget();
            total.bytes += pace.bytes;
            result?;
            total.damaged += u64::from(!segment.bad_ranges().is_empty());
        }
        Ok(total)
    }

    fn scrub_segment(
        &self,
        segment: &Segment,
        pace: &mut Pace<'_>,
        summed: &mut u64,
    ) -> io::Result<()> {
        let Some(sums) = self.sums_of(segment)?.filter(|sums| sums.is_whole()) else {
            *summed += 1;
            return self.sum_up(segment, pace);
        };
        let Marked::Upto(mark) = sums.marked() else {
            tracing::warn!(
                segment = %segment.path(segment::WAL).display(),
                "checksums are damaged; they are made anew from what is there"
            );
            *summed += 1;
            return self.sum_up(segment, pace);
        };
        let step = |position, len| pace.before(position, len);
        let Compared { bad, unknown } = compare(&*segment.file, &sums, 0, &mark, step)?;
        for range in &unknown {
            self.sum_blocks(segment, &sums, range)?;
        }
        if !unknown.is_empty() {
            let _syncing = self.syncing.lock();
            sums.mark_again()?;
        }
        for range in bad {
            segment.mark_bad(&segment.frames().over(&range));
            // Not the last one of the active segment, which the writer still writes.
            let last =
                if segment.is_sealed() { range.end.div_ceil(BLOCK) } else { range.end / BLOCK };
            (range.start / BLOCK..last).for_each(|block| sums.put_bad(block));
        }
        Ok(())
    }

    /// The checksums in use, or those on the disk; `None` if there are none.
    fn sums_of(&self, segment: &Segment) -> io::Result<Option<Arc<Checksums>>> {
        let writer = self.writer.lock();
        if std::ptr::eq(&raw const *writer.active, segment) {
            return Ok(writer.sums.clone());
        }
        let settling =
            writer.settling.iter().find(|s| std::ptr::eq(&raw const *s.segment, segment));
        if let Some(settling) = settling {
            return Ok(settling.sums.clone());
        }
        drop(writer);
        let (path, base) = (segment.path(segment::SUM), segment.base_offset);
        let (disk, len) = (&*self.env.disk, segment.file.len()?);
        let sums = Checksums::open(disk, &path, base, 0, len)?;
        // What was sealed and flushed has a mark; without one, nothing says what its entries are worth.
        let marked = |sums: &Checksums| !matches!(sums.marked(), Marked::Upto(mark) if mark.position < len.min(1));
        Ok(sums.filter(marked).map(Arc::new))
    }

    /// Makes the checksums of a sealed segment anew.
    fn sum_up(&self, segment: &Segment, pace: &mut Pace<'_>) -> io::Result<()> {
        if !segment.is_sealed() {
            // Without space for them. The next segment has some, and this one gets them when it is sealed.
            return Ok(());
        }
        let found = survey(&segment.frames(), Vec::new())?;
        found.bad.iter().for_each(|bad| segment.mark_bad(bad));
        let build = Build {
            dir: &self.dir,
            base: segment.base_offset,
            file: &*segment.file,
            end: segment.end(),
            next_offset: segment.next_offset(),
            bad: &found.bad,
            segment_bytes: 0,
        };
        build_sums(&self.env, &build, |position, len| pace.before(position, len)).map(drop)
    }

    /// Gives blocks whose checksum is gone the one of what they hold.
    fn sum_blocks(
        &self,
        segment: &Segment,
        sums: &Checksums,
        range: &std::ops::Range<u64>,
    ) -> io::Result<()> {
        tracing::warn!(
            segment = %segment.path(segment::SUM).display(), bytes = ?range,
            "checksums are damaged; those of these bytes are made anew"
        );
        self.env.metrics.checksums_rebuilt.inc();
        sums.reserve(range.end)?;
        let mut buf = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        let read = segment.file.read_full_at(&mut buf, range.start)?;
        sums.extend(range.start, &buf[..read], &mut 0);
        Ok(())
    }
}
