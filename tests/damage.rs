//! Bytes that change on the disk, and files beside the log that are lost or wrong.
//!
//! Damage is found and named; what is damaged is not served, what is healthy is, and nothing is removed. What can be
//! derived from the log is derived again. The short forms try positions that a seed chooses (`HERMITMQ_TEST_SEED`), the
//! long ones (`HERMITMQ_TEST_LONG`) every one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use support::{
    Broker, Frame, Random, RawClient, Start, assert_verifies, copy_dir, drain, findings, frame,
    is_long, listing, scratch_in_memory, verify, wait_for,
};

/// Bytes that one checksum is for.
const BLOCK: usize = 4096;

/// A data directory that a broker has left, and what is in it.
struct Original {
    dir: tempfile::TempDir,
    data: PathBuf,
    frames: Vec<Frame>,
}

/// How the broker ended that wrote an [`Original`].
#[derive(Clone, Copy, PartialEq)]
enum Ended {
    /// Everything is flushed.
    Well,
    /// Nothing of the last segment is.
    Killed,
}

fn start(data: &Path) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__SCRUB_MB_PER_S", 4095)
}

impl Original {
    /// 20 records in five segments: small ones in three, each of a few blocks, and two as large as a segment.
    fn new(ended: Ended) -> Self {
        let (dir, data) = scratch_in_memory();
        let mut random = Random::from(3);
        let interval = if ended == Ended::Well { 500 } else { 3_600_000 };
        let broker = start(&data).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", interval).run();
        let mut producer = RawClient::produce(broker.addr(), "t", 0);
        for number in 0..20 {
            let len = if number % 7 == 6 { (1 << 20) - 100 } else { 100 + random.below(1500) };
            let payload = random.bytes(usize::try_from(len).unwrap());
            let key = if number % 3 == 0 { &b"key"[..] } else { b"" };
            assert_eq!(producer.append(&frame(number, key, &payload)), number);
        }
        let frames = drain(broker.addr(), "g", "t", 0);
        match ended {
            Ended::Well => assert!(broker.terminate().0.success()),
            Ended::Killed => broker.kill(),
        }
        Self { dir, data, frames }
    }

    /// A copy to damage.
    fn copy(&self, name: &str) -> Copy {
        let data = self.dir.path().join(name);
        let _ = fs::remove_dir_all(&data);
        copy_dir(&self.data, &data);
        Copy(data)
    }

    /// Base offsets of the segments.
    fn bases(&self) -> Vec<u64> {
        let names = listing(&self.data.join("t_0"));
        let base = |name: &String| name.split_once(".wal")?.0.parse().ok();
        let bases: Vec<u64> = names.iter().filter_map(base).collect();
        assert_eq!(bases, [0, 6, 7, 13, 14]);
        bases
    }

    /// The frames of a segment, with the bytes of the file that they are.
    fn layout(&self, base: u64) -> Vec<(Range<usize>, &Frame)> {
        let bases = self.bases();
        let end = bases.iter().copied().find(|&b| b > base).unwrap_or(u64::MAX);
        let frames = self.frames.iter().filter(|f| (base..end).contains(&f.header.offset));
        let mut at = 0;
        let range = |frame: &Frame| {
            at += frame.bytes.len();
            at - frame.bytes.len()..at
        };
        let ranges: Vec<_> = frames.clone().map(range).collect();
        ranges.into_iter().zip(frames).collect()
    }
}

struct Copy(PathBuf);

impl Copy {
    /// A segment's file with this extension; a log may have its provisional name.
    fn file(&self, base: u64, extension: &str) -> PathBuf {
        let path = self.0.join("t_0").join(format!("{base:020}.{extension}"));
        let provisional = path.with_extension("wal.new");
        if extension == "wal" && provisional.exists() { provisional } else { path }
    }

    /// Bytes of the logs, by base offset.
    fn logs(&self) -> BTreeMap<u64, Vec<u8>> {
        let dir = self.0.join("t_0");
        let base = |name: &str| name.split_once(".wal")?.0.parse::<u64>().ok();
        let names = listing(&dir).into_iter();
        names.filter_map(|name| Some((base(&name)?, fs::read(dir.join(name)).unwrap()))).collect()
    }

    /// Nothing was cut from these logs or written into them; the broker may have begun another.
    fn assert_untouched(&self, logs: &BTreeMap<u64, Vec<u8>>, what: &str) {
        let now = self.logs();
        for (base, bytes) in logs {
            assert!(now.get(base) == Some(bytes), "{what}: the log {base} was changed");
        }
        let names = listing(&self.0.join("t_0"));
        assert!(names.iter().all(|name| !name.contains("torn")), "{what}: {names:?}");
    }
}

/// Waits until the broker has compared the log with its checksums; whether it found damage.
fn has_found_damage(broker: &Broker) -> bool {
    wait_for("the log to be compared with its checksums", || {
        broker.log().into_iter().find_map(|line| match line.get("message").as_str() {
            "damage was found in the log" => Some(true),
            "the log is what was written" => Some(false),
            _ => None,
        })
    })
}

/// What a group is sent from an offset on: each frame just as it was. Returns their offsets.
fn served(broker: &Broker, from: u64, frames: &[Frame], what: &str) -> Vec<u64> {
    support::commit(broker.addr(), "reader", "t", 0, from);
    let got = drain(broker.addr(), "reader", "t", 0);
    for frame in &got {
        let original = frames.iter().find(|f| f.header.offset == frame.header.offset);
        assert!(original == Some(frame), "{what}: offset {} is not as it was", frame.header.offset);
    }
    let offsets: Vec<u64> = got.iter().map(|frame| frame.header.offset).collect();
    assert!(offsets.is_sorted_by(|a, b| a < b), "{what}: {offsets:?}");
    offsets
}

/// Positions to try in a file of that many bytes: all, or as many as `some`, and the first and the last one.
fn positions(len: usize, some: usize, random: &mut Random) -> Vec<usize> {
    if is_long() {
        return (0..len).collect();
    }
    let any = (0..some).map(|_| usize::try_from(random.below(len as u64)).unwrap());
    [0, len - 1].into_iter().chain(any).collect()
}

fn flip(path: &Path, position: usize, bit: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// `log verify` names the file and a range of bytes around the damage.
fn assert_named_by_verify(copy: &Copy, base: u64, position: usize, what: &str) {
    let report = verify(&copy.0);
    let wanted = format!("{base:020}.wal");
    let names = |found: &serde_json::Value| {
        let at = |end: &str| found["bytes"][end].as_u64();
        let (Some(from), Some(to)) = (at("from"), at("to")) else { return false };
        found["severity"] == "damage"
            && found["file"] == wanted.as_str()
            && (from..to).contains(&(position as u64))
    };
    assert!(findings(&report).iter().any(names), "{what}: {report}");
    assert_eq!(report["ok"], false, "{what}");
}

#[test]
fn a_flipped_bit_in_the_log_is_found_and_costs_its_block_alone() {
    let original = Original::new(Ended::Well);
    let mut random = Random::seeded();
    // Sealed segments, and the flushed part of the active one.
    for base in [0, 7, 14] {
        let layout = original.layout(base);
        let len = layout.last().unwrap().0.end;
        for position in positions(len, 8, &mut random) {
            let bit = random.below(8);
            let what = format!("segment {base}, byte {position}, bit {bit}");
            let copy = original.copy("flipped");
            flip(&copy.file(base, "wal"), position, bit);
            let logs = copy.logs();
            assert_named_by_verify(&copy, base, position, &what);
            let block = position / BLOCK * BLOCK..(position / BLOCK + 1) * BLOCK;
            let hit = |range: &Range<usize>| range.start < block.end && block.start < range.end;
            let all = original.frames.iter().map(|frame| frame.header.offset);
            let mut lost = layout.iter().filter(|(range, _)| range.contains(&position));
            let lost = lost.next().unwrap().1.header.offset;
            let touched = |offset: &u64| {
                layout.iter().any(|(range, f)| f.header.offset == *offset && hit(range))
            };
            let healthy: Vec<u64> = all.filter(|offset| !touched(offset)).collect();

            // Known from the start the second time; in the long form that is tried for some.
            let again = !is_long() || position.is_multiple_of(16);
            for scrub_hours in if again { &[168, 0][..] } else { &[168] } {
                let broker = start(&copy.0)
                    .env("HERMITMQ_STORAGE__ON_CORRUPTION", "skip")
                    .env("HERMITMQ_STORAGE__SCRUB_INTERVAL_HOURS", scrub_hours)
                    .run();
                if *scrub_hours > 0 {
                    assert!(has_found_damage(&broker), "{what}: not found");
                    let named = broker.lines_at("ERROR").iter().any(|line| {
                        line.get("segment").contains(&format!("{base:020}"))
                            && line.get("message").contains("damaged")
                    });
                    assert!(named, "{what}: not named");
                }
                let got = served(&broker, 0, &original.frames, &what);
                assert!(!got.contains(&lost), "{what}: {lost} is served");
                for offset in &healthy {
                    assert!(got.contains(offset), "{what}: {offset} is not served: {got:?}");
                }
                let after = lost + 1;
                let later: Vec<u64> = got.iter().copied().filter(|&o| o >= after).collect();
                assert_eq!(served(&broker, after, &original.frames, &what), later, "{what}");
                assert!(broker.terminate().0.success(), "{what}");
                copy.assert_untouched(&logs, &what);
            }
            if !again {
                continue;
            }
            // Nobody is sent past the damage who does not want it, and appends go on.
            let broker = start(&copy.0).run();
            let got = served(&broker, 0, &original.frames, &what);
            assert!(got.iter().all(|&offset| offset < lost), "{what}: {got:?}");
            let next = RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"next"));
            assert_eq!(next, 20, "{what}");
        }
    }
}

/// Starts a broker on a copy whose log is whole: everything is served, from everywhere, and appends go on.
fn assert_whole(copy: &Copy, frames: &[Frame], what: &str) {
    let logs = copy.logs();
    for again in [false, true] {
        let broker = start(&copy.0).run();
        let all: Vec<u64> = (0..20).collect();
        assert_eq!(served(&broker, 0, frames, what), all, "{what}, again: {again}");
        assert!(!has_found_damage(&broker), "{what}, again: {again}");
        for from in [0, 3, 6, 7, 10, 13, 17] {
            let expected = &all[usize::try_from(from).unwrap()..];
            assert_eq!(served(&broker, from, frames, what), expected, "{what}, again: {again}");
        }
        if again {
            assert_eq!(broker.lines_at("WARN").len(), 0, "{what}: said once");
            assert_eq!(broker.lines_at("ERROR").len(), 0, "{what}");
            let next = RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"next"));
            assert_eq!(next, 20, "{what}");
        }
        assert!(broker.terminate().0.success(), "{what}");
        if !again {
            copy.assert_untouched(&logs, what);
        }
    }
}

type Harm = fn(&Copy, &Path, &str);

/// What can become of a file beside the log.
const HARMS: [(&str, Harm); 8] = [
    ("missing", |_, path, _| fs::remove_file(path).unwrap()),
    ("empty", |_, path, _| fs::write(path, []).unwrap()),
    ("zeroed", |_, path, _| {
        let len = fs::metadata(path).unwrap().len();
        fs::write(path, vec![0; usize::try_from(len).unwrap()]).unwrap();
    }),
    ("too long", |_, path, _| {
        let more = Random::from(9).bytes(5000);
        fs::write(path, [fs::read(path).unwrap(), more].concat()).unwrap();
    }),
    ("cut", |_, path, _| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    }),
    ("half a word", |_, path, _| fs::write(path, [1; 7]).unwrap()),
    ("noise", |_, path, _| fs::write(path, Random::from(8).bytes(1000)).unwrap()),
    ("of another segment", |copy, path, extension| {
        let other = [0, 7].map(|base| copy.file(base, extension));
        let other = other.iter().find(|other| *other != path).unwrap();
        fs::copy(other, path).unwrap();
    }),
];

#[test]
fn files_beside_the_log_are_made_anew() {
    for (ended, extension) in [(Ended::Well, "idx"), (Ended::Well, "sum"), (Ended::Killed, "idx")] {
        let original = Original::new(ended);
        for base in [0, 6, 14] {
            for (name, harm) in HARMS {
                let what = format!("segment {base}: .{extension} {name}");
                let copy = original.copy("harmed");
                harm(&copy, &copy.file(base, extension), extension);
                assert_whole(&copy, &original.frames, &what);
                assert_verifies(&copy.0, &what);
            }
        }
        // All of them at once.
        let copy = original.copy("harmed");
        for base in original.bases() {
            fs::remove_file(copy.file(base, "idx")).unwrap();
            if ended == Ended::Well {
                fs::remove_file(copy.file(base, "sum")).unwrap();
            }
        }
        assert_whole(&copy, &original.frames, "no files beside the logs");
    }
}

#[test]
fn a_flipped_bit_beside_the_log_costs_nothing() {
    let mut random = Random::seeded();
    let flushed = [(0, "idx"), (0, "sum"), (14, "idx"), (14, "sum")];
    for (ended, files) in [(Ended::Well, &flushed[..]), (Ended::Killed, &flushed[2..3])] {
        let original = Original::new(ended);
        for &(base, extension) in files {
            let len = usize::try_from(
                fs::metadata(original.copy("harmed").file(base, extension)).unwrap().len(),
            );
            for position in positions(len.unwrap(), 4, &mut random) {
                let bit = random.below(8);
                let what = format!("segment {base}: .{extension}, byte {position}, bit {bit}");
                let copy = original.copy("harmed");
                flip(&copy.file(base, extension), position, bit);
                assert_whole(&copy, &original.frames, &what);
            }
        }
    }
}

/// Damages the end of the last segment, from a position on.
type TailHarm = fn(&mut Vec<u8>, usize);

const TAIL_HARMS: [(&str, TailHarm); 3] = [
    ("cut", Vec::truncate),
    ("zeroed", |log, from| log[from..].fill(0)),
    ("other bytes", |log, from| {
        let bytes = Random::from(6).bytes(log.len() - from);
        log[from..].copy_from_slice(&bytes);
    }),
];

/// Positions in the last three records of the last segment.
fn in_the_tail(original: &Original, random: &mut Random) -> Vec<usize> {
    let layout = original.layout(14);
    let tail = layout[layout.len() - 3].0.start..layout.last().unwrap().0.end;
    positions(tail.len(), 8, random).into_iter().map(|position| tail.start + position).collect()
}

/// A copy with a harm to the last three records of its last segment.
struct Tail {
    name: &'static str,
    /// Where the harm begins.
    position: usize,
    copy: Copy,
    /// The last segment as it is now.
    log: Vec<u8>,
}

/// Each harm at each of some places, one after the other.
fn harmed_tails(original: &Original) -> impl Iterator<Item = Tail> {
    let positions = in_the_tail(original, &mut Random::seeded());
    let harms = |position| TAIL_HARMS.into_iter().map(move |harm| (position, harm));
    positions.into_iter().flat_map(harms).map(|(position, (name, harm))| {
        let copy = original.copy("torn");
        let path = copy.file(14, "wal");
        let mut log = fs::read(&path).unwrap();
        harm(&mut log, position);
        fs::write(&path, &log).unwrap();
        Tail { name, position, copy, log }
    })
}

/// How many frames of the last segment end before a position.
fn ending_before(original: &Original, position: usize) -> usize {
    original.layout(14).iter().filter(|(range, _)| range.end <= position).count()
}

#[test]
fn an_unflushed_tail_is_cut_kept_beside_and_said_once() {
    let original = Original::new(Ended::Killed);
    for Tail { name, position, copy, log } in harmed_tails(&original) {
        let what = format!("{name} from {position} on");
        let broker = start(&copy.0).run();
        let kept = served(&broker, 0, &original.frames, &what);
        let whole = kept.len() - 14;
        assert_eq!(kept, (0..14 + whole as u64).collect::<Vec<_>>(), "{what}");
        // A block is whole or it is not: what stands before the damage in the same one may go with it.
        let least = ending_before(&original, position / BLOCK * BLOCK);
        let most = ending_before(&original, position);
        assert!((least..=most).contains(&whole), "{what}: {whole} of {least}..={most} kept");
        let cut = original.layout(14)[whole].0.start;
        let beside = listing(&copy.0.join("t_0")).into_iter().filter(|n| n.contains("torn"));
        let beside: Vec<Vec<u8>> =
            beside.map(|name| fs::read(copy.0.join("t_0").join(name)).unwrap()).collect();
        let expected: Vec<&[u8]> = Vec::from_iter(log.get(cut..).filter(|b| !b.is_empty()));
        assert_eq!(beside, expected, "{what}: kept beside the log");
        let warnings = broker.lines_at("WARN");
        assert_eq!(warnings.len(), expected.len(), "{what}: {warnings:?}");

        let bytes = frame(1, b"", b"after the cut");
        let next = RawClient::produce(broker.addr(), "t", 0).append(&bytes);
        assert_eq!(next, kept.len() as u64, "{what}");
        broker.kill();
        let broker = start(&copy.0).run();
        assert_eq!(drain(broker.addr(), "all", "t", 0).len(), kept.len() + 1, "{what}");
        assert_eq!(broker.lines_at("WARN").len(), 0, "{what}: cut once");
    }
}

#[test]
fn a_flushed_tail_is_never_cut_and_its_offsets_are_not_given_again() {
    let original = Original::new(Ended::Well);
    for Tail { name, position, copy, .. } in harmed_tails(&original) {
        let what = format!("{name} from {position} on");
        let logs = copy.logs();
        let broker = start(&copy.0).env("HERMITMQ_STORAGE__ON_CORRUPTION", "skip").run();
        assert!(has_found_damage(&broker) || name == "cut", "{what}: not found");
        assert!(!broker.lines_at("ERROR").is_empty(), "{what}: not said");
        let kept = served(&broker, 0, &original.frames, &what);
        let (least, most) = (
            ending_before(&original, position / BLOCK * BLOCK),
            ending_before(&original, position),
        );
        assert!((14 + least..=14 + most).contains(&kept.len()), "{what}: {kept:?} served");
        let bytes = frame(1, b"", b"after the damage");
        let next = RawClient::produce(broker.addr(), "t", 0).append(&bytes);
        assert_eq!(next, 20, "{what}");
        assert_eq!(drain(broker.addr(), "all", "t", 0).len(), kept.len() + 1, "{what}");
        assert!(broker.terminate().0.success(), "{what}");
        copy.assert_untouched(&logs, &what);
    }
}
