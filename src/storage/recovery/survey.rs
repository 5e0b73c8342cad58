//! Walking the frames of a segment from its beginning, past damage.

use std::io;
use std::ops::Range;

use crate::model::Offset;
use crate::record::HEADER_LEN;
use crate::storage::damage::{BadRange, Frames};
use crate::storage::index::{IndexEntry, IndexPolicy, OffsetIndex};
use crate::storage::walk::{Step, Steps};

/// What a segment holds, by its frames alone.
#[derive(Debug, Default)]
pub(in crate::storage) struct Survey {
    /// Entries of a whole index.
    pub(in crate::storage) entries: Vec<IndexEntry>,
    /// What is no frame, or not what it was. A last one may reach the end.
    pub(in crate::storage) bad: Vec<BadRange>,
    /// The ranges of bytes that were known to be bad.
    pub(in crate::storage) blocks: Vec<Range<u64>>,
    /// Offset after the last frame.
    pub(in crate::storage) next_offset: Offset,
    /// Frames.
    pub(in crate::storage) frames: u64,
}

/// Walks all frames, past those that touch `bad` ranges of bytes. The index of `frames` is not looked at.
///
/// A frame that reaches beyond the segment's last offset is none of its own: the next segment has those offsets, and a lookup
/// goes there.
///
/// Calls `before` with position and length of each step before it is read; an error of it ends the walk.
pub(in crate::storage) fn survey(
    frames: &Frames<'_>,
    bad: Vec<Range<u64>>,
    before: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<Survey> {
    let no_index = OffsetIndex::none();
    let frames = Frames { index: &no_index, ..*frames };
    let walk_from = |position, first| frames.walk(position, first);
    let mut found = Survey { next_offset: frames.base, ..Survey::default() };
    let mut policy = IndexPolicy::default();
    let mut walk = walk_from(0, frames.base);
    let mut steps = Steps::new(before);
    loop {
        let (at, expected) = (walk.position(), walk.next_offset());
        steps.come_to(at, frames.end)?;
        let (first, from) = match walk.next()? {
            Step::End => break,
            Step::Damaged(_) => (expected, at + 1),
            Step::Frame(_, header) => match touched(&bad, at..walk.position()) {
                None => {
                    found.frames += 1;
                    if policy.wants(at) {
                        found.entries.push(IndexEntry { offset: header.offset, position: at });
                    }
                    continue;
                }
                // A header among the bad bytes says nothing.
                Some(bad) if bad.start < at + HEADER_LEN as u64 => (expected, bad.end),
                Some(bad) => (header.offset, bad.end),
            },
        };
        let (behind, next) = frames.next_good(at, first, from);
        found.bad.push(BadRange { positions: at..behind, offsets: first..next });
        walk = walk_from(behind, next);
    }
    found.next_offset = walk.next_offset();
    found.blocks = bad;
    Ok(found)
}

/// The first of the ranges that has a byte in `frame`.
fn touched(bad: &[Range<u64>], frame: Range<u64>) -> Option<Range<u64>> {
    bad.iter().find(|bad| bad.start < frame.end && bad.end > frame.start).cloned()
}

impl Survey {
    /// What is no frame at the end.
    pub(in crate::storage) fn torn(&self, end: u64) -> Option<&BadRange> {
        self.bad.last().filter(|last| last.positions.end == end)
    }
}
