//! `__consumer_offsets` with entries that say nothing, entries that say too much, and damage.
//!
//! Such entries are skipped and counted, the broker starts, and every group gets what it has not committed. The short
//! form damages the topic at bytes that a seed chooses (`HERMITMQ_TEST_SEED`), the long one (`HERMITMQ_TEST_LONG`) at
//! every one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use hermitmq::record::{FrameBuilder, wire};
use support::{
    Broker, Random, RawClient, commit, copy_dir, drain, frame, is_long, listing, scratch_in_memory,
};

const RECORDS: u64 = 10;

/// A broker's data directory with a topic `t` of ten records, and what the test puts into its offsets topic.
fn with_entries(data: &Path, entries: &[u8]) {
    let broker = Broker::start(data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    (0..RECORDS).for_each(|n| assert_eq!(producer.append(&frame(n, b"", b"record")), n));
    assert!(broker.terminate().0.success());
    let dir = data.join("__consumer_offsets_0");
    for name in listing(&dir) {
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::write(dir.join("00000000000000000000.wal"), entries).unwrap();
}

/// Frames back to back, numbered from 0.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    next: u64,
    malformed: u64,
}

impl Entries {
    fn entry(&mut self, key: &[u8], payload: &[u8], count: u32) {
        let builder = FrameBuilder::new(1).key(key).offset(self.next).record_count(count);
        builder.write(payload, &mut self.bytes).unwrap();
        self.next += u64::from(count.max(1));
    }

    fn commit(&mut self, key: &str, offset: u64) {
        self.entry(key.as_bytes(), &wire::u64_bytes(offset), 1);
    }

    fn malformed(&mut self, key: &[u8], payload: &[u8]) {
        self.entry(key, payload, 1);
        self.malformed += 1;
    }
}

/// Offsets that a group is sent, once one more record is there.
fn resumed_at(broker: &Broker, group: &str) -> u64 {
    let next = RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"one more"));
    let got = drain(broker.addr(), group, "t", 0);
    assert_eq!(got.last().map(|frame| frame.header.offset), Some(next), "{group} stalls");
    assert!(got.is_sorted_by(|a, b| a.header.next_offset() == b.header.offset), "{group}");
    got[0].header.offset
}

#[test]
fn malformed_entries_are_skipped_and_counted() {
    let (_dir, data) = scratch_in_memory();
    let mut entries = Entries::default();
    let eight = wire::u64_bytes(9);
    entries.commit("before:t:0", 3);
    let long_name = [&[b'g'; 250][..], b":t:0"].concat();
    let keys: [&[u8]; 16] = [
        b"",
        b"x",
        b":",
        b"::",
        b"a:t",
        b"a:t:",
        b"a:t:x",
        b"a:t:-1",
        b"a:t:0:0",
        b"a::0",
        b":t:0",
        b"../../evil:t:0",
        b"a:../../evil:0",
        b"\xff\xfe:t:0",
        b"a:t:99999999999999999999",
        &long_name,
    ];
    for key in keys {
        entries.malformed(key, &eight);
        entries.malformed(key, b"");
    }
    for payload in [&b"1"[..], &[0; 7], &[0; 9], &[0xff; 100]] {
        entries.malformed(b"between:t:0", payload);
    }
    // What says that there is none is an entry.
    entries.entry(b"between:t:0", b"", 1);
    entries.commit("between:t:0", 4);
    // Larger than anything that could be an entry.
    entries.malformed(b"between:t:0", &vec![7; 3 << 20]);
    entries.malformed(&vec![b'k'; 2 << 20], &eight);
    entries.entry(b"batch:t:0", &eight, 5);
    entries.entry(b"zero:t:0", &wire::u64_bytes(6), 0);
    // Of topics and partitions that are not there.
    entries.commit("stray:nowhere:0", 5);
    entries.commit("stray:t:7", 5);
    entries.commit("stray:t:4294967295", 5);
    entries.commit("after:t:0", 5);
    with_entries(&data, &entries.bytes);

    for start in 0..2 {
        let broker = Broker::start(&data);
        let warnings = broker.lines_at("WARN");
        let counted =
            |line: &support::LogLine| line.get("malformed") == entries.malformed.to_string();
        assert!(warnings.iter().any(counted), "start {start}: {}: {warnings:?}", entries.malformed);
        for (group, offset) in
            [("before", 3), ("between", 4), ("batch", 9), ("zero", 6), ("after", 5)]
        {
            assert_eq!(resumed_at(&broker, group), offset, "{group}, start {start}");
        }
        assert_eq!(resumed_at(&broker, "a"), 0, "start {start}");
        // The topic takes further commits.
        commit(broker.addr(), "new", "t", 0, 7);
        assert_eq!(resumed_at(&broker, "new"), 7);
        broker.kill();
    }
    assert!(!data.parent().unwrap().join("evil_0").exists());
}

#[test]
fn a_commit_beyond_the_end_never_stalls_a_group() {
    let (_dir, data) = scratch_in_memory();
    let mut entries = Entries::default();
    let far = [RECORDS + 1, 1 << 40, u64::MAX - 1, u64::MAX];
    for (n, offset) in far.into_iter().enumerate() {
        entries.commit(&format!("far-{n}:t:0"), offset);
    }
    with_entries(&data, &entries.bytes);
    let broker = Broker::start(&data);
    assert_eq!(broker.lines_at("WARN").len(), far.len(), "each is named");
    // The end, when the broker started: nothing behind it is skipped, now and after further starts.
    assert_eq!(resumed_at(&broker, "far-0"), RECORDS);
    broker.kill();
    let broker = Broker::start(&data);
    for n in 0..far.len() {
        assert_eq!(resumed_at(&broker, &format!("far-{n}")), RECORDS, "{n}");
    }
    // And by a client.
    let end = drain(broker.addr(), "all", "t", 0).len() as u64;
    for offset in [end + 1, 1 << 40, u64::MAX] {
        commit(broker.addr(), "client", "t", 0, offset);
        let end = drain(broker.addr(), "all", "t", 0).len() as u64;
        assert_eq!(resumed_at(&broker, "client"), end, "commit of {offset}");
    }
}

/// The last `.wal` of the offsets topic.
fn log_of(data: &Path) -> PathBuf {
    let dir = data.join("__consumer_offsets_0");
    let name = listing(&dir).into_iter().rfind(|name| name.contains(".wal")).unwrap();
    dir.join(name)
}

#[test]
fn damage_to_the_offsets_topic_repeats_records_at_most() {
    let (dir, data) = scratch_in_memory();
    let broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    (0..RECORDS).for_each(|n| assert_eq!(producer.append(&frame(n, b"", b"record")), n));
    // The last commit of each group says most.
    for round in 1..=6 {
        for group in ["one", "two", "three"] {
            commit(broker.addr(), group, "t", 0, round);
        }
    }
    assert!(broker.terminate().0.success());
    let len = usize::try_from(fs::metadata(log_of(&data)).unwrap().len()).unwrap();
    let mut random = Random::seeded();
    let any = |random: &mut Random| usize::try_from(random.below(len as u64)).unwrap();
    let some: Vec<usize> = (0..16).map(|_| any(&mut random)).collect();
    for at in if is_long() { (0..len).collect() } else { some } {
        for cut in [false, true] {
            let what = format!("byte {at}, cut: {cut}");
            let copy = dir.path().join("damaged");
            let _ = fs::remove_dir_all(&copy);
            copy_dir(&data, &copy);
            let mut bytes = fs::read(log_of(&copy)).unwrap();
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << random.below(8);
            }
            fs::write(log_of(&copy), bytes).unwrap();
            let broker = Broker::start(&copy);
            for group in ["one", "two", "three"] {
                let at = resumed_at(&broker, group);
                assert!(at <= 6, "{what}: {group} resumes at {at}");
                commit(broker.addr(), group, "t", 0, 8);
            }
            broker.kill();
            let broker = Broker::start(&copy);
            for group in ["one", "two", "three"] {
                assert_eq!(resumed_at(&broker, group), 8, "{what}: {group} after a restart");
            }
        }
    }
}
