//! Consumers that catch up: beside producers, or where the page cache lacks what they read, other threads read and send
//! it, not the reactor. However a slice comes to them, what they get is the log, byte for byte.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hermitmq::broker::TopicOptions;
use hermitmq::config::Config;
use hermitmq::metrics::CloseReason;
use hermitmq::model::TopicName;
use hermitmq::net::{QuotaOptions, SecurityOptions};
use hermitmq::protocol::v1_1::{Handshake, Incoming, Role, Start as From};
use hermitmq::protocol::{ACK_LEN, Status};
use hermitmq::record::{FrameBuilder, FrameLimits};
use hermitmq::server::Server;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::process::Signal;
use serde_json::json;
use support::v1_1::{Got, follower, next, open, reader};
use support::{
    Broker, Frame, INJECT_TOOLS, Random, RawClient, Start, Tracer, drain, frame, frames_of, http,
    privileged, wait_for,
};

const TOPIC: &str = "log";
const BESIDE: &str = "beside";

/// Bytes of a segment of [`TOPIC`].
const SEGMENT_MB: usize = 4;

/// Bytes of the whole of it: many times what a socket holds.
const LOG: usize = 24 << 20;

/// A directory on the disk of the target directory: the temporary directory may be memory.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Whether a page of a file in `dir` can be dropped, and be seen to be gone.
fn can_be_cold(dir: &Path) -> bool {
    let path = dir.join("probe");
    std::fs::write(&path, [1; 4096]).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut byte = [0];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        if preadv2(&file, &mut parts, 0, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN) {
            return true;
        }
    }
    false
}

/// Drops what there is of the partition's segments from memory. They may be deleted meanwhile.
fn make_cold(data: &Path) {
    let Ok(entries) = data.join(format!("{TOPIC}_0")).read_dir() else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "wal");
        if let (true, Ok(file)) = (is_log, File::open(path)) {
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }
}

/// Frames of all sizes, as they stand in the log.
fn log_of(len: usize) -> Vec<u8> {
    let mut random = Random::from(7);
    let mut frames = Vec::with_capacity(len);
    for offset in 0.. {
        if frames.len() >= len {
            break;
        }
        let most = if offset % 64 == 0 { 600_000 } else { 3000 };
        let size = random.below(most);
        let payload = random.bytes(usize::try_from(size).unwrap());
        FrameBuilder::new(1).offset(offset).write(&payload, &mut frames).unwrap();
    }
    frames
}

/// Sends frames and takes their acks.
fn store(addr: SocketAddr, frames: &[u8]) {
    let mut client = RawClient::produce(addr, TOPIC, 0);
    let mut sending = client.split();
    std::thread::scope(|scope| {
        scope.spawn(move || sending.send(frames));
        client.read(frames_of(frames).len() * ACK_LEN);
    });
}

/// A broker with one reactor, on which all meet, with the log in its topic.
fn start(data: &Path, options: serde_json::Value, log: &[u8]) -> Server {
    start_with(SecurityOptions::default(), data, options, log)
}

fn start_with(
    security: SecurityOptions,
    data: &Path,
    options: serde_json::Value,
    log: &[u8],
) -> Server {
    let mut config = Config { security, ..Config::default() };
    config.admin.listen.clear();
    config.server.port = 0;
    config.server.reactors = 1;
    config.storage.cleanup_interval_min = 1_000_000;
    config.storage.flush_interval_ms = 20;
    data.clone_into(&mut config.storage.data_dir);
    let server = Server::start(&config).unwrap();
    let options: TopicOptions = serde_json::from_value(options).unwrap();
    server.broker().create_topic(options).unwrap();
    store(server.addr(), log);
    server
}

/// Producers that wait for each ack until they are told to stop, or the broker is gone.
struct Producers<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    acked: &'scope AtomicU64,
    stop: &'scope AtomicBool,
}

impl<'scope> Producers<'scope> {
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        addr: SocketAddr,
        acked: &'scope AtomicU64,
        stop: &'scope AtomicBool,
    ) -> Self {
        let produce = move || {
            let mut client = RawClient::produce(addr, BESIDE, 0);
            let mut last = None;
            while !stop.load(Ordering::Relaxed) && client.try_send(&frame(1, b"", b"beside")) {
                let Some(ack) = client.try_read_ack() else { break };
                assert_eq!(ack.code, 0);
                assert!(last.is_none_or(|last| last < ack.offset));
                last = Some(ack.offset);
                acked.fetch_add(1, Ordering::Relaxed);
            }
        };
        let producers =
            Self { threads: (0..2).map(|_| scope.spawn(produce)).collect(), acked, stop };
        producers.go_on();
        producers
    }

    /// Waits until more has been produced.
    fn go_on(&self) {
        let before = self.acked.load(Ordering::Relaxed);
        wait_for("acks", || (self.acked.load(Ordering::Relaxed) > before).then_some(()));
    }

    /// How many acks there were, once the broker is gone.
    fn all_acked(&self) -> u64 {
        let over = || self.threads.iter().all(ScopedJoinHandle::is_finished).then_some(());
        wait_for("producers to notice", over);
        self.acked.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Runs `work` beside producers.
fn beside_producers<T>(addr: SocketAddr, work: impl FnOnce(&Producers<'_>) -> T) -> T {
    let (acked, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let producers = Producers::start(scope, addr, &acked, &stop);
        // Whatever fails, they come to an end.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&producers)));
        producers.end();
        done.unwrap_or_else(|failure| std::panic::resume_unwind(failure))
    })
}

/// Reads `log` and nothing else, in bits and with pauses.
fn expect_slowly(client: &RawClient, log: &[u8], mut random: Random) {
    let mut buf = vec![0; 200_000];
    let mut at = 0;
    while at < log.len() {
        let want = 1 + usize::try_from(random.below(buf.len() as u64)).unwrap();
        let want = want.min(log.len() - at);
        let read = client.stream().read(&mut buf[..want]).unwrap();
        assert!(read > 0, "the end after {at} bytes");
        assert!(buf[..read] == log[at..at + read], "other bytes at {at}");
        at += read;
        if random.below(20) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One of many who read the whole log, each in its own way.
fn read_whole(addr: SocketAddr, number: u64, log: &[u8]) {
    let group = format!("g{number}");
    match number % 4 {
        // It stays, and gets no byte more.
        0 => {
            let mut client = RawClient::consume(addr, &group, TOPIC, 0);
            assert!(client.read(log.len()) == log, "reader {number}");
            client.finish_sending();
            assert_eq!(client.read_to_end(), b"", "reader {number}");
        }
        1 => {
            let (mut client, _) = open(addr, &reader(TOPIC, None, From::Earliest));
            assert!(client.read_to_end() == log, "reader {number}");
        }
        2 => {
            let client = RawClient::consume(addr, &group, TOPIC, 0);
            client.narrow();
            expect_slowly(&client, log, Random::from(number));
        }
        // Heartbeats are due all the time, and come between no two bytes of a frame.
        _ => {
            let mut bytes = Vec::new();
            let heartbeat_ms = NonZeroU32::new(hermitmq::model::limits::HEARTBEAT_MS_MIN);
            let role = Role::Consume {
                group: None,
                start: From::Earliest,
                heartbeat_ms,
                until_end: false,
            };
            let topic = TopicName::parse(TOPIC).unwrap();
            Handshake::new(topic, 0, role).write(&mut bytes).unwrap();
            let (mut client, _) = open(addr, &bytes);
            client.narrow();
            let mut at = 0;
            while at < log.len() {
                match next(&mut client) {
                    Got::Frame(frame) => {
                        let end = at + frame.bytes.len();
                        assert!(frame.bytes == log[at..end], "reader {number}, at {at}");
                        at = end;
                    }
                    Got::Control(control) => panic!("a heartbeat is not due: {control:?}"),
                }
            }
        }
    }
}

#[test]
fn many_readers_beside_producers_get_every_byte() {
    let dir = disk();
    let log = log_of(LOG);
    let options = json!({"name": TOPIC, "max_segment_mb": SEGMENT_MB});
    let server = start(dir.path(), options, &log);
    let addr = server.addr();
    let metrics = server.metrics();
    let sent = metrics.bytes_out.get();
    beside_producers(addr, |producers| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    make_cold(dir.path());
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let log = &log;
            let readers: Vec<_> =
                (0..8).map(|number| scope.spawn(move || read_whole(addr, number, log))).collect();
            let failed = readers.into_iter().filter_map(|reader| reader.join().err()).count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
        producers.go_on();
    });
    assert!(metrics.delegated_sends.get() > 0);
    assert_eq!(metrics.bytes_out.get() - sent, 8 * log.len() as u64, "each byte counts once");
    server.stop().unwrap();
}

/// Nobody produces: what is cached is sent by the reactor, what is not by others.
#[test]
fn cold_data_is_sent_off_the_reactor_and_arrives_whole() {
    let dir = disk();
    if !can_be_cold(dir.path()) {
        eprintln!(
            "SKIPPED: the file system of the target directory is in memory, or cannot tell what is"
        );
        return;
    }
    let log = log_of(LOG / 4);
    let server = start(dir.path(), json!({"name": TOPIC}), &log);
    let metrics = server.metrics();
    wait_for("pages that stay dropped", || {
        // Only flushed pages can be dropped, and another reader of the file (a backup) may warm it again.
        make_cold(dir.path());
        read_whole(server.addr(), 1, &log);
        (metrics.cold_reads.get() > 0).then_some(())
    });
    assert!(metrics.delegated_sends.get() > 0);
    server.stop().unwrap();
}

/// Whoever has a quota, or TLS, is sent to by the reactor itself: others read for it what is cold, as far as it sends next.
#[test]
fn cold_data_arrives_beside_producers_though_the_reactor_sends_it() {
    let dir = disk();
    if !can_be_cold(dir.path()) {
        eprintln!("SKIPPED: nothing is seen to be cold here");
        return;
    }
    // More than is looked at at once.
    let log = log_of(LOG);
    let quota = QuotaOptions {
        principal: "127.0.0.1".to_owned(),
        produce_kb_per_s: None,
        consume_kb_per_s: None,
    };
    let security = SecurityOptions { quota: vec![quota], ..SecurityOptions::default() };
    let server = start_with(security, dir.path(), json!({"name": TOPIC}), &log);
    let metrics = server.metrics();
    let mut times = 0;
    beside_producers(server.addr(), |_| {
        wait_for("pages that stay dropped", || {
            make_cold(dir.path());
            read_whole(server.addr(), 0, &log);
            times += 1;
            (metrics.cold_reads.get() > 0).then_some(())
        });
    });
    assert_eq!(metrics.delegated_sends.get(), 0);
    // A MiB at a time, and none of them again and again.
    let (reads, whole) = (metrics.cold_reads.get(), log.len() as u64 >> 20);
    assert!(reads <= 2 * times * whole, "{reads} reads of {whole} MiB, {times} times");
    server.stop().unwrap();
}

/// What other threads send for the reactor counts, and what they cannot.
#[test]
fn who_takes_nothing_beside_producers_is_closed_and_who_is_slow_is_not() {
    let dir = disk();
    let log = log_of(LOG / 2);
    let security = SecurityOptions {
        write_timeout_sec: 2,
        // Found by the broker itself, not by the system.
        user_timeout_sec: 0,
        ..SecurityOptions::default()
    };
    let server = start_with(security, dir.path(), json!({"name": TOPIC}), &log);
    let (addr, metrics) = (server.addr(), server.metrics());
    beside_producers(addr, |_| {
        let clients = stalled(addr, &log);
        std::thread::scope(|scope| {
            scope.spawn(|| read_whole(addr, 2, &log));
            let closed = || metrics.closed.get(CloseReason::WriteTimeout);
            wait_for("them to be closed", || (closed() == clients.len() as u64).then_some(()));
        });
        assert!(metrics.delegated_sends.get() > 0);
    });
    server.stop().unwrap();
}

/// Readers that took a little, and now take nothing.
fn stalled(addr: SocketAddr, log: &[u8]) -> Vec<(RawClient, bool, usize)> {
    let begin = |number: usize| {
        let new = number.is_multiple_of(2);
        let mut client = if new {
            open(addr, &follower(TOPIC, None, From::Earliest)).0
        } else {
            RawClient::consume(addr, &format!("g{number}"), TOPIC, 0)
        };
        client.narrow();
        let at = 100_000 * number;
        assert!(client.read(at) == log[..at]);
        (client, new, at)
    };
    (1..7).map(begin).collect()
}

#[test]
fn a_topic_deleted_while_it_is_sent_ends_behind_a_whole_frame() {
    let dir = disk();
    let log = log_of(LOG);
    let options = json!({"name": TOPIC, "max_segment_mb": SEGMENT_MB});
    let server = start(dir.path(), options, &log);
    let addr = server.addr();
    beside_producers(addr, |producers| {
        let clients = stalled(addr, &log);
        wait_for("what is sent for the reactor", || {
            (server.metrics().delegated_sends.get() > 0).then_some(())
        });
        server.broker().delete_topic(&TopicName::parse(TOPIC).unwrap()).unwrap();
        for (mut client, new, at) in clients {
            let mut got = log[..at].to_vec();
            got.extend(client.read_to_end());
            let same = got.iter().zip(&log).take_while(|(a, b)| a == b).count();
            let (frames, told) = got.split_at(same);
            let count = frames_of(frames).len() as u64;
            if new {
                let parsed = Incoming::parse(told, &FrameLimits::STORED);
                let Ok(Incoming::Control(control, _)) = parsed else {
                    panic!("after {count} frames: {parsed:?}")
                };
                assert_eq!((control.status(), control.offset), (Some(Status::TopicDeleted), count));
            } else {
                assert_eq!(told, b"");
            }
        }
        producers.go_on();
    });
    assert!(server.metrics().closed.get(CloseReason::TopicDeleted) >= 6);
    server.stop().unwrap();
}

#[test]
fn what_retention_takes_while_it_is_sent_is_a_gap_between_two_frames() {
    let dir = disk();
    let log = log_of(LOG);
    let frames = frames_of(&log);
    let options = json!({"name": TOPIC, "max_segment_mb": SEGMENT_MB, "retention_mb": 1});
    let server = start(dir.path(), options, &log);
    let addr = server.addr();
    let partition = server.broker().partition(&TopicName::parse(TOPIC).unwrap(), 0).unwrap();
    beside_producers(addr, |_| {
        let clients = stalled(addr, &log);
        wait_for("the flush", || (partition.flushed().until == frames.len() as u64).then_some(()));
        server.broker().retain(&|| false);
        let oldest = partition.start_offset();
        assert!(oldest > 0);
        // What is appended behind it ends the log for those who read on.
        store(addr, &frame(1, b"", b"last"));
        for (client, new, at) in clients {
            let mut bytes = log[..at].to_vec();
            let end = frames.len() as u64;
            let moved = read_to_offset(client, &mut bytes, end, &frames, new);
            assert_eq!(moved, new.then_some(oldest), "told once, where it can be told");
        }
    });
    server.stop().unwrap();
}

/// Takes frames up to one, behind bytes that were read already. Each is that of its offset. Returns where a control frame said
/// that it goes on.
fn read_to_offset(
    mut client: RawClient,
    bytes: &mut Vec<u8>,
    end: u64,
    frames: &[Frame],
    new: bool,
) -> Option<u64> {
    let mut moved = None;
    let mut expected = 0;
    loop {
        match Incoming::parse(bytes, &FrameLimits::STORED).unwrap() {
            Incoming::Frame(header) => {
                let rest = bytes.split_off(usize::try_from(header.frame_len()).unwrap());
                let frame = std::mem::replace(bytes, rest);
                assert!(header.offset >= expected);
                let gap = header.offset > expected;
                assert!(!gap || !new || moved == Some(header.offset), "not where it was told");
                expected = header.offset + 1;
                if header.offset == end {
                    return moved;
                }
                let number = usize::try_from(header.offset).unwrap();
                assert!(frame == frames[number].bytes, "other bytes at offset {number}");
            }
            Incoming::Control(control, len) => {
                bytes.drain(..len);
                assert_eq!(control.status(), Some(Status::OffsetOutOfRange));
                assert_eq!(moved.replace(control.offset), None, "once");
            }
            Incoming::Incomplete { needed } => {
                let more = usize::try_from(needed).unwrap() - bytes.len();
                bytes.extend(client.read(more));
            }
        }
    }
}

/// A value of `/metrics`.
fn metric(broker: &Broker, name: &str) -> f64 {
    http::metric_of(&http::get(broker.admin(), "/metrics").body, name)
}

/// Descriptors of the broker, and its threads but for those of the control plane, which come and go.
fn belongings(broker: &Broker) -> (usize, usize) {
    let list =
        |what| std::fs::read_dir(format!("/proc/{}/{what}", broker.pid())).unwrap().flatten();
    let names = list("task").filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
    (list("fd").count(), names.filter(|name| !name.starts_with("admin")).count())
}

fn process(dir: &Path) -> Broker {
    Start::on(&dir.join("data"))
        .with_admin()
        .env("HERMITMQ_SERVER__REACTORS", 1)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", SEGMENT_MB)
        .run()
}

#[test]
fn readers_that_leave_in_the_middle_leave_nothing_behind() {
    let dir = disk();
    let log = log_of(LOG);
    let broker = process(dir.path());
    let addr = broker.addr();
    store(addr, &log);
    drain(addr, "g", TOPIC, 0);
    // The connections of the control plane come and go.
    let connected = || metric(&broker, "hermitmq_connections");
    beside_producers(addr, |producers| {
        wait_for("the others to be gone", || (connected() <= 2.0).then_some(()));
        let (files, threads) = belongings(&broker);
        let mut random = Random::seeded();
        for round in 0..20 {
            make_cold(&dir.path().join("data"));
            let mut clients: Vec<_> = (0..6)
                .map(|number| RawClient::consume(addr, &format!("{round}-{number}"), TOPIC, 0))
                .collect();
            for client in &mut clients {
                let len = usize::try_from(random.below(2 << 20)).unwrap();
                assert!(client.read(len) == log[..len]);
            }
        }
        assert!(metric(&broker, "hermitmq_delegated_sends_total") > 0.0);
        wait_for("all to be gone", || (connected() <= 2.0).then_some(()));
        wait_for("their descriptors to be closed", || {
            (belongings(&broker).0 <= files).then_some(())
        });
        assert_eq!(belongings(&broker).1, threads);
        // Those who stay and take nothing have one descriptor each, as everyone else.
        let delegated = || metric(&broker, "hermitmq_delegated_sends_total");
        let before = delegated();
        let begin = |number| RawClient::consume(addr, &format!("stalled-{number}"), TOPIC, 0);
        let mut clients = Vec::new();
        wait_for("six to be sent to", || {
            // Where producers were held up for a moment, it is by the reactor.
            let mut client = begin(clients.len());
            assert!(client.read(1000) == log[..1000]);
            clients.push(client);
            (delegated() >= before + 6.0).then_some(())
        });
        wait_for("second descriptors to be closed", || {
            (belongings(&broker).0 <= files + clients.len()).then_some(())
        });
        producers.go_on();
    });
    assert!(broker.terminate().0.success());
}

/// Reads until the end: at most what there is, and no other bytes.
fn read_to_the_end(client: &RawClient, mut log: &[u8]) -> std::io::Result<()> {
    let mut got = vec![0; 1 << 16];
    loop {
        let read = client.stream().read(&mut got)?;
        if read == 0 {
            return Ok(());
        }
        let (expected, behind) = log.split_at(read);
        assert!(got[..read] == *expected);
        log = behind;
    }
}

#[test]
fn a_broker_that_is_told_to_end_does_not_send_on() {
    let dir = disk();
    let log = log_of(LOG);
    let broker = process(dir.path());
    let addr = broker.addr();
    store(addr, &log);
    make_cold(&dir.path().join("data"));
    let (status, acked) = beside_producers(addr, |producers| {
        let begin = |number: usize| {
            let mut client = RawClient::consume(addr, &format!("g{number}"), TOPIC, 0);
            let at = client.read(1000).len();
            (client, at)
        };
        let clients: Vec<_> = (0..12).map(begin).collect();
        wait_for("what is sent for the reactor", || {
            (metric(&broker, "hermitmq_delegated_sends_total") > 0.0).then_some(())
        });
        // Half of them read, half of them take nothing any more.
        let status = std::thread::scope(|scope| {
            let read_on = |(number, (client, at)): (usize, (RawClient, usize))| {
                let log = &log;
                scope.spawn(move || match number % 2 {
                    0 => client.stream().peek(&mut [0]).map(drop),
                    _ => read_to_the_end(&client, &log[at..]),
                })
            };
            let readers: Vec<_> = clients.into_iter().enumerate().map(read_on).collect();
            let (status, _) = broker.end_with(Signal::TERM);
            for reader in readers {
                // Closed or reset, and not left waiting.
                if let Err(error) = reader.join().unwrap() {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                }
            }
            status
        });
        (status, producers.all_acked())
    });
    assert!(status.success());
    let again = process(dir.path());
    let stored = drain(again.addr(), "check", BESIDE, 0).len() as u64;
    assert!(stored >= acked, "{stored} of {acked}");
    assert!(RawClient::consume(again.addr(), "check", TOPIC, 0).read(log.len()) == log);
    assert!(again.terminate().0.success());
}

/// What the disk says is in the log, and a peer that cannot be reached any more is not taken for the disk.
#[test]
fn why_the_log_could_not_be_sent_is_told() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let dir = disk();
    let broker = Start::on(dir.path()).with_admin().run();
    let addr = broker.addr();
    RawClient::produce(addr, TOPIC, 0).append(&frame(1, b"", b"x"));
    for (error, closed) in [("EHOSTUNREACH", 0), ("EIO", 1)] {
        let _tracer = Tracer::attach(broker.pid(), &format!("sendfile:error={error}"));
        RawClient::consume(addr, "g", TOPIC, 0).assert_closed_without_a_byte();
        assert_eq!(http::closed(broker.admin(), "storage"), closed, "{error}");
    }
    let line = wait_for("a line", || broker.said("connection closed by the broker").pop());
    assert_eq!(line.get("reason"), "storage");
    assert!(line.get("detail").contains("os error 5"), "{line:?}");
}
