//! Doing what is to be done with one segment.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::report::{Action, Step};
use super::sums::NewSums;
use crate::model::Offset;
use crate::storage::checksums::Checksums;
use crate::storage::damage::{BadRange, Frames};
use crate::storage::disk::{Disk, File, Open};
use crate::storage::index::{self, IndexEntry, OffsetIndex};
use crate::storage::inspect::{Examined, ReadOnlyDisk};
use crate::storage::log::Environment;
use crate::storage::recovery::{keep, survey};
use crate::storage::{replace, segment};

/// Bytes copied at once.
const STEP: u64 = 1 << 20;

/// Names that are given to what is kept, each once.
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn read(disk: &ReadOnlyDisk, dir: &Path) -> io::Result<Self> {
        Ok(Self(disk.list(dir)?.into_iter().map(|entry| entry.name).collect()))
    }

    /// `BASE.what-N` with the first N that is free.
    pub(super) fn unused(&mut self, base: Offset, what: &str) -> String {
        let mut names = (1u64..).map(|number| format!("{base:020}.{what}-{number}"));
        let name = names.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(name.clone());
        name
    }
}

/// What is to be done with one segment.
pub(super) struct Work<'a> {
    segment: &'a Examined,
    /// Bytes behind the end, and the name they are kept under.
    pub(super) cut: Option<(Range<u64>, String)>,
    /// Frames, and the names they are kept under; ascending.
    pub(super) take_out: Vec<(BadRange, String)>,
    pub(super) sums: bool,
    pub(super) index: bool,
}

impl<'a> Work<'a> {
    pub(super) fn none(segment: &'a Examined) -> Self {
        Self { segment, cut: None, take_out: Vec::new(), sums: false, index: false }
    }

    /// The same for those who want to know.
    pub(super) fn steps(&self) -> Vec<Step> {
        let files = &self.segment.view.files;
        let wal = format!("{:020}.{}", files.base, segment::WAL);
        let sum = format!("{:020}.{}", files.base, segment::SUM);
        let cut = self.cut.iter();
        let cut = cut.map(|(range, kept)| Step::new(Action::CutTail, &wal).takes(range, kept));
        let taken = self.take_out.iter();
        let taken =
            taken.map(|(bad, kept)| Step::new(Action::Quarantine, &wal).takes_frames(bad, kept));
        let sums = self.sums.then(|| Step::new(Action::RebuildChecksums, &sum));
        let index = self.index.then(|| Step::new(Action::RebuildIndex, &files.idx));
        cut.chain(taken).chain(sums).chain(index).collect()
    }

    /// Does it, in an order in which every step leaves a directory that a broker can start on. After an error nothing is left
    /// behind that only takes up space, unless it was the first of what cannot be taken back.
    pub(super) fn apply(&self, env: &Environment, dir: &Path) -> io::Result<()> {
        let disk = &*env.disk;
        let prepared = self.prepare(env, dir);
        if prepared.is_err() {
            self.take_back(disk, dir);
        }
        prepared?;
        if !self.take_out.is_empty() {
            replace::finish(disk, dir, self.segment.view.files.base)?;
        } else if let Some((torn, _)) = &self.cut {
            let file = disk.open(&self.path(dir, segment::WAL), Open::Existing)?;
            file.set_len(torn.start)?;
            file.sync_data()?;
        }
        let renewed = if self.index { self.renew_index(disk, dir) } else { Ok(()) };
        if renewed.is_err() {
            let _ = disk.remove_file(&self.path(dir, replace::IDX_TEMPORARY));
        }
        renewed
    }

    /// All that comes before bytes of the log are taken away.
    fn prepare(&self, env: &Environment, dir: &Path) -> io::Result<()> {
        let disk = &*env.disk;
        for (range, name) in self
            .cut
            .iter()
            .map(|(range, name)| (range, name))
            .chain(self.take_out.iter().map(|(bad, name)| (&bad.positions, name)))
        {
            // What cannot be read is zeros in the copy.
            keep(disk, &*self.segment.view.walked, range.clone(), &dir.join(name))?;
        }
        if !self.take_out.is_empty() {
            self.rewrite(env, dir)
        } else if self.sums {
            self.renew_sums(env, dir)
        } else {
            Ok(())
        }
    }

    /// Removes what was prepared for nothing: on a full disk it would be in the way of the next attempt.
    fn take_back(&self, disk: &dyn Disk, dir: &Path) {
        if disk.open(&self.path(dir, replace::WAL_SWAP), Open::Read).is_ok() {
            // It was decided all the same.
            return;
        }
        let temporary = [replace::WAL_TEMPORARY, replace::SUM_SWAP, replace::SUM_TEMPORARY];
        let temporary = temporary.map(|extension| self.path(dir, extension));
        let kept = self.take_out.iter().map(|(_, name)| name);
        let kept = kept.chain(self.cut.iter().map(|(_, name)| name)).map(|name| dir.join(name));
        for path in temporary.into_iter().chain(kept) {
            let _ = disk.remove_file(&path);
        }
    }

    fn renew_index(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let idx = self.path(dir, segment::IDX);
        if self.take_out.is_empty() {
            return index::replace(disk, &idx, &self.segment.entries);
        }
        index::replace(disk, &idx, &self.entries_of_rewritten(disk, dir)?)
    }

    fn path(&self, dir: &Path, extension: &str) -> PathBuf {
        segment::path(dir, self.segment.view.files.base, extension)
    }

    /// Makes the checksums anew. What is behind the end is cut off after that, because they say how far the log was flushed,
    /// and what is behind that is cut by every start.
    fn renew_sums(&self, env: &Environment, dir: &Path) -> io::Result<()> {
        let disk = &*env.disk;
        let file = disk.open(&self.path(dir, segment::WAL), Open::Existing)?;
        file.sync_data()?;
        let temporary = self.path(dir, replace::SUM_TEMPORARY);
        let view = &self.segment.view;
        let sums = NewSums {
            old: view.sums.as_ref(),
            flushed: view.flushed,
            no_frames: &self.segment.no_frames,
            ..self.new_sums(env, &*view.walked, view.end)
        };
        sums.write(disk, &temporary)?;
        disk.rename(&temporary, &self.path(dir, segment::SUM))?;
        disk.sync_dir(dir)
    }

    /// Writes the segment again without the damaged frames, and decides that this takes its place.
    fn rewrite(&self, env: &Environment, dir: &Path) -> io::Result<()> {
        let disk = &*env.disk;
        let file = disk.open(&self.path(dir, replace::WAL_TEMPORARY), Open::Truncate)?;
        let mut end = 0;
        for range in self.good() {
            copy(&*self.segment.view.file, &range, &*file, end)?;
            end += range.end - range.start;
        }
        file.sync_data()?;
        let sums = self.new_sums(env, &*file, end);
        sums.write(disk, &self.path(dir, replace::SUM_SWAP))?;
        replace::decide(disk, dir, self.segment.view.files.base)
    }

    /// Bytes that stay.
    fn good(&self) -> Vec<Range<u64>> {
        let mut at = 0;
        let mut good = Vec::new();
        for (bad, _) in &self.take_out {
            good.push(at..bad.positions.start);
            at = bad.positions.end;
        }
        good.push(at..self.segment.view.end.max(at));
        good.retain(|range| !range.is_empty());
        good
    }

    fn new_sums<'b>(&self, env: &Environment, file: &'b dyn File, end: u64) -> NewSums<'b> {
        let view = &self.segment.view;
        let now_ns = env.clock.now_ns();
        // Not less than was promised: no offset is given twice.
        let next_offset = self.segment.report.next_offset;
        let next_offset = view.flushed.map_or(0, |mark| mark.next_offset).max(next_offset);
        NewSums {
            base: view.files.base,
            created_ns: view.sums.as_ref().map_or(now_ns, Checksums::created_ns),
            file,
            end,
            next_offset,
            at_ns: view.flushed.map_or(now_ns, |mark| mark.at_ns),
            old: None,
            flushed: None,
            no_frames: &[],
            note: view.sums.as_ref().and_then(Checksums::note),
        }
    }

    fn entries_of_rewritten(&self, disk: &dyn Disk, dir: &Path) -> io::Result<Vec<IndexEntry>> {
        let file = disk.open(&self.path(dir, segment::WAL), Open::Read)?;
        let base = self.segment.view.files.base;
        let (end, next_offset) = (file.len()?, self.segment.report.next_offset);
        let index = &OffsetIndex::none();
        let frames = Frames { file: &*file, index, base, end, next_offset };
        Ok(survey(&frames, Vec::new(), |_, _| Ok(()))?.entries)
    }
}

/// Copies a range of a file to a place in another one.
fn copy(from: &dyn File, range: &Range<u64>, to: &dyn File, mut at: u64) -> io::Result<()> {
    let mut buf = vec![0; usize::try_from(STEP).unwrap_or(usize::MAX)];
    let mut position = range.start;
    while position < range.end {
        let len = STEP.min(range.end - position);
        let bytes = &mut buf[..usize::try_from(len).unwrap_or(usize::MAX)];
        if from.read_full_at(bytes, position)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(bytes, at)?;
        position += len;
        at += len;
    }
    Ok(())
}
