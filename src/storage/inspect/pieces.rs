//! From a segment to its frames and its damage, piece by piece: what `verify`, `dump` and `repair` see of a log.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::listed::Listed;
use super::view::View;
use crate::model::Offset;
use crate::record::{HEADER_LEN, Header};
use crate::storage::checksums::{BLOCK, Mark};
use crate::storage::compare::{Compared, compare};
use crate::storage::damage::{BadRange, Frames};
use crate::storage::disk::Disk;
use crate::storage::index::{IndexEntry, OffsetIndex};
use crate::storage::walk::{Step, Walk};

/// Blocks compared ahead of the walk.
const WINDOW: u64 = 64 * BLOCK;

/// What comes next in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::storage) enum Piece {
    /// A good frame at a position, as far as is known.
    Frame(u64, Header),
    /// Frames that are damaged, and why.
    Bad(BadRange, String),
}

/// Told how many bytes of a log were looked at.
pub(in crate::storage) type Progress<'a> = &'a mut dyn FnMut(u64);

/// The pieces of a segment, in order.
pub(in crate::storage) struct Pieces<'a> {
    view: &'a View,
    walk: Walk<'a>,
    /// Bytes compared with their checksums.
    compared: u64,
    /// Not the bytes that were written; ascending, apart from each other.
    bad: Vec<Range<u64>>,
    /// Where no frame begins, and one should.
    pub(super) no_frames: Vec<u64>,
    /// Bytes that have the checksum they should have.
    pub(super) verified: u64,
    /// Bytes that should have a checksum, and whose checksum is damaged itself.
    pub(in crate::storage) unknown: Vec<Range<u64>>,
    /// Where to find frames behind damage; read when it is needed.
    hints: Option<OffsetIndex>,
    index: &'a Listed,
    /// A piece that was met while the one before it was being made.
    pending: Option<Piece>,
    /// Offset after the last piece that was given away.
    given: Offset,
    progress: Progress<'a>,
    told: u64,
    /// Was read last, and not from memory.
    cold: Option<(u64, u64)>,
}

impl<'a> Pieces<'a> {
    /// All of them, or those from an entry of the index on.
    pub(in crate::storage) fn new(
        view: &'a View,
        index: &'a Listed,
        from: Option<IndexEntry>,
        progress: Progress<'a>,
    ) -> Self {
        let from = from.unwrap_or(IndexEntry { offset: view.files.base, position: 0 });
        let mut pieces = Self {
            view,
            walk: view.walk(from.position, from.offset),
            compared: from.position / BLOCK * BLOCK,
            bad: Vec::new(),
            no_frames: Vec::new(),
            verified: view.covered,
            unknown: Vec::new(),
            hints: None,
            index,
            pending: None,
            given: from.offset,
            progress,
            told: from.position,
            cold: None,
        };
        for range in &view.known_bad {
            pieces.add_bad(range.clone());
        }
        pieces
    }

    /// Bytes of which only the frames were walked.
    pub(super) fn walked(&self) -> u64 {
        let unknown: u64 = self.unknown.iter().map(|range| range.end - range.start).sum();
        let without = self.view.end - self.view.checked.position.min(self.view.end);
        unknown + without.saturating_sub(self.view.covered)
    }

    /// The next piece; `None` at the end.
    pub(in crate::storage) fn next(&mut self) -> io::Result<Option<Piece>> {
        let next = self.joined()?;
        match &next {
            Some(Piece::Frame(_, header)) => self.given = header.next_offset(),
            Some(Piece::Bad(range, _)) => self.given = range.offsets.end,
            None => {}
        }
        Ok(next)
    }

    /// The next piece, where damage that touches is one.
    fn joined(&mut self) -> io::Result<Option<Piece>> {
        if let Some(piece) = self.pending.take() {
            return Ok(Some(piece));
        }
        let mut bad: Option<(BadRange, String)> = None;
        loop {
            match (self.step()?, &mut bad) {
                (Some(Piece::Bad(range, _)), Some((all, _))) => {
                    // They touch: nothing good was met between them.
                    all.positions.end = range.positions.end;
                    all.offsets.end = range.offsets.end;
                }
                (Some(Piece::Bad(range, why)), None) => bad = Some((range, why)),
                (piece, None) => return Ok(piece),
                (piece, Some(_)) => {
                    self.pending = piece;
                    return Ok(bad.map(|(range, why)| Piece::Bad(range, why)));
                }
            }
        }
    }

    /// Offset after the last piece.
    pub(in crate::storage) fn next_offset(&self) -> Offset {
        self.given
    }

    fn step(&mut self) -> io::Result<Option<Piece>> {
        let (at, first) = (self.walk.position(), self.walk.next_offset());
        self.tell(at);
        let head = at..(at + HEADER_LEN as u64).min(self.view.end);
        self.compare_to(head.end)?;
        let step = self.walk.next()?;
        match step {
            Step::End => Ok(None),
            _ if self.touching(&head).is_some() => self.go_on_behind(at, first, &head).map(Some),
            Step::Frame(position, header) => {
                let frame = position..position + header.frame_len();
                self.compare_to(frame.end)?;
                if self.touching(&frame).is_some() {
                    return self.go_on_behind(at, header.offset, &frame).map(Some);
                }
                Ok(Some(Piece::Frame(position, header)))
            }
            Step::Damaged(damage) => {
                self.no_frames.push(at);
                let (range, _) = self.search(at, first, at + 1)?;
                Ok(Some(Piece::Bad(range, format!("no frame: {damage}"))))
            }
        }
    }

    /// The frame at `at` has bytes in `around` that are not those that were written.
    fn go_on_behind(&mut self, at: u64, first: Offset, around: &Range<u64>) -> io::Result<Piece> {
        let mut end = self.touching(around).map_or(around.end, |bad| bad.end);
        while end == self.compared && end < self.view.checked.position {
            self.compare_to(end + 1)?;
            end = self.touching(around).map_or(end, |bad| bad.end);
        }
        let (range, known) = self.search(at, first, end)?;
        let why = if known { "found damaged before" } else { "not the bytes that were written" };
        Ok(Piece::Bad(range, why.to_owned()))
    }

    /// Moves on to the first good frame at or behind `from`. Also says whether the damage was written down before.
    fn search(&mut self, at: u64, first: Offset, from: u64) -> io::Result<(BadRange, bool)> {
        let view = self.view;
        let hints = match self.hints.take() {
            Some(hints) => hints,
            None => OffsetIndex::in_memory(&self.index.confirmed(&*view.walked, view.end)?),
        };
        let frames = Frames {
            file: &*view.walked,
            index: &hints,
            base: view.files.base,
            end: view.end,
            next_offset: view.next_offset,
        };
        let (behind, next) = frames.next_good(at, first, from);
        self.hints = Some(hints);
        let next = next.max(first);
        self.walk = view.walk(behind, next);
        let known = view.known_bad.iter().any(|bad| bad.start < from && bad.end > at);
        Ok((BadRange { positions: at..behind, offsets: first..next }, known))
    }

    /// The bad bytes that a range reaches.
    fn touching(&self, range: &Range<u64>) -> Option<&Range<u64>> {
        let first = self.bad.partition_point(|bad| bad.end <= range.start);
        self.bad.get(first).filter(|bad| bad.start < range.end)
    }

    /// Compares the bytes before a position with their checksums, where there are any.
    fn compare_to(&mut self, position: u64) -> io::Result<()> {
        let view = self.view;
        let Some(sums) = &view.sums else { return Ok(()) };
        while self.compared < position.min(view.checked.position) {
            let end = (self.compared / WINDOW * WINDOW + WINDOW).min(view.checked.position);
            let upto = Mark { position: end, ..view.checked };
            let cold = &mut self.cold;
            let Compared { bad, unknown } =
                compare(&*view.file, sums, self.compared, &upto, |position, len| {
                    // Nobody else has asked for it: memory is left as it was.
                    if let Some((position, len)) = cold.take() {
                        view.file.forget(position, len);
                    }
                    *cold = (!view.file.is_cached(position)).then_some((position, len));
                    Ok(())
                })?;
            let len = |ranges: &[Range<u64>]| -> u64 {
                ranges.iter().map(|range| range.end - range.start).sum()
            };
            self.verified += end - self.compared - len(&bad) - len(&unknown);
            self.compared = end;
            for range in bad {
                self.add_bad(range);
            }
            self.unknown.extend(unknown);
        }
        Ok(())
    }

    fn add_bad(&mut self, mut range: Range<u64>) {
        self.bad.retain(|other| {
            let apart = other.end < range.start || other.start > range.end;
            if !apart {
                range = range.start.min(other.start)..range.end.max(other.end);
            }
            apart
        });
        let at = self.bad.partition_point(|other| other.start < range.start);
        self.bad.insert(at, range);
    }

    fn tell(&mut self, position: u64) {
        if position - self.told >= WINDOW || position == self.view.end {
            (self.progress)(position - self.told);
            self.told = position;
        }
    }
}

/// The index of a segment as it lies there; empty if there is none.
pub(in crate::storage) fn listed(
    disk: &dyn Disk,
    dir: &Path,
    view: &View,
) -> io::Result<Option<Listed>> {
    Listed::read(disk, &dir.join(&view.files.idx), view.len)
}
