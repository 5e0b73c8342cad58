//! Reading a log as consumers do, and what must hold of what they get.

use hermitmq::storage::{Cursor, Fetch, LocateError, Log, OnCorruption};

use super::log_dir::{Frame, frames_of};

/// More than any log under test holds.
const ALL: u64 = 1 << 20;
/// Looking up every offset of every frame would be most of the work.
const LOOKUPS: usize = 24;
/// Slices and refusals that no log under test has.
const STEPS: usize = 100_000;

/// What a reader got from the start of a log to its end, going on behind what was refused.
#[derive(Debug)]
pub struct Reading {
    pub frames: Vec<Frame>,
    /// The bytes are whole frames, their offsets grow and lie within the log. Damage that no one has looked for may make
    /// them something else.
    pub is_clean: bool,
}

/// Reads everything in slices of at most `max` bytes.
pub fn read(log: &Log, max: u64) -> Reading {
    let (start, end) = (log.start_offset(), log.end_offset());
    let mut cursor = match log.locate(start) {
        Ok(cursor) => cursor,
        // Checksums that say that the log ends before it begins.
        Err(LocateError::OutOfRange { .. }) => {
            return Reading { frames: Vec::new(), is_clean: false };
        }
        Err(error) => panic!("not read: {error}"),
    };
    let mut pieces = vec![Vec::new()];
    for step in 0.. {
        assert!(step < STEPS, "reading goes on for ever");
        match log.fetch(&mut cursor, max) {
            Fetch::Slice(slice) => {
                pieces.last_mut().unwrap().extend(bytes_of(&slice, max));
                cursor.advance(slice.len());
            }
            Fetch::Damaged if log.skip_damage(&mut cursor) => pieces.push(Vec::new()),
            Fetch::Damaged | Fetch::Tail | Fetch::Deleted => break,
        }
    }
    let (mut frames, mut is_clean) = (Vec::new(), true);
    for piece in pieces {
        let (found, len) = frames_of(&piece);
        is_clean &= len == piece.len();
        frames.extend(found);
    }
    is_clean &= frames.is_sorted_by(|a: &Frame, b: &Frame| a.next <= b.first);
    is_clean &= frames.first().is_none_or(|frame| frame.first >= start);
    is_clean &= frames.last().is_none_or(|frame| frame.next <= end);
    Reading { frames, is_clean }
}

fn bytes_of(slice: &hermitmq::storage::FileSlice, max: u64) -> Vec<u8> {
    assert!(!slice.is_empty() && slice.len() <= max);
    let mut bytes = vec![0; usize::try_from(slice.len()).unwrap()];
    assert_eq!(slice.read(&mut bytes).unwrap(), bytes.len(), "a slice is there whole");
    bytes
}

/// What a consumer that begins at an offset gets first.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    Frame(Frame),
    /// What is there is no frame.
    Nonsense(Vec<u8>),
    /// It is damaged, and known to be.
    Refused,
    /// The log has nothing there or behind it.
    End,
}

pub fn lookup(log: &Log, offset: u64) -> Lookup {
    lookup_of(log, offset, ALL)
}

/// As [`lookup`], where the frame is thought to have `len` bytes.
fn lookup_of(log: &Log, offset: u64, len: u64) -> Lookup {
    let mut cursor: Cursor = match log.locate(offset) {
        Ok(cursor) => cursor,
        Err(LocateError::OutOfRange { .. }) => return Lookup::End,
        Err(LocateError::Damaged { .. }) => return Lookup::Refused,
        Err(LocateError::Io(error)) => panic!("not read: {error}"),
    };
    match log.fetch(&mut cursor, len) {
        Fetch::Slice(slice) => {
            let bytes = bytes_of(&slice, len);
            match frames_of(&bytes).0.into_iter().next() {
                Some(frame) => Lookup::Frame(frame),
                None if len < ALL => lookup(log, offset),
                None => Lookup::Nonsense(bytes),
            }
        }
        Fetch::Damaged => Lookup::Refused,
        Fetch::Tail | Fetch::Deleted => Lookup::End,
    }
}

/// Each frame is found by its first and its last offset: as it is, or refused. Behind refused frames a reader may be
/// moved on where the log is kept so.
pub fn assert_found(log: &Log, frames: &[Frame], skips: OnCorruption) {
    for frame in sample(frames) {
        for offset in [frame.first, frame.next - 1] {
            let found = lookup_of(log, offset, frame.bytes.len() as u64);
            let right = match &found {
                Lookup::Frame(found) if found == frame => true,
                Lookup::Frame(_) | Lookup::End => {
                    skips == OnCorruption::Skip && is_damaged(log, offset)
                }
                Lookup::Refused => true,
                Lookup::Nonsense(_) => false,
            };
            assert!(right, "offset {offset} of {}..{}: {found:?}", frame.first, frame.next);
        }
    }
}

/// Each offset of each frame, and the end, is found and nothing is refused.
pub fn assert_all_found(log: &Log, frames: &[Frame]) {
    for frame in sample(frames) {
        for offset in [frame.first, frame.first.midpoint(frame.next), frame.next - 1] {
            let found = lookup_of(log, offset, frame.bytes.len() as u64);
            assert!(found == Lookup::Frame(frame.clone()), "offset {offset}: {found:?}");
        }
    }
    assert_eq!(lookup(log, log.end_offset()), Lookup::End);
    assert_eq!(log.damage(), []);
}

fn is_damaged(log: &Log, offset: u64) -> bool {
    log.damage().iter().any(|bad| bad.offsets.contains(&offset))
}

/// Some of the frames, the last ones always.
fn sample(frames: &[Frame]) -> impl Iterator<Item = &Frame> {
    let step = frames.len() / LOOKUPS + 1;
    frames.iter().rev().step_by(step)
}

/// What was there is there as it was, or is refused; what came in addition is `added`.
pub fn assert_consistent(before: &[Frame], added: &[Frame], now: &[Frame]) {
    let mut known = before.iter().chain(added);
    for frame in now {
        assert!(known.any(|known| known == frame), "{} is new, or not as it was", frame.first);
    }
}

/// No offset that could be read before holds something else now. Both in the order of their offsets.
pub fn assert_not_different(before: &[Frame], now: &[Frame]) {
    for frame in now {
        let near = before.partition_point(|known| known.next <= frame.first);
        let same = before.get(near).is_none_or(|known| known.first >= frame.next || known == frame);
        assert!(same, "{} is not as it was", frame.first);
    }
}

/// All that was added is there.
pub fn assert_there(added: &[Frame], now: &[Frame]) {
    assert!(now.ends_with(added), "records that were stored are missing");
}
