//! Compaction in a broker: killed at each call it makes, with a million keys in little memory, and when it fails.
//!
//! `HERMITMQ_TEST_LONG` kills at every call; the short form at the first ones, and then at fewer and fewer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hermitmq::record::wire;
use support::{
    Broker, Frame, INJECT_TOOLS, Random, RawClient, Start, Tracer, assert_verifies, bytes_in_use,
    copy_dir, drain, files_in_use, frame, hermitmq, is_long, listing, privileged, run_to_end,
    scratch_in_memory, wait_for,
};

const TOPIC: &str = "state";

/// A broker that compacts the topic each second if it is to.
fn start(data: &Path, interval_sec: u32) -> Start {
    let config = data.parent().unwrap().join("compaction.toml");
    fs::write(&config, format!("[[topic]]\nname = \"{TOPIC}\"\ncleanup = \"compact\"\n")).unwrap();
    Start::on(data)
        .arg("--config")
        .arg(config)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 10)
        .env("HERMITMQ_COMPACTION__INTERVAL_SEC", interval_sec)
        .env("HERMITMQ_COMPACTION__MIN_DIRTY_PERCENT", 1)
        .env("HERMITMQ_COMPACTION__MB_PER_S", 4095)
}

/// Sends frames ahead of their acks.
fn produce(addr: SocketAddr, frames: impl Iterator<Item = Vec<u8>>) {
    const AHEAD: usize = 2000;
    let mut client = RawClient::produce(addr, TOPIC, 0);
    let (mut run, mut sent) = (Vec::new(), 0);
    let mut frames = frames.peekable();
    while let Some(frame) = frames.next() {
        run.extend(frame);
        sent += 1;
        if sent == AHEAD || frames.peek().is_none() {
            client.send(&run);
            for _ in 0..sent {
                client.stored();
            }
            run.clear();
            sent = 0;
        }
    }
}

fn key(number: u64) -> [u8; 8] {
    wire::u64_bytes(number)
}

/// What is in the topic, by offset.
fn held(broker: &Broker, group: &str) -> BTreeMap<u64, Frame> {
    let frames = drain(broker.addr(), group, TOPIC, 0);
    assert!(frames.is_sorted_by(|a, b| a.header.next_offset() <= b.header.offset), "offsets grow");
    frames.into_iter().map(|frame| (frame.header.offset, frame)).collect()
}

/// The newest offset of each key, and all without one.
fn newest(frames: &BTreeMap<u64, Frame>) -> Vec<u64> {
    let mut newest = HashMap::new();
    let mut kept = Vec::new();
    for (&offset, frame) in frames {
        if frame.key().is_empty() {
            kept.push(offset);
        } else {
            newest.insert(frame.key().to_vec(), offset);
        }
    }
    kept.extend(newest.into_values());
    kept.sort_unstable();
    kept
}

fn ends_in(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Bytes of the partition's logs.
fn log_bytes(dir: &Path) -> u64 {
    bytes_in_use(dir, |name| ends_in(name, "wal"))
}

/// Passes that the broker tells of so far: frames removed in each.
fn passes(broker: &Broker) -> Vec<u64> {
    let lines = broker.log().into_iter().filter(|line| line.get("message") == "compacted");
    lines.map(|line| line.get("frames_removed").parse().unwrap()).collect()
}

/// System calls that change what is on the disk.
const CALLS: [&str; 6] = ["/^rename", "/^unlink", "fsync", "fdatasync", "pwrite64", "fallocate"];

#[test]
fn killed_at_each_call_of_compaction() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (scratch, prepared) = scratch_in_memory();
    let mut random = Random::seeded();
    // Some of it is compacted already, into segments that become one with others.
    let mut frames = (0..1400u64).map(|n| {
        let number = if n % 9 == 0 { n } else { random.below(20) };
        let key = if n % 50 == 0 { Vec::new() } else { key(number).to_vec() };
        frame(n, &key, &random.bytes(4000))
    });
    let broker = start(&prepared, 1).run();
    produce(broker.addr(), frames.by_ref().take(700));
    wait_for("compaction", || passes(&broker).first().copied());
    assert!(broker.terminate().0.success());
    let broker = start(&prepared, 0).run();
    produce(broker.addr(), frames);
    let before = held(&broker, "before");
    let kept = newest(&before);
    assert!(broker.terminate().0.success());

    for call in CALLS {
        let mut killed = 0;
        let step = |n: &u64| Some(if is_long() || *n < 4 { n + 1 } else { n * 2 });
        for count in std::iter::successors(Some(1), step) {
            let what = format!("{call}:signal=KILL:when={count}");
            let data = scratch.path().join("data-killed");
            copy_dir(&prepared, &data);
            let mut broker = start(&data, 1).run();
            let tracer = Tracer::attach(broker.pid(), &what);
            wait_for("compaction, or its end", || {
                (!broker.is_running() || !passes(&broker).is_empty()).then_some(())
            });
            let ended = broker.is_running();
            if ended {
                broker.signal(rustix::process::Signal::KILL);
            }
            assert_eq!(broker.wait().0.signal(), Some(9), "{what}");
            drop(tracer);
            // Before a start has put it right, too.
            assert_verifies(&data, &what);
            let broker = start(&data, 0).run_after_kill();
            let after = held(&broker, "after");
            assert!(
                after.iter().all(|(offset, frame)| before.get(offset) == Some(frame)),
                "{what}"
            );
            let missing: Vec<_> = kept.iter().filter(|kept| !after.contains_key(kept)).collect();
            assert!(missing.is_empty(), "{what}: {missing:?}");
            drop(broker);
            let left = listing(&data.join(format!("{TOPIC}_0")));
            let temporary = |name: &&String| ends_in(name, "tmp") || ends_in(name, "swap");
            assert_eq!(left.iter().find(temporary), None, "{what}");
            assert_verifies(&data, &what);
            // The next one does the rest.
            let broker = start(&data, 1).run_after_kill();
            let dir = data.join(format!("{TOPIC}_0"));
            wait_for("compaction", || (log_bytes(&dir) < 2 << 20).then_some(()));
            drop(broker);
            fs::remove_dir_all(&data).unwrap();
            if ended {
                break;
            }
            killed += 1;
        }
        println!("{call}: killed {killed} times");
        assert!(killed > 0, "{call}: is never called");
    }
}

/// A line of `/proc/PID/status`, in KiB.
fn memory_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[test]
fn a_million_keys_in_the_memory_that_is_configured() {
    const KEYS: u64 = 1_000_000;
    /// Room for about half of them.
    const MEMORY_MB: u64 = 12;
    /// For the windows that are read and written, and for the index and the checksums, which are mapped.
    const BESIDE_KIB: u64 = 8 * 1024;

    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, 0).run();
    for round in 0..2 {
        produce(broker.addr(), (0..KEYS).map(|n| frame(round, &key(n), b"")));
    }
    let end = 2 * KEYS;
    assert!(broker.terminate().0.success());
    let dir = data.join(format!("{TOPIC}_0"));
    let before = log_bytes(&dir);
    let broker = start(&data, 1).env("HERMITMQ_COMPACTION__MEMORY_MB", MEMORY_MB).run();
    let pid = broker.pid();
    let rss = memory_kib(pid, "VmRSS:");
    // All but what is in the segment that is appended to.
    let frame_len = frame(0, &key(0), b"").len() as u64;
    let active = (1 << 20) / frame_len + 1;
    let began = Instant::now();
    while passes(&broker).iter().sum::<u64>() < KEYS - active {
        assert!(began.elapsed() < Duration::from_mins(10), "{:?}", passes(&broker));
        std::thread::sleep(Duration::from_millis(50));
    }
    let peak = memory_kib(pid, "VmHWM:");
    println!(
        "{KEYS} keys, compaction.memory_mb = {MEMORY_MB}: {rss} KiB before, {peak} KiB at most; passes {:?}; log {before} \
         bytes before, {} after",
        passes(&broker),
        log_bytes(&dir)
    );
    assert!(peak - rss <= MEMORY_MB * 1024 + BESIDE_KIB, "{rss} KiB grew to {peak} KiB");
    assert!(passes(&broker).len() > 1, "there was no room for all keys at once");
    let after = held(&broker, "after");
    assert!(after.len() as u64 <= KEYS + active);
    assert!(after.range(KEYS..).map(|(&offset, _)| offset).eq(KEYS..end), "the newest of each");
}

#[test]
fn what_fails_is_said_and_tried_again() {
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, 0).run();
    produce(broker.addr(), (0..600).map(|n| frame(n, &key(n % 3), &[7; 4000])));
    assert!(broker.terminate().0.success());
    let dir = data.join(format!("{TOPIC}_0"));
    let broker = start(&data, 1).run();
    // Where the new log would be written.
    let in_the_way = dir.join("00000000000000000000.wal.tmp");
    fs::create_dir(&in_the_way).unwrap();
    wait_for("the failure", || {
        broker
            .lines_at("ERROR")
            .into_iter()
            .find(|l| l.get("message").contains("compaction failed"))
    });
    wait_for("the problem", || {
        let named = |text: String| text.contains("compaction fails") && text.contains(TOPIC);
        broker.lines_at("WARN").into_iter().find(|line| named(line.get("message")))
    });
    assert_eq!(passes(&broker).len(), 0);
    fs::remove_dir(&in_the_way).unwrap();
    wait_for("the next attempt", || passes(&broker).first().copied());
    assert_eq!(held(&broker, "after").len(), 3 + newest_in_active(&dir));
    drop(broker);
    assert_verifies(&data, "afterwards");
}

/// Frames in the last segment but one of each key.
fn newest_in_active(dir: &Path) -> usize {
    let logs = files_in_use(dir, |name| ends_in(name, "wal"));
    support::frames_of(&logs.last().unwrap().1).len()
}

#[test]
fn committed_offsets_are_compacted_and_kept() {
    const COMMITS: u64 = 60_000;
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, 1).run();
    produce(broker.addr(), (0..COMMITS).map(|n| frame(n, b"", b"")));
    let groups = ["billing", "shipping"];
    for group in groups {
        commit_each(broker.addr(), group, COMMITS);
    }
    let dir = data.join("__consumer_offsets_0");
    assert!(log_bytes(&dir) > 0);
    wait_for("compaction", || (log_bytes(&dir) < 2 << 20).then_some(()));
    broker.kill();
    let broker = start(&data, 0).run_after_kill();
    for group in groups {
        let got = drain(broker.addr(), group, TOPIC, 0);
        assert_eq!(got.first().map(|frame| frame.header.offset), Some(COMMITS - 1), "{group}");
    }
    drop(broker);
    let dump = hermitmq(&["log", "dump", dir.to_str().unwrap()]);
    let dumped = run_to_end(dump, Vec::new());
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let lines = dumped.stdout.split(|&byte| byte == b'\n').count();
    assert!(lines > 2 && lines < 40_000, "{lines}");
    assert_verifies(&data, "after compaction");
}

/// Commits every offset up to `end`, on one connection of protocol 1.1.
fn commit_each(addr: SocketAddr, group: &str, end: u64) {
    let field =
        |tag: u8, value: &[u8]| [&[tag, 0, u8::try_from(value.len()).unwrap()][..], value].concat();
    let fields = [field(1, TOPIC.as_bytes()), field(3, group.as_bytes())].concat();
    let mut client = RawClient::connect(addr);
    client.send(&[&[0x13, 0, u8::try_from(fields.len()).unwrap()][..], &fields].concat());
    assert_eq!(client.read(9)[0], 0);
    for from in (0..end).step_by(1000) {
        let offsets: Vec<u8> = (from..from + 1000).flat_map(wire::u64_bytes).collect();
        client.send(&offsets);
        for answer in client.read(9000).chunks(9) {
            assert_eq!(answer[0], 0);
        }
    }
}
