//! A log whose content is known, with checksums that are anything.
//!
//! The log is intact, so whatever is wrong is said by a `.sum` file that is wrong. Then:
//!
//! 1. Of each log the beginning is kept, as far as its checksums claim to be durable (0 if they are no checksums of it), and
//!    the rest is kept beside. Where the checksums are none at all nothing is cut. So a flushed record is cut only if no
//!    whole mark says any more that it was flushed, and the entries that speak for it are wrong as well.
//! 2. Whatever is served is what was accepted, at its offset; what is not is refused, or was cut.
//! 3. Unless the checksums were forged (all their checks right, and what they say is not), no offset of a record that is
//!    still there is given again, and a scrub makes the checksums right for good.

use super::hurt::{Scope, hurt};
use super::input::Input;
use super::keeping::{assert_kept, logs};
use super::log_dir::{Files, Frame, LogDir, Opened, append};
use super::reading::{Lookup, assert_all_found, assert_consistent, lookup, read};
use super::sum_file;

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let dir = LogDir::new(&mut input);
    let content = dir.build(&mut input);
    let mut files = dir.files();
    let done = hurt(&mut files, &mut input, Scope::Only("sum"));
    dir.put(&files);

    let Opened { log, metrics } = dir.open().expect("checksums are worth no failed start");
    let now = dir.files();
    assert_kept(&files, &now);
    for frame in &content.frames {
        assert_right(&lookup(&log, frame.first), frame, &content.frames);
    }
    if no_checksums(&files) {
        assert_all_found(&log, &content.frames);
        assert_eq!(logs(&files), logs(&now));
        assert_eq!(metrics.torn_bytes.get(), 0);
    }
    log.scrub(&mut |_| true).unwrap();
    let there = read(&log, 1 << 20);
    if done.forged {
        return;
    }
    assert!(there.is_clean);
    assert_consistent(&content.frames, &[], &there.frames);

    let mut run = Vec::new();
    hermitmq::record::FrameBuilder::new(9).write(b"goes on", &mut run).unwrap();
    let added = append(&log, &mut run).unwrap();
    assert!(there.frames.last().is_none_or(|last| last.next <= added[0].first));
    log.flush().unwrap();
    let whole = read(&log, 1 << 20);
    assert_eq!(whole.frames, [there.frames, added].concat());
    drop(log);

    let Opened { log, metrics } = dir.open().unwrap();
    let scrubbed = log.scrub(&mut |_| true).unwrap();
    assert_eq!((scrubbed.summed, metrics.checksums_rebuilt.get()), (0, 0), "they are right now");
    assert_eq!(metrics.torn_bytes.get(), 0);
    assert_eq!(read(&log, 1 << 20).frames, whole.frames);
}

/// Whether every segment's checksums are missing or no checksums of it. A provisional segment without is set aside.
fn no_checksums(files: &Files) -> bool {
    let provisional = files.keys().any(|name| name.ends_with(".new"));
    !provisional
        && logs(files).iter().all(|(base, _)| {
            let sums = files.get(&format!("{base}.sum"));
            sums.is_none_or(|sums| !sum_file::is_of(sums, base.parse().unwrap()))
        })
}

fn assert_right(found: &Lookup, frame: &Frame, all: &[Frame]) {
    match found {
        Lookup::Frame(found) if found == frame => {}
        // Some frames before the next segment were cut.
        Lookup::Frame(found) => {
            assert!(found.first >= frame.next && all.contains(found), "{}: {found:?}", frame.first);
        }
        Lookup::Refused | Lookup::End => {}
        Lookup::Nonsense(bytes) => panic!("offset {}: {bytes:?}", frame.first),
    }
}
