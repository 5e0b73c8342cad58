//! A data directory that the original wrote, opened in place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use support::{
    Broker, Frame, RawClient, Start, commit, drain, frame, hex, listing, scratch, sha256,
};

/// What a record must be; the columns of `expected.json`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
struct Row(u64, u64, String, u32, usize, String);

impl Row {
    fn of(frame: &Frame) -> Self {
        let Frame { header, .. } = frame;
        let hash = sha256(frame.payload())[..16].to_owned();
        let len = frame.payload().len();
        Self(header.offset, header.timestamp, hex(frame.key()), header.records(), len, hash)
    }

    fn next_offset(&self) -> u64 {
        self.0 + u64::from(self.3)
    }
}

#[derive(serde::Deserialize)]
struct Expected {
    topics: BTreeMap<String, Vec<Row>>,
    groups: BTreeMap<String, BTreeMap<String, u64>>,
}

fn recorded(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1").join(file)
}

fn expected() -> Expected {
    let text = std::fs::read_to_string(recorded("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn unpack(into: &Path) -> PathBuf {
    let file = std::fs::File::open(recorded("data-dir.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(into).unwrap();
    into.join("hermitmq-data")
}

fn partition(name: &str) -> (&str, u32) {
    let (topic, number) = name.split_once('/').unwrap();
    (topic, number.parse().unwrap())
}

fn assert_rows(frames: &[Frame], rows: &[Row], what: &str) {
    for (index, (frame, row)) in frames.iter().zip(rows).enumerate() {
        assert_eq!(&Row::of(frame), row, "{what}, row {index}");
    }
    assert_eq!(frames.len(), rows.len(), "{what}: rows");
}

fn assert_everything_is_served(addr: SocketAddr, expected: &Expected) {
    assert_eq!(expected.topics.len(), 4);
    for (name, rows) in &expected.topics {
        let (topic, number) = partition(name);
        assert_rows(&drain(addr, "nobody-before", topic, number), rows, name);
    }
}

fn assert_groups_resume(addr: SocketAddr, expected: &Expected) {
    assert_eq!(expected.groups.len(), 5);
    for (group, offsets) in &expected.groups {
        for (name, &offset) in offsets {
            let (topic, number) = partition(name);
            // A position inside a batch is served with the whole batch.
            let rows = &expected.topics[name];
            let from = rows.iter().position(|row| row.next_offset() > offset).unwrap();
            let frames = drain(addr, group, topic, number);
            assert_rows(&frames, &rows[from..], &format!("{group} on {name} from {offset}"));
        }
    }
}

#[test]
fn everything_is_served_and_appends_go_on() {
    let (dir, _) = scratch();
    let data = unpack(dir.path());
    let mut expected = expected();
    let start = || Start::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();

    let broker = start();
    assert_everything_is_served(broker.addr(), &expected);
    assert_groups_resume(broker.addr(), &expected);

    for round in 0..3u64 {
        for (name, rows) in &mut expected.topics {
            let (topic, number) = partition(name);
            let mut producer = RawClient::produce(broker.addr(), topic, number);
            for i in 0..5 {
                let payload = format!("added to {name} in round {round}: {i}").into_bytes();
                let timestamp = 1_800_000_000_000_000_000 + round * 10 + i;
                let next = rows.last().unwrap().next_offset();
                assert_eq!(producer.append(&frame(timestamp, b"new", &payload)), next, "{name}");
                let hash = sha256(&payload)[..16].to_owned();
                rows.push(Row(next, timestamp, hex(b"new"), 1, payload.len(), hash));
            }
        }
        assert_everything_is_served(broker.addr(), &expected);
    }
    broker.kill();

    // After a crash and after a clean end it is all still there.
    let broker = start();
    assert_everything_is_served(broker.addr(), &expected);
    assert_groups_resume(broker.addr(), &expected);
    assert!(broker.terminate().0.success());
    let broker = start();
    assert_everything_is_served(broker.addr(), &expected);
    assert_groups_resume(broker.addr(), &expected);
    assert_eq!(listing(dir.path()), ["hermitmq-data"]);
}

#[test]
fn every_offset_inside_every_batch_resumes_at_its_batch() {
    let (dir, _) = scratch();
    let data = unpack(dir.path());
    let rows = expected().topics.remove("batches/0").unwrap();
    let broker = Broker::start(&data);
    // The first, a middle and the last offset of every 23rd batch, and the end of the log.
    for (index, row) in rows.iter().enumerate().step_by(23) {
        for offset in [row.0, row.0 + u64::from(row.3) / 2, row.next_offset() - 1] {
            commit(broker.addr(), "inside", "batches", 0, offset);
            let frames = drain(broker.addr(), "inside", "batches", 0);
            assert_rows(&frames, &rows[index..], &format!("from {offset}"));
        }
    }
    commit(broker.addr(), "inside", "batches", 0, rows.last().unwrap().next_offset());
    assert_eq!(drain(broker.addr(), "inside", "batches", 0), []);
}

#[test]
fn commits_survive_beside_those_of_the_original() {
    let (dir, _) = scratch();
    let data = unpack(dir.path());
    let mut expected = expected();
    let broker = Broker::start(&data);
    commit(broker.addr(), "g0", "events", 0, 900);
    commit(broker.addr(), "fresh", "events", 0, 2000);
    expected.groups.get_mut("g0").unwrap().insert("events/0".to_owned(), 900);
    let served = |broker: &Broker, expected: &Expected| {
        assert_groups_resume(broker.addr(), expected);
        let rows = &expected.topics["events/0"];
        assert_rows(&drain(broker.addr(), "fresh", "events", 0), &rows[2000..], "fresh");
    };
    served(&broker, &expected);
    broker.kill();
    served(&Broker::start(&data), &expected);
}
