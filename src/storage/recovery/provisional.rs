//! Segments whose names are provisional: they go on behind the last one, or are set aside.

use std::io;
use std::sync::Arc;

use super::{Active, Mark, Recovered, Recovery, partial, segment};
use crate::model::Offset;
use crate::storage::error::is_full;
use crate::storage::writer::Settling;

impl Recovery<'_> {
    /// Takes a provisional segment for the one after the last, if it is; sets it aside otherwise.
    pub(super) fn follow(&self, log: &mut Recovered, base: Offset) -> io::Result<()> {
        let before = &log.active;
        // A power cut can leave a file whose checksums it has taken: then nobody knows what is in it.
        let is_next = base == before.next_offset && base != before.segment.base_offset;
        if !is_next || self.open_sums(base, 0)?.is_none() {
            log.active.whole = self.set_aside(base)?;
            return Ok(());
        }
        if let Err(error) = before.segment.file.sync_data() {
            let segment = before.segment.path(segment::WAL);
            tracing::error!(
                segment = %segment.display(), %error,
                "cannot be flushed; what is behind it is not served, and nothing is appended"
            );
            log.active.whole = false;
            return Ok(());
        }
        let mark = self.end_of(before);
        if let Some(sums) = before.sums.as_ref().filter(|_| !before.rolls) {
            sums.sync_with(mark)?;
            before.segment.touch(mark.at_ns);
            sums.seal(mark.position)?;
        }
        before.segment.index.seal()?;
        self.env.disk.sync_dir(self.dir)?;
        // In order: a name for good says that nothing is missing before it.
        let named = log.settling.is_empty() && self.name(base)?;
        let extension = if named { segment::WAL } else { segment::PROVISIONAL };
        let next = self.active(base, extension)?;
        log.go_on(next, mark, named);
        Ok(())
    }

    /// Begins the segment behind one that takes no more records.
    pub(super) fn roll(&self, log: &mut Recovered) -> io::Result<()> {
        let base = log.active.next_offset;
        let named = log.settling.is_empty();
        let extension = if named { segment::WAL } else { segment::PROVISIONAL };
        let next = self.active(base, extension)?;
        let before = &log.active.segment;
        self.tell_gap(before.base_offset, before.next_offset(), base);
        let mark = self.end_of(&log.active);
        log.go_on(next, mark, named);
        Ok(())
    }

    fn end_of(&self, active: &Active) -> Mark {
        let (position, next_offset) = (active.segment.end(), active.next_offset);
        let (at_ns, partial) = (self.env.clock.now_ns(), partial(position, active.tail));
        Mark { position, next_offset, at_ns, partial }
    }

    /// Gives a segment its name for good. `false` if there is no space for that: the directory may have to grow.
    fn name(&self, base: Offset) -> io::Result<bool> {
        let (from, to) = (self.path(base, segment::PROVISIONAL), self.path(base, segment::WAL));
        match self.env.disk.rename(&from, &to) {
            Err(error) if is_full(&error) => {
                tracing::warn!(
                    segment = %from.display(), %error,
                    "no space for the name of a segment; it keeps its provisional one until there is some"
                );
                return Ok(false);
            }
            result => result?,
        }
        self.env.disk.sync_dir(self.dir)?;
        Ok(true)
    }
}

impl Recovered {
    /// Goes on in the next segment. Where that has no name for good, the flusher gives it one.
    fn go_on(&mut self, next: Active, mark: Mark, named: bool) {
        let Active { segment, sums, rolls, .. } = std::mem::replace(&mut self.active, next);
        segment.seal();
        let segment = Arc::new(segment);
        if !named {
            // Where flushed records are missing or damaged, the mark says so, and stays.
            let sums = sums.filter(|_| !rolls).map(Arc::new);
            let segment = Arc::clone(&segment);
            self.settling.push_back(Settling { segment, sums, mark, synced: false });
        }
        self.sealed.push(segment);
    }
}
