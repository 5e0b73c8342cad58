//! Walking the frames of a segment from its beginning, past damage.

use std::io;
use std::ops::Range;

use crate::model::Offset;
use crate::storage::damage::{BadRange, Frames};
use crate::storage::disk::File;
use crate::storage::index::{IndexEntry, IndexPolicy, OffsetIndex};
use crate::storage::walk::{Offsets, Step, Walk};

/// What a segment holds, by its frames alone.
#[derive(Debug, Default)]
pub(in crate::storage) struct Survey {
    /// Entries of a whole index.
    pub(in crate::storage) entries: Vec<IndexEntry>,
    /// What is no frame. A last one may reach the end.
    pub(in crate::storage) bad: Vec<BadRange>,
    /// Offset after the last frame.
    pub(in crate::storage) next_offset: Offset,
    /// Frames.
    pub(in crate::storage) frames: u64,
}

/// Walks `file` up to `end` and calls `visit` with each frame. `next_offset` is that after the last frame, or more.
pub(in crate::storage) fn survey(
    file: &dyn File,
    base: Offset,
    end: u64,
    next_offset: Offset,
) -> io::Result<Survey> {
    let index = OffsetIndex::none();
    let frames = Frames { file, index: &index, base, end, next_offset };
    let mut found = Survey { next_offset: base, ..Survey::default() };
    let mut policy = IndexPolicy::default();
    let mut walk = Walk::new(file, 0..end, base, Offsets::Growing);
    loop {
        match walk.next()? {
            Step::Frame(position, header) => {
                found.frames += 1;
                if policy.wants(position) {
                    found.entries.push(IndexEntry { offset: header.offset, position });
                }
            }
            Step::End => break,
            Step::Damaged(_) => {
                let (at, first) = (walk.position(), walk.next_offset());
                let (behind, next) = frames.next_good(at, first, at + 1);
                found.bad.push(BadRange { positions: at..behind, offsets: first..next });
                if behind >= end {
                    break;
                }
                walk = Walk::new(file, behind..end, next, Offsets::Growing);
            }
        }
    }
    found.next_offset = walk.next_offset();
    Ok(found)
}

impl Survey {
    /// The bytes at the end that are no frames.
    pub(in crate::storage) fn torn(&self, end: u64) -> Option<Range<u64>> {
        let last = self.bad.last()?;
        (last.positions.end == end).then(|| last.positions.clone())
    }
}
