//! One segment, opened to be looked at: how far it goes, and what its checksums can say of it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::layout::Files;
use super::report::{Finding, Kind, State};
use crate::model::Offset;
use crate::model::limits::OFFSET_MAX;
use crate::storage::checksums::{BLOCK, Checksums, Mark, Marked};
use crate::storage::compare::{is_medium_error, is_readable};
use crate::storage::damage::Frames;
use crate::storage::disk::{Disk, File, Open};
use crate::storage::forgiving::Forgiving;
use crate::storage::index::OffsetIndex;
use crate::storage::recovery::{coverage, lost_mark, survey};
use crate::storage::walk::{Offsets, Step, Walk};

/// What is behind the end of a segment that was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::storage) enum Behind {
    /// Nothing.
    Nothing,
    /// What a start would cut off.
    Torn(Range<u64>),
    /// What a broker is writing, and has not flushed.
    Unflushed(Range<u64>),
    /// What a start would neither serve nor cut off, because the disk does not give it.
    Unreadable(Range<u64>),
    /// Bytes behind the end of a sealed segment.
    Surplus(Range<u64>),
}

/// A segment at one moment.
#[derive(Debug)]
pub(in crate::storage) struct View {
    pub(in crate::storage) files: Files,
    pub(in crate::storage) file: Arc<dyn File>,
    /// For walking: what cannot be read are zeros.
    pub(in crate::storage) walked: Arc<dyn File>,
    pub(in crate::storage) len: u64,
    /// Its own, if there are any.
    pub(in crate::storage) sums: Option<Checksums>,
    /// How far it was flushed; `None` if its checksums do not say.
    pub(in crate::storage) flushed: Option<Mark>,
    /// Its blocks are compared with their checksums up to here.
    pub(super) checked: Mark,
    /// Bytes behind that which were compared with their checksums already.
    pub(super) covered: u64,
    /// Known to be damaged before any comparison, ascending.
    pub(super) known_bad: Vec<Range<u64>>,
    /// Bytes that are judged.
    pub(in crate::storage) end: u64,
    /// Offset after the last record in them, or more.
    pub(in crate::storage) next_offset: Offset,
    /// A broker has the directory.
    live: bool,
    pub(in crate::storage) behind: Behind,
    /// What is wrong with its checksums.
    pub(super) findings: Vec<Finding>,
}

impl View {
    /// Opens a segment. `next_base` is that of the one behind it; `live` if a broker has the directory.
    pub(in crate::storage) fn open(
        disk: &dyn Disk,
        dir: &Path,
        files: &Files,
        next_base: Option<Offset>,
        live: bool,
    ) -> io::Result<Self> {
        let file = disk.open(&dir.join(&files.wal), Open::Read)?;
        // Before the length: what the marks say is there must be.
        let (sums, finding) = open_sums(disk, &dir.join(&files.sum), files)?;
        let len = file.len()?;
        let mut view = Self {
            files: files.clone(),
            walked: Arc::new(Forgiving(Arc::clone(&file))),
            file,
            len,
            sums,
            flushed: None,
            checked: nothing(files.base),
            covered: 0,
            known_bad: Vec::new(),
            end: len,
            next_offset: next_base.unwrap_or(OFFSET_MAX),
            live,
            behind: Behind::Nothing,
            findings: finding.into_iter().collect(),
        };
        view.read_marks(live)?;
        match (files.state, view.flushed) {
            (State::Sealed, Some(mark)) => view.sealed(&mark)?,
            (State::Sealed, None) => view.trust_entries(),
            (State::Active | State::Provisional, Some(mark)) if live || len < mark.position => {
                view.flushed_part(&mark);
            }
            (State::Active | State::Provisional, Some(mark)) => view.written_part(&mark)?,
            (State::Active | State::Provisional, None) => view.unmarked_part(live)?,
        }
        if let Some(sums) = &view.sums {
            view.known_bad.splice(0..0, sums.known_bad(view.end));
        }
        Ok(view)
    }

    /// Walks the frames from a position on. What has the offsets of the next segment is none of this one's, as for a broker;
    /// but beside one, those two may be of different moments.
    pub(super) fn walk(&self, position: u64, first: Offset) -> Walk<'_> {
        let limit = if self.live { OFFSET_MAX } else { self.next_offset };
        let range = position..self.end;
        Walk::new(&*self.walked, range, first, Offsets::Growing).below(limit)
    }

    /// Learns how far the segment was flushed.
    fn read_marks(&mut self, live: bool) -> io::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let sealed = self.files.state == State::Sealed;
        let wrong = match sums.marked() {
            Marked::Damaged => Some("some of the checksums are damaged, or the marks are"),
            Marked::Upto(mark) if sealed && mark.position == 0 && self.len > 0 => {
                Some("no whole mark says how far the segment was flushed")
            }
            Marked::Upto(mark) => {
                self.flushed = Some(mark);
                let broken = !live && sums.has_broken_marks();
                broken.then_some("a mark is damaged")
            }
        };
        let garbage = !live && sums.has_garbage(self.len)?;
        let wrong =
            wrong.or(garbage.then_some("something stands in the file where nothing should"));
        if let Some(wrong) = wrong {
            self.findings.push(Finding::derived(Kind::ChecksumsDamaged, &self.files.sum, wrong));
        }
        Ok(())
    }

    fn sealed(&mut self, mark: &Mark) -> io::Result<()> {
        let lost = self.sums.as_ref().map_or(Ok(None), |sums| {
            lost_mark(&*self.walked, sums, mark, self.len, self.next_offset)
        })?;
        if lost.is_some() {
            let message = "the last mark is gone; the entries speak for the rest";
            let found = Finding::derived(Kind::ChecksumsDamaged, &self.files.sum, message);
            self.findings.push(found);
            self.flushed = lost;
        }
        let mark = lost.as_ref().unwrap_or(mark);
        self.next_offset = self.next_offset.min(mark.next_offset);
        self.upto(mark);
        if self.len > mark.position {
            self.behind = Behind::Surplus(mark.position..self.len);
        }
        Ok(())
    }

    /// Beside a broker, and where the file is too short: what was flushed, and nothing else.
    fn flushed_part(&mut self, mark: &Mark) {
        self.next_offset = mark.next_offset;
        self.upto(mark);
        if self.len > mark.position {
            self.behind = Behind::Unflushed(mark.position..self.len);
        }
    }

    fn upto(&mut self, mark: &Mark) {
        self.end = self.len.min(mark.position);
        self.checked = *mark;
        if self.len < mark.position {
            // The checksum of the last block is of more than is there.
            self.checked = Mark { position: self.len / BLOCK * BLOCK, partial: 0, ..*mark };
        }
    }

    /// What was flushed, and what was written behind it, as far as its checksums say that it is what was written.
    fn written_part(&mut self, mark: &Mark) -> io::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        // As at a start: what an earlier process was told to be written, and was not, is not believed from memory. The system
        // lets go of nothing that it has still to write.
        self.file.forget(mark.position / BLOCK * BLOCK, self.len);
        let covered = match coverage(&*self.file, sums, mark, self.len) {
            Err(error) if is_medium_error(&error) => {
                self.flushed_part(mark);
                self.behind = Behind::Unreadable(mark.position..self.len);
                return Ok(());
            }
            covered => covered?,
        };
        let range = mark.position..covered.end;
        let mut walk = Walk::new(&*self.walked, range, mark.next_offset, Offsets::Exact);
        while let Step::Frame(..) = walk.next()? {}
        (self.end, self.next_offset) = (walk.position(), walk.next_offset());
        self.checked = *mark;
        let judged = covered.rot.as_ref().map_or(mark.position, |rot| rot.end);
        self.covered = self.end.saturating_sub(judged);
        self.known_bad.extend(covered.rot);
        if self.end < self.len {
            self.behind = Behind::Torn(self.end..self.len);
        }
        Ok(())
    }

    /// No mark says how far it was flushed: its frames say where it ends.
    fn unmarked_part(&mut self, live: bool) -> io::Result<()> {
        let no_index = OffsetIndex::none();
        let frames = Frames {
            file: &*self.walked,
            index: &no_index,
            base: self.files.base,
            end: self.len,
            next_offset: OFFSET_MAX,
        };
        let found = survey(&frames, Vec::new(), |_, _| Ok(()))?;
        self.next_offset = found.next_offset;
        if let Some(torn) = found.torn(self.len) {
            (self.end, self.next_offset) = (torn.positions.start, torn.offsets.start);
            let torn = torn.positions.clone();
            self.behind = if live { Behind::Unflushed(torn) } else { Behind::Torn(torn) };
        }
        self.trust_entries();
        Ok(())
    }

    /// No mark counts. Each entry has a check of its own: those that are whole are believed.
    fn trust_entries(&mut self) {
        if let Some(sums) = &self.sums {
            self.checked = sums.mark_of_entries(self.end, self.checked.next_offset);
        }
    }
}

fn nothing(base: Offset) -> Mark {
    Mark { position: 0, next_offset: base, at_ns: 0, partial: 0 }
}

/// The segment's own checksums, or what is wrong with those there are.
fn open_sums(
    disk: &dyn Disk,
    path: &Path,
    files: &Files,
) -> io::Result<(Option<Checksums>, Option<Finding>)> {
    let (kind, message) = match disk.open(path, Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (Kind::ChecksumsMissing, "there are no checksums: the frames were only walked")
        }
        Err(error) => return Err(error),
        // A start makes them anew. What they would have said of the log is not known.
        Ok(file) if !is_readable(&*file, 0..u64::MAX) => return Err(rustix::io::Errno::IO.into()),
        Ok(_) => match Checksums::open(disk, path, files.base, 0, 0)? {
            Some(sums) => return Ok((Some(sums), None)),
            None => (
                Kind::ChecksumsForeign,
                "not the checksums of this segment: the frames were only walked",
            ),
        },
    };
    Ok((None, Some(Finding::derived(kind, &files.sum, message))))
}
