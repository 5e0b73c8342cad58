//! Making a log durable: segments in order, each before its successor gets its name.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checksums::{Checksums, Mark, Marked};
use super::durability::Durability;
use super::error::{FlushError, is_full};
use super::log::Log;
use super::segment::{self, Segment};
use super::writer::{Settling, Writer};
use crate::model::Offset;

impl Log {
    /// Makes everything appended so far durable. Blocks for the disk: never call it on a reactor.
    ///
    /// After an error the log is read-only: the kernel may have dropped the pages, so trying again would lie. Unless
    /// there was no descriptor to ask it with, or no space for a name: then the next flush starts over.
    pub fn flush(&self) -> Result<(), FlushError> {
        let _syncing = self.syncing.lock();
        if self.is_read_only() {
            let why = if self.incomplete {
                "the start could neither take over nor cut the end of the log"
            } else {
                "an earlier flush failed"
            };
            return Err(FlushError::Failed(io::Error::other(why)));
        }
        if self.is_discarded() {
            return Err(FlushError::Deleted);
        }
        self.sync_all().inspect_err(|error| {
            if matches!(error, FlushError::Failed(_)) {
                self.failed.store(true, Ordering::Release);
                self.withhold();
            }
        })
    }

    /// Shows readers no more than is durable. The kernel may drop what it could not write at any time, and then the files
    /// hold something else there, which `sendfile` would pass on. Readers who stand further on wait, as at the log end: the
    /// next start tells what the disk has.
    fn withhold(&self) {
        if self.options.durability() == Durability::Always {
            // They see no more.
            return;
        }
        let writer = self.writer.lock();
        let unsynced = writer.settling.iter().filter(|settling| !settling.synced);
        let unsynced = unsynced.map(|settling| (&settling.segment, settling.sums.as_deref()));
        let mut after_first = false;
        for (segment, sums) in unsynced.chain([(&writer.active, writer.sums.as_deref())]) {
            let mark = match sums.filter(|_| !after_first).map(Checksums::marked) {
                Some(Marked::Upto(mark)) => (mark.position, mark.next_offset),
                _ => (0, segment.base_offset),
            };
            segment.withhold(mark);
            after_first = true;
        }
    }

    fn sync_all(&self) -> Result<(), FlushError> {
        // What is there now and no more: a log that rolls as fast as it settles must not keep the flusher for itself.
        let last = self.writer.lock().active.base_offset;
        self.sync_sealed(last)?;
        let mut writer = self.writer.lock();
        if writer.first_unsynced_until(last).is_some() {
            // A roll has come between: what was active when this flush began is sealed, and has records that are its own.
            drop(writer);
            self.sync_sealed(last)?;
            writer = self.writer.lock();
        }
        if writer.is_clean() {
            return Ok(());
        }
        if let Some(unsynced) = writer.first_unsynced() {
            // It was sealed meanwhile. What was there when this flush began is durable; the next one comes to the rest.
            let base = unsynced.settling.segment.base_offset;
            writer.dir_dirty = false;
            drop(writer);
            self.sync_dir()?;
            self.reach(&mut self.writer.lock(), base);
            return Ok(());
        }
        let (active, sums) = (Arc::clone(&writer.active), writer.sums.clone());
        let mark = writer.mark(self.env.clock.now_ns());
        let dir_dirty = std::mem::take(&mut writer.dir_dirty);
        drop(writer);
        sync(&active, sums.as_deref(), mark)?;
        if dir_dirty {
            self.sync_dir()?;
        }
        let mut writer = self.writer.lock();
        // Else it was rolled meanwhile, and the next flush comes to it.
        if Arc::ptr_eq(&writer.active, &active) {
            writer.flushed = mark.position;
        }
        // It may have been shown before, up to here or further on: the durability mode can change.
        if self.options.durability() == Durability::Always && active.end() < mark.position {
            active.publish(mark.position, mark.next_offset);
        }
        self.reach(&mut writer, mark.next_offset);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.env.disk.sync_dir(&self.dir).inspect_err(|_| self.writer.lock().dir_dirty = true)
    }

    /// Everything before `next_offset` is durable, names included; perhaps more was before.
    fn reach(&self, writer: &mut Writer, next_offset: Offset) {
        Self::forget_settled(writer);
        if self.options.durability() == Durability::Always {
            self.end_offset.fetch_max(next_offset, Ordering::AcqRel);
        }
        self.flushed_offset.fetch_max(next_offset, Ordering::AcqRel);
    }

    /// Makes sealed segments up to `last` durable, oldest first, and gives their successors their names.
    fn sync_sealed(&self, last: Offset) -> Result<(), FlushError> {
        loop {
            let Some(unsynced) = self.writer.lock().first_unsynced_until(last) else { break };
            let Settling { segment, sums, mark, .. } = unsynced.settling;
            // The length is the same; setting it gives back the space reserved behind it.
            if let Err(error) = segment.file.set_len(mark.position) {
                tracing::debug!(segment = segment.base_offset, %error, "not trimmed");
            }
            sync(&segment, sums.as_deref(), mark)?;
            if let Some(error) = sums.and_then(|sums| sums.seal(mark.position).err()) {
                tracing::debug!(segment = segment.base_offset, %error, "checksums not trimmed");
            }
            if let Some(next) = unsynced.next_sums {
                // Before the log has its name: one that has it and no checksums is taken for somebody else's.
                next.sync()?;
                self.env.disk.sync_dir(&self.dir)?;
            }
            self.settle(unsynced.next_base)?;
            self.writer.lock().synced(segment.base_offset);
        }
        Ok(())
    }

    /// Gives a segment its name for good: its predecessor is durable.
    fn settle(&self, base: Offset) -> Result<(), FlushError> {
        let provisional = segment::path(&self.dir, base, segment::PROVISIONAL);
        let renamed =
            self.env.disk.rename(&provisional, &segment::path(&self.dir, base, segment::WAL));
        // The directory may have to grow for the name. What was written is where it was.
        renamed.map_err(
            |error| {
                if is_full(&error) { FlushError::Postponed(error) } else { error.into() }
            },
        )
    }

    /// Shows readers the whole of the sealed segments that are durable, names included.
    fn forget_settled(writer: &mut Writer) {
        while let Some(settling) = writer.settling.pop_front_if(|settling| settling.synced) {
            settling.show();
        }
    }

    /// Flushes, and trims what was set aside for growth. The log can still be read afterwards, not appended to.
    pub fn close(&self) -> Result<(), FlushError> {
        let writer = self.writer.lock();
        // Before the flush: what is appended is flushed.
        self.closed.store(true, Ordering::Release);
        drop(writer);
        self.flush()?;
        let writer = self.writer.lock();
        // The length is the same; setting it gives back the space reserved behind it.
        let trimmed = writer.active.file.set_len(writer.position);
        let trimmed = trimmed.and_then(|()| writer.active.index.seal());
        let sums = writer.sums.as_ref();
        let trimmed = trimmed.and_then(|()| sums.map_or(Ok(()), |sums| sums.seal(writer.position)));
        if let Err(error) = trimmed {
            tracing::debug!(segment = writer.active.base_offset, %error, "not trimmed");
        }
        Ok(())
    }
}

/// Makes a segment durable up to `mark`, and then its checksums, which say so.
fn sync(segment: &Segment, sums: Option<&Checksums>, mark: Mark) -> io::Result<()> {
    segment.file.sync_data()?;
    if let Some(sums) = sums {
        sums.sync_with(mark)?;
    }
    Ok(())
}
