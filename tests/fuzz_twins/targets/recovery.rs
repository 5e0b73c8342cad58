//! Any files whatever as a log: opened, read, appended to, compared with its checksums, and all of it again.

use hermitmq::storage::{AppendError, Durability, Log};

use super::hurt::{Hurt, Scope, hurt};
use super::input::Input;
use super::keeping::assert_kept;
use super::log_dir::{Content, Files, Frame, LogDir, Opened, append};
use super::reading::{
    Lookup, Reading, assert_consistent, assert_found, assert_not_different, assert_there, lookup,
    read,
};

/// No partition hands out offsets from here on.
const OFFSET_MAX: u64 = 1 << 62;

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let dir = LogDir::new(&mut input);
    // An empty directory, into which the input then writes files, is as good a beginning as a log.
    let content = dir.build(&mut input);
    let mut files = if content.frames.is_empty() { Files::new() } else { dir.files() };
    let mut done = hurt(&mut files, &mut input, Scope::All);
    done.sums |= content.frames.is_empty();
    dir.put(&files);
    let max = [1 << 20, 777][data.len() % 2];

    let Opened { log, .. } = dir.open().expect("a log opens, whatever it holds");
    assert_kept(&files, &dir.files());
    let first = read(&log, max);
    if first.is_clean {
        assert_found(&log, &first.frames, dir.options.on_corruption);
    }
    let added = append_two(&log, &content, done);
    log.scrub(&mut |_| true).unwrap();
    let scrubbed = read(&log, max);
    assert_holds(&scrubbed, &content, &added, done);
    assert_same(&log, &dir, &first, &added, &scrubbed, done);

    drop(log);
    let before = dir.files();
    let Opened { log, .. } = dir.open().expect("a log opens again");
    assert_kept(&before, &dir.files());
    let again = read(&log, max);
    assert_holds(&again, &content, &added, done);
    assert_same(&log, &dir, &scrubbed, &[], &again, done);
    let more = append_two(&log, &content, done);
    let all: Vec<Frame> = added.into_iter().chain(more.iter().cloned()).collect();
    log.scrub(&mut |_| true).unwrap();
    log.close().unwrap();

    drop(log);
    let Opened { log, metrics } = dir.open().expect("a log opens after a clean end");
    assert_eq!(metrics.torn_bytes.get(), 0, "what was closed is whole");
    let last = read(&log, max);
    assert_holds(&last, &content, &all, done);
    assert_same(&log, &dir, &again, &more, &last, done);
}

/// Appends two runs and makes them durable. None if the log has no offsets left for them.
fn append_two(log: &Log, content: &Content, done: Hurt) -> Vec<Frame> {
    let (end, always) = (log.end_offset(), log.durability() == Durability::Always);
    let mut added = Vec::new();
    for payload in [&b"goes on"[..], &[b'x'; 500]] {
        let mut frame = Vec::new();
        let builder = hermitmq::record::FrameBuilder::new(9).key(b"added").record_count(2);
        builder.write(payload, &mut frame).unwrap();
        match append(log, &mut frame) {
            Ok(stored) => added.extend(stored),
            Err(AppendError::OffsetsExhausted(at)) if at > OFFSET_MAX - 2 => break,
            Err(error) => panic!("not stored: {error}"),
        }
    }
    if let Some(first) = added.first() {
        assert!(first.first >= end, "no offset is given twice");
        if !done.sums && !done.moved {
            assert!(first.first >= content.flushed, "what was flushed keeps its offsets");
        }
        assert_eq!(log.end_offset(), if always { end } else { added.last().unwrap().next });
    }
    log.flush().unwrap();
    if let Some(last) = added.last() {
        assert_eq!((log.end_offset(), log.flushed_offset()), (last.next, last.next));
    }
    added
}

/// What must hold of a log that was compared with its checksums. Bytes that two faults have hit, one in the log and one in
/// its checksums, may be anything. So may those that no flush had come to, in a log whose files somebody has renamed or
/// removed: a segment without a mark that is followed by another is nothing that a broker leaves, and a single checksum
/// that disagrees may as well be another segment's.
fn assert_holds(reading: &Reading, content: &Content, added: &[Frame], done: Hurt) {
    let unmarked = done.moved && content.flushed < content.next();
    if !done.sums && !unmarked {
        assert!(reading.is_clean, "what is served are whole frames, and their offsets grow");
        let known = |frame| content.frames.contains(frame) || added.contains(frame);
        assert!(reading.frames.iter().all(known), "what is served is what was accepted");
    }
    if reading.is_clean {
        assert_there(added, &reading.frames);
    }
}

/// What was readable before is so now, or it is refused.
fn assert_same(
    log: &Log,
    dir: &LogDir,
    before: &Reading,
    added: &[Frame],
    now: &Reading,
    done: Hurt,
) {
    for frame in added {
        assert_eq!(lookup(log, frame.first), Lookup::Frame(frame.clone()));
    }
    if before.is_clean && now.is_clean && !done.forged {
        if done.sums {
            // What was found damaged and could not be written down may come back, until the next look.
            assert_not_different(&before.frames, &now.frames);
        } else {
            assert_consistent(&before.frames, added, &now.frames);
        }
        assert_found(log, &before.frames, dir.options.on_corruption);
        assert_found(log, &now.frames, dir.options.on_corruption);
    }
}
