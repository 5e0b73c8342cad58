//! What was acked survives: killed under load, and cut or damaged at the end of the log.
//!
//! The client keeps a journal of its acks. After each restart every acked record is there once, at its offset, byte for
//! byte. `HERMITMQ_TEST_SEED` repeats a run; `HERMITMQ_TEST_ROUNDS` makes it longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hermitmq::record::{FrameBuilder, Frames};
use support::{
    Broker, Frame, Random, RawClient, Start, assert_offsets_follow, copy_dir, drain, frame,
    listing, rounds, scratch, sha256, wait_for,
};

const TOPICS: [&str; 2] = ["orders", "events"];
const PARTITIONS: u32 = 2;

/// Acked records: topic, partition and offset, and the hash of what was sent.
type Journal = BTreeMap<(&'static str, u32, u64), String>;

/// The same of one partition: offsets and hashes.
type Acks = Vec<(u64, String)>;

/// Each round is of the other mode than the one before.
fn start(data: &Path, round: u64) -> Broker {
    let durability = if round.is_multiple_of(2) { "interval" } else { "always" };
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__DURABILITY", durability)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", PARTITIONS)
        .run()
}

/// Sends frames of many sizes, batches among them, up to `window` ahead of the acks, until the connection breaks.
/// Returns the acks with the hashes of what they stand for.
fn produce_until_broken(
    addr: SocketAddr,
    topic: &'static str,
    partition: u32,
    seed: u64,
    window: usize,
    acked: &AtomicUsize,
) -> Acks {
    let mut client = RawClient::produce(addr, topic, partition);
    let mut sender = client.split();
    let (sent, in_flight) = mpsc::sync_channel::<String>(window);
    let sending = std::thread::spawn(move || {
        let mut random = Random::from(seed);
        for i in 0.. {
            let largest = if random.below(50) == 0 { 60_000 } else { 600 };
            let len = usize::try_from(random.below(largest)).unwrap();
            let payload = random.bytes(len);
            let count = u32::try_from(1 + random.below(4)).unwrap();
            let mut bytes = Vec::new();
            let key = seed.to_string();
            FrameBuilder::new(i)
                .key(key.as_bytes())
                .record_count(count)
                .write(&payload, &mut bytes)
                .unwrap();
            if sent.send(sha256(&bytes)).is_err() || !sender.try_send(&bytes) {
                break;
            }
        }
    });
    let mut acks = Vec::new();
    while let Some(ack) = client.try_read_ack() {
        let hash = in_flight.recv().expect("an ack for each frame and no more");
        assert_eq!(ack.code, 0, "{ack:?}");
        acks.push((ack.offset, hash));
        acked.fetch_add(1, Ordering::Relaxed);
    }
    drop(in_flight);
    drop(client);
    sending.join().unwrap();
    acks
}

fn assert_journal_holds(addr: SocketAddr, journal: &Journal, round: u64) {
    for topic in TOPICS {
        for partition in 0..PARTITIONS {
            let frames = drain(addr, "oracle", topic, partition);
            assert_offsets_follow(&frames, 0);
            let stored: BTreeMap<u64, String> =
                frames.iter().map(|f| (f.header.offset, sha256(&f.as_sent()))).collect();
            let acked = journal.range((topic, partition, 0)..=(topic, partition, u64::MAX));
            for ((_, _, offset), hash) in acked {
                assert_eq!(
                    stored.get(offset),
                    Some(hash),
                    "round {round}, {topic}/{partition}, offset {offset}: {} stored",
                    stored.len()
                );
            }
        }
    }
}

/// Rounds on one data directory: after each of them all that was ever acked is looked at.
const ROUNDS_OF_A_LIFE: u64 = 10;

/// Acks before a kill, at least.
const ACKS_OF_A_ROUND: usize = 200;

#[test]
fn killed_under_load() {
    let mut random = Random::seeded();
    let rounds = rounds(ROUNDS_OF_A_LIFE);
    for life in 0..rounds.div_ceil(ROUNDS_OF_A_LIFE) {
        let first = life * ROUNDS_OF_A_LIFE;
        live_and_be_killed(first..rounds.min(first + ROUNDS_OF_A_LIFE), &mut random);
    }
}

fn live_and_be_killed(rounds: Range<u64>, random: &mut Random) {
    let (dir, data) = scratch();
    let mut journal = Journal::new();
    let mut broker = start(&data, 0);
    for round in rounds {
        let pause = Duration::from_millis(random.below(400));
        let acks = produce_and_kill(broker, pause, random.next());
        for (topic, partition, acks) in acks {
            assert!(acks.is_sorted_by(|a, b| a.0 < b.0), "acks of a connection grow");
            for (offset, hash) in acks {
                let before = journal.insert((topic, partition, offset), hash);
                assert_eq!(before, None, "round {round}: {topic}/{partition} {offset} used twice");
            }
        }
        broker = start(&data, round + 1);
        assert_journal_holds(broker.addr(), &journal, round);
    }
    assert_eq!(listing(dir.path()), ["data"]);
    assert!(broker.terminate().0.success());
    assert_journal_holds(start(&data, 0).addr(), &journal, u64::MAX);
}

/// What was acked to each of eight producers until the broker was killed: at a random moment, once there is a load.
fn produce_and_kill(broker: Broker, pause: Duration, seed: u64) -> Vec<(&'static str, u32, Acks)> {
    let addr = broker.addr();
    let acked = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..8u32)
            .map(|n| {
                let topic = TOPICS[n as usize % 2];
                let partition = (n / 2) % PARTITIONS;
                let window = if n < 4 { 64 } else { 1 };
                let seed = seed.wrapping_add(u64::from(n));
                scope.spawn(move || {
                    let acks = produce_until_broken(addr, topic, partition, seed, window, acked);
                    (topic, partition, acks)
                })
            })
            .collect();
        wait_for("a load", || (acked.load(Ordering::Relaxed) >= ACKS_OF_A_ROUND).then_some(()));
        std::thread::sleep(pause);
        broker.kill();
        producers.into_iter().map(|producer| producer.join().unwrap()).collect()
    })
}

#[test]
fn committed_offsets_survive_kills() {
    let (_dir, data) = scratch();
    let mut broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    producer.send(&frame(1, b"", b"x").repeat(100));
    (0..100).for_each(|_| assert!(producer.stored() < 100));
    for round in 1..6u64 {
        for group in ["a", "b", "a_b"] {
            let offset = round * 10 + group.len() as u64;
            support::commit(broker.addr(), group, "t", 0, offset);
        }
        broker.kill();
        broker = Broker::start(&data);
        for group in ["a", "b", "a_b"] {
            let offset = round * 10 + group.len() as u64;
            let frames = drain(broker.addr(), group, "t", 0);
            assert_eq!(frames[0].header.offset, offset, "group {group}, round {round}");
            assert_eq!(frames.len() as u64, 100 - offset);
        }
    }
}

/// The log file with the highest base offset.
fn active_wal(data: &Path) -> PathBuf {
    let partition = data.join("t_0");
    let mut last = listing(&partition).into_iter().map(|name| partition.join(name));
    last.rfind(|path| path.extension().is_some_and(|e| e == "wal")).unwrap()
}

/// Bytes cut from the partition's log and kept beside it, each file once.
fn torn(data: &Path) -> Vec<Vec<u8>> {
    let partition = data.join("t_0");
    let names = listing(&partition).into_iter().filter(|name| name.contains(".torn-"));
    names.map(|name| fs::read(partition.join(name)).unwrap()).collect()
}

/// A data directory that a killed broker left, with `count` records in `t`, and those records.
fn stopped_with_records(data: &Path, count: u64) -> Vec<Frame> {
    let broker = Broker::start(data);
    append_records(&broker, 0..count);
    let frames = drain(broker.addr(), "g", "t", 0);
    broker.kill();
    frames
}

fn append_records(broker: &Broker, numbers: std::ops::Range<u64>) {
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in numbers {
        let key = if i % 3 == 0 { "key" } else { "" };
        let payload = format!("record {i}, which is as long as it is");
        assert_eq!(producer.append(&frame(i, key.as_bytes(), payload.as_bytes())), i);
    }
}

/// The same, of which the last `unflushed` were never flushed.
fn stopped_with_unflushed(data: &Path, count: u64, unflushed: u64) -> Vec<Frame> {
    let broker = Broker::start(data);
    append_records(&broker, 0..count - unflushed);
    assert!(broker.terminate().0.success());
    let broker = Start::on(data).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 3_600_000).run();
    append_records(&broker, count - unflushed..count);
    let frames = drain(broker.addr(), "g", "t", 0);
    broker.kill();
    frames
}

/// Starts a broker on the damaged directory: `kept` is served, `cut` lies beside the log, one line warns, and appends
/// go on behind what was kept, also over another restart.
fn assert_cut_and_going_on(data: &Path, kept: &[Frame], cut: &[u8], what: &str) {
    let broker = Broker::start(data);
    let served = drain(broker.addr(), "g", "t", 0);
    assert!(served == kept, "{what}: {} served, {} kept", served.len(), kept.len());
    let expected: &[&[u8]] = if cut.is_empty() { &[] } else { &[cut] };
    assert_eq!(torn(data), expected, "{what}: bytes kept beside the log");
    let warnings = broker.lines_at("WARN");
    assert_eq!(warnings.len(), expected.len(), "{what}: warnings: {warnings:?}");

    let mut all = kept.to_vec();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..3 {
        let bytes = frame(100 + i, b"", b"after the cut");
        let offset = producer.append(&bytes);
        assert_eq!(offset, all.len() as u64, "{what}");
        all.push(drain(broker.addr(), "g", "t", 0).pop().unwrap());
    }
    broker.kill();
    let broker = Broker::start(data);
    assert!(drain(broker.addr(), "g", "t", 0) == all, "{what}: after another restart");
    assert_eq!(broker.lines_at("WARN").len(), 0, "{what}: the cut is made once");
    assert_eq!(torn(data), expected, "{what}");
}

#[test]
fn garbage_behind_the_log_is_cut_and_kept_beside() {
    let (dir, data) = scratch();
    let frames = stopped_with_records(&data, 20);
    let next = frame(99, b"key", b"the start of a frame");
    let mut huge = frame(1, b"", b"");
    huge[21..25].fill(0xff);
    let cases: [(&str, Vec<u8>); 6] = [
        ("one byte", vec![0x01]),
        ("noise", Random::from(5).bytes(1000)),
        ("zeros", vec![0; 4096]),
        ("half a header", next[..15].to_vec()),
        ("half a frame", next[..40].to_vec()),
        ("a frame that claims 4 GiB", huge),
    ];
    for (index, (what, garbage)) in cases.into_iter().enumerate() {
        let copy = dir.path().join(format!("case-{index}"));
        copy_dir(&data, &copy);
        let wal = active_wal(&copy);
        let mut bytes = fs::read(&wal).unwrap();
        assert_eq!(Frames::new(&bytes).count(), frames.len(), "the log ends with its frames");
        bytes.extend_from_slice(&garbage);
        fs::write(&wal, bytes).unwrap();
        assert_cut_and_going_on(&copy, &frames, &garbage, what);
    }
}

#[test]
fn the_log_cut_at_every_fifth_byte_of_its_last_three_records() {
    let (dir, data) = scratch();
    let frames = stopped_with_unflushed(&data, 12, 3);
    let bytes = fs::read(active_wal(&data)).unwrap();
    let ends: Vec<usize> = frames
        .iter()
        .scan(0, |end, frame| {
            *end += frame.bytes.len();
            Some(*end)
        })
        .collect();
    assert_eq!(ends.last(), Some(&bytes.len()), "the log is its frames and nothing else");
    let first = ends[ends.len() - 4];
    // Every byte position in the long form.
    let step = if std::env::var_os("HERMITMQ_TEST_LONG").is_some() { 1 } else { 5 };
    for cut in (first..bytes.len()).step_by(step) {
        let copy = dir.path().join(format!("cut-{cut}"));
        copy_dir(&data, &copy);
        fs::write(active_wal(&copy), &bytes[..cut]).unwrap();
        // What was flushed stays, whatever happens behind it; that shares its checksum, and so its fate.
        assert_cut_and_going_on(&copy, &frames[..9], &bytes[first..cut], &format!("cut at {cut}"));
        fs::remove_dir_all(&copy).unwrap();
    }
}

type Damage = fn(&Path);

#[test]
fn a_missing_or_damaged_index_is_rebuilt() {
    let (dir, data) = scratch();
    let frames = stopped_with_records(&data, 500);
    let damages: [(&str, Damage); 5] = [
        ("missing", |idx| fs::remove_file(idx).unwrap()),
        ("empty", |idx| fs::write(idx, []).unwrap()),
        ("zeroed", |idx| fs::write(idx, vec![0; 4096]).unwrap()),
        ("noise", |idx| fs::write(idx, Random::from(8).bytes(1000)).unwrap()),
        ("half an entry", |idx| fs::write(idx, [0; 7]).unwrap()),
    ];
    for (what, damage) in damages {
        let copy = dir.path().join(what.replace(' ', "-"));
        copy_dir(&data, &copy);
        damage(&active_wal(&copy).with_extension("idx"));
        let broker = Broker::start(&copy);
        assert!(drain(broker.addr(), "g", "t", 0) == frames, "{what}");
        for offset in [1, 77, 250, 499] {
            support::commit(broker.addr(), "g2", "t", 0, offset);
            let served = drain(broker.addr(), "g2", "t", 0);
            assert!(served == frames[usize::try_from(offset).unwrap()..], "{what}: {offset}");
        }
        let next = RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"more"));
        assert_eq!(next, 500, "{what}");
    }
}
