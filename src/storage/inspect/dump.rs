//! The frames of a partition, one after the other, past whatever is damaged.

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::layout::{Files, Layout};
use super::pieces::{Piece, Pieces, listed};
use super::read_only::ReadOnlyDisk;
use super::report::{Finding, InspectError, Kind, State};
use super::verify::unreadable;
use super::view::{Behind, View};
use crate::model::Offset;
use crate::record::{HEADER_LEN, Header};
use crate::storage::checksums::Checksums;
use crate::storage::compare::is_medium_error;
use crate::storage::damage::BadRange;
use crate::storage::disk::Disk;

/// A broker beside this may remove or rename a segment: then the list is read again.
const ATTEMPTS: u32 = 20;

/// A frame as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpedFrame<'a> {
    /// Name of its segment's log file.
    pub file: &'a str,
    /// Its first byte there.
    pub position: u64,
    /// Offset of its first record.
    pub offset: Offset,
    /// As its producer has set it: nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Records in it.
    pub records: u32,
    /// Key.
    pub key: &'a [u8],
    /// Payload.
    pub payload: &'a [u8],
}

/// What a dump comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dumped<'a> {
    /// A good frame, as far as is known.
    Frame(DumpedFrame<'a>),
    /// Something else.
    Finding(&'a Finding),
}

type Visit<'a> = &'a mut dyn FnMut(Dumped<'_>) -> ControlFlow<()>;

/// Shows `visit` all frames that hold an offset of the range, and what is damaged among them, until it breaks off. `live`
/// says that a broker has the directory: then only what is flushed is shown.
pub fn dump_partition(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    live: bool,
    range: Range<Offset>,
    visit: &mut dyn FnMut(Dumped<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, InspectError> {
    let disk = ReadOnlyDisk(Arc::clone(disk));
    let mut dump = Dump { disk: &disk, dir, live, range, done: (0, 0), visit };
    let mut attempt = 1;
    loop {
        match dump.all() {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {
                attempt += 1;
            }
            result => return result,
        }
    }
}

struct Dump<'a> {
    disk: &'a ReadOnlyDisk,
    dir: &'a Path,
    live: bool,
    range: Range<Offset>,
    /// Base of the segment that was shown last, and the offset behind what was shown of it: where to go on after a segment
    /// was gone.
    done: (Offset, Offset),
    visit: Visit<'a>,
}

impl Dump<'_> {
    fn all(&mut self) -> Result<ControlFlow<()>, InspectError> {
        let layout = Layout::read(self.disk, self.dir).map_err(InspectError::at(self.dir))?;
        let mut before: Option<Offset> = None;
        for (number, files) in layout.segments.iter().enumerate() {
            let next = layout.segments.get(number + 1).map(|next| next.base);
            if files.base >= self.range.end {
                break;
            }
            let next_is_early_enough =
                next.is_some_and(|next| next <= self.range.start && next > files.base);
            // One that was shown may have become part of the one before it, with others that were not.
            let was_shown = files.base < self.done.0 && next.is_none_or(|n| n <= self.done.0);
            if next_is_early_enough || was_shown {
                continue;
            }
            if files.base > self.done.0 {
                // What a broker has just merged is there twice for a moment.
                let shown = if self.live { self.done.1 } else { 0 };
                self.done = (files.base, shown.max(files.base));
            }
            if files.state == State::Provisional {
                if self.live {
                    break;
                }
                // Those before it may not have been asked for.
                let any = layout.segments[..number].iter().any(|one| one.state == State::Active);
                let follows = before.map_or(any, |before| before == files.base);
                if !follows || !self.has_sums(files)? {
                    let message = "does not follow on the segment before it; a start sets it aside";
                    let finding = Finding::note(Kind::Provisional, &files.wal, message);
                    if (self.visit)(Dumped::Finding(&finding)).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    continue;
                }
            }
            let next = next.filter(|_| files.state == State::Sealed);
            let shown = match self.segment(files, next) {
                Err(error) if is_medium_error(&error) => {
                    let finding = unreadable(self.disk, self.dir, files, &error);
                    (self.visit)(Dumped::Finding(&finding)).map_continue(|()| None)
                }
                shown => {
                    let shown = shown.map_err(InspectError::at(self.dir.join(&files.wal)))?;
                    shown.map_continue(Some)
                }
            };
            let ControlFlow::Continue(end) = shown else { return Ok(ControlFlow::Break(())) };
            before = end;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn has_sums(&self, files: &Files) -> Result<bool, InspectError> {
        let path = self.dir.join(&files.sum);
        let sums = Checksums::open(self.disk, &path, files.base, 0, 0);
        sums.map(|sums| sums.is_some()).map_err(InspectError::at(path))
    }

    /// Shows a segment; gives the offset behind it.
    fn segment(
        &mut self,
        files: &Files,
        next_base: Option<Offset>,
    ) -> io::Result<ControlFlow<(), Offset>> {
        let view = View::open(self.disk, self.dir, files, next_base, self.live)?;
        let index = listed(self.disk, self.dir, &view)?.unwrap_or_default();
        let start = self.range.start.max(self.done.1);
        let from = index.floor(&*view.walked, view.end, start)?;
        let mut ignored = |_| {};
        let mut pieces = Pieces::new(&view, &index, from, &mut ignored);
        let mut body = Vec::new();
        while let Some(piece) = pieces.next()? {
            let shown = match piece {
                Piece::Frame(position, header) => self.frame(&view, position, header, &mut body)?,
                Piece::Bad(bad, why) => self.bad(files, &bad, &why),
            };
            if shown.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.done.1 = self.done.1.max(pieces.next_offset());
            if pieces.next_offset() >= self.range.end {
                return Ok(ControlFlow::Continue(pieces.next_offset()));
            }
        }
        let (end, behind) = (pieces.next_offset(), view.behind.clone());
        if let Behind::Torn(range) | Behind::Surplus(range) = behind {
            let message = "bytes behind the end of the log";
            let kind = if files.state == State::Sealed { Kind::TooLong } else { Kind::TornTail };
            let finding = Finding::damage(kind, &files.wal, message).bytes(&range);
            if (self.visit)(Dumped::Finding(&finding)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(end))
    }

    fn frame(
        &mut self,
        view: &View,
        position: u64,
        header: Header,
        body: &mut Vec<u8>,
    ) -> io::Result<ControlFlow<()>> {
        if !self.wants(&(header.offset..header.next_offset())) {
            return Ok(ControlFlow::Continue(()));
        }
        let end = position + header.frame_len();
        let len = usize::try_from(end - position).unwrap_or(usize::MAX) - HEADER_LEN;
        body.resize(len, 0);
        let read = view.file.read_full_at(body, position + HEADER_LEN as u64);
        if read.as_ref().map_or_else(is_medium_error, |&read| read < len) {
            let offsets = header.offset..header.next_offset();
            let bad = BadRange { positions: position..end, offsets };
            return Ok(self.bad(&view.files, &bad, "cannot be read"));
        }
        read?;
        let (key, payload) = body.split_at(len.min(header.key_size as usize));
        let frame = DumpedFrame {
            file: &view.files.wal,
            position,
            offset: header.offset,
            timestamp: header.timestamp,
            records: header.records(),
            key,
            payload,
        };
        Ok((self.visit)(Dumped::Frame(frame)))
    }

    /// Whether an offset of these is asked for, and none of them was shown.
    fn wants(&self, offsets: &Range<Offset>) -> bool {
        let in_range = offsets.end > self.range.start && offsets.start < self.range.end;
        in_range && offsets.start >= self.done.1
    }

    fn bad(&mut self, files: &Files, bad: &BadRange, why: &str) -> ControlFlow<()> {
        if !self.wants(&bad.offsets) {
            return ControlFlow::Continue(());
        }
        (self.visit)(Dumped::Finding(&Finding::bad(&files.wal, bad, why)))
    }
}
