//! Bad input costs the sender its connection, and nobody else anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermitmq::record::{FrameBuilder, HEADER_LEN, Header};
use support::{
    Broker, COMMIT, CONSUME, PRODUCE, RawClient, Start, assert_offsets_follow, drain, frame,
    handshake, listing, scratch, wait_for,
};

/// Client bytes that break the protocol, and what is done with the connection after sending them.
struct Case {
    what: String,
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The broker closes on its own.
    Wait,
    /// The client says that nothing more comes.
    FinishSending,
}

fn case(what: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Case {
    Case { what: what.into(), bytes: bytes.into(), then: Then::Wait }
}

/// A producer's handshake, then a header with some fields out of bounds.
fn bad_header(change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header =
        Header { magic: 1, timestamp: 7, offset: 0, key_size: 0, payload_size: 0, record_count: 1 };
    change(&mut header);
    [handshake(PRODUCE, &["bad"], 0), header.to_bytes().to_vec()].concat()
}

fn frames_out_of_bounds() -> Vec<Case> {
    vec![
        case("magic 0", bad_header(|h| h.magic = 0)),
        case("magic 2", bad_header(|h| h.magic = 2)),
        case(
            "magic 0xff, first byte alone",
            [handshake(PRODUCE, &["bad"], 0), vec![0xff]].concat(),
        ),
        case("key of 4 GiB", bad_header(|h| h.key_size = u32::MAX)),
        case("payload of 4 GiB", bad_header(|h| h.payload_size = u32::MAX)),
        case("payload of 1 byte over 50 MiB", bad_header(|h| h.payload_size = (50 << 20) + 1)),
        case(
            "sizes whose sum overflows u32",
            bad_header(|h| {
                h.key_size = u32::MAX;
                h.payload_size = u32::MAX;
            }),
        ),
        case("record_count of 4 Gi", bad_header(|h| h.record_count = u32::MAX)),
    ]
}

fn bad_handshakes() -> Vec<Case> {
    let mut cases = vec![
        case("role 0", [0u8]),
        case("role 4", [4u8]),
        case("role 0xff", [0xffu8]),
        case("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        case("TLS", [0x16u8, 3, 1, 2, 0, 1]),
        case("empty topic", [PRODUCE, 0]),
        case("empty group", [CONSUME, 0]),
        case("empty topic of a consumer", [CONSUME, 1, b'g', 0]),
        case("produce to __consumer_offsets", handshake(PRODUCE, &["__consumer_offsets"], 0)),
        case("produce to a reserved topic", handshake(PRODUCE, &["__mine"], 0)),
        case("partition 1 of 1, produce", handshake(PRODUCE, &["bad"], 1)),
        case("partition 1 of 1, consume", handshake(CONSUME, &["g", "bad"], 1)),
        case("last partition there could be", handshake(PRODUCE, &["bad"], u32::MAX)),
        case(
            "partition 1 of 1, commit",
            [handshake(COMMIT, &["g", "bad"], 1), vec![0; 8]].concat(),
        ),
    ];
    let whole = handshake(CONSUME, &["group", "topic"], 0);
    for len in [1, 2, 4, 7, 8, 10, whole.len() - 1] {
        let then = Then::FinishSending;
        cases.push(Case { what: format!("cut at {len}"), bytes: whole[..len].to_vec(), then });
    }
    let long = [b'x'; 255];
    let illegal: [&[u8]; 14] = [
        b"../../etc",
        b"/",
        b"/etc",
        b"\0",
        b"a\0b",
        b".",
        b"..",
        b"a/b",
        b"a b",
        b"a\nb",
        b"\\",
        b"\xc3\xa4",
        &long[..250],
        &long,
    ];
    for bad in illegal {
        let shown = String::from_utf8_lossy(bad).into_owned();
        cases.push(case(format!("produce to {shown:?}"), handshake(PRODUCE, &[bad], 0)));
        cases.push(case(format!("consume {shown:?}"), handshake(CONSUME, &[b"g", bad], 0)));
        cases.push(case(format!("group {shown:?}"), handshake(CONSUME, &[bad, b"bad"], 0)));
        let commit = [handshake(COMMIT, &[bad, b"bad"], 0), vec![0; 8]].concat();
        cases.push(case(format!("commit by {shown:?}"), commit));
    }
    cases
}

/// The log lines about a peer that say why it was closed.
fn reasons(broker: &Broker, peer: SocketAddr) -> Vec<support::LogLine> {
    let about = |line: &support::LogLine| {
        line.get("peer") == peer.to_string()
            && !line.get("reason").is_empty()
            && matches!(&*line.level(), "DEBUG" | "WARN")
    };
    broker.log().into_iter().filter(about).collect()
}

fn assert_refused(broker: &Broker, case: &Case) {
    let mut client = RawClient::connect(broker.addr());
    let peer = client.local_addr();
    // The broker may close before everything is sent.
    client.try_send(&case.bytes);
    if case.then == Then::FinishSending {
        client.finish_sending();
    }
    client.assert_closed_without_a_byte();
    let what = &case.what;
    wait_for(&format!("a log line about {peer} ({what})"), || {
        (!reasons(broker, peer).is_empty()).then_some(())
    });
    assert_eq!(reasons(broker, peer).len(), 1, "{what}: one log line: {:?}", reasons(broker, peer));
}

/// A producer and a consumer that go on, and check every byte, until told to stop.
fn healthy_pair(
    addr: SocketAddr,
    topic: &'static str,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<usize> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut producer = RawClient::produce(addr, topic, 0);
        let mut consumer = RawClient::consume(addr, "healthy", topic, 0);
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) || sent < 10 {
            let bytes = frame(sent, b"key", format!("record {sent}").as_bytes());
            assert_eq!(producer.append(&bytes), sent);
            let got = consumer.read_frame();
            assert_eq!((got.header.offset, got.as_sent()), (sent, bytes));
            sent += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        usize::try_from(sent).unwrap()
    })
}

#[test]
fn bad_input_is_closed_without_a_byte_and_harms_nobody() {
    let (dir, data) = scratch();
    let broker = Start::on(&data).debug().run();
    let stop = Arc::new(AtomicBool::new(false));
    let healthy = healthy_pair(broker.addr(), "healthy", &stop);

    let cases: Vec<_> = bad_handshakes().into_iter().chain(frames_out_of_bounds()).collect();
    assert!(cases.len() > 70);
    for case in &cases {
        assert_refused(&broker, case);
    }

    stop.store(true, Ordering::Relaxed);
    let sent = healthy.join().expect("the healthy pair is undisturbed");
    assert_eq!(drain(broker.addr(), "again", "healthy", 0).len(), sent);
    assert_eq!(drain(broker.addr(), "again", "bad", 0), [], "nothing bad was stored");
    // Nothing outside the data directory, and only honest names in it.
    assert_eq!(listing(dir.path()), ["data"]);
    for name in listing(&data) {
        let known = ["healthy_0", "bad_0", "topic_0", "__consumer_offsets_0"].contains(&&*name);
        let own = [".lock", ".clock", "catalog.json"].iter().any(|own| name.starts_with(own));
        assert!(known || own, "{name}");
    }
    assert!(broker.terminate().0.success());
}

#[test]
fn frames_before_a_bad_one_are_stored_and_acked() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut client = RawClient::produce(broker.addr(), "t", 0);
    let good = frame(1, b"", b"good");
    client.send(&[good.clone(), good, vec![0x63]].concat());
    assert_eq!((client.stored(), client.stored()), (0, 1));
    client.assert_closed_without_a_byte();
    assert_eq!(drain(broker.addr(), "g", "t", 0).len(), 2);
}

#[test]
fn a_frame_cut_off_by_its_sender_is_not_stored() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let whole = frame(1, b"key", b"payload");
    for len in [1, HEADER_LEN - 1, HEADER_LEN, whole.len() - 1] {
        let mut client = RawClient::produce(broker.addr(), "t", 0);
        client.send(&whole[..len]);
        client.finish_sending();
        client.assert_closed_without_a_byte();
    }
    assert_eq!(drain(broker.addr(), "g", "t", 0), []);
    assert_eq!(RawClient::produce(broker.addr(), "t", 0).append(&whole), 0);
}

#[test]
fn limits_are_inclusive() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_SECURITY__MAX_PAYLOAD_MB", 1).run();
    let mut client = RawClient::produce(broker.addr(), "t", 0);
    let largest = frame(1, &vec![b'k'; 1 << 20], &vec![b'p'; 1 << 20]);
    assert_eq!(client.append(&largest), 0);
    let mut most = Vec::new();
    FrameBuilder::new(2).record_count(1 << 20).write(b"many", &mut most).unwrap();
    assert_eq!(client.append(&most), 1);
    assert_eq!(client.append(&frame(3, b"", b"after")), 1 + (1 << 20));
    let frames = drain(broker.addr(), "g", "t", 0);
    assert_offsets_follow(&frames, 0);
    assert_eq!(frames[0].as_sent(), largest);

    client.send(&frame(1, b"", &vec![b'p'; (1 << 20) + 1])[..HEADER_LEN]);
    client.assert_closed_without_a_byte();
    let longest = "x".repeat(249);
    assert_eq!(RawClient::produce(broker.addr(), &longest, 0).append(&most), 0);
    assert_eq!(drain(broker.addr(), &longest, &longest, 0).len(), 1);
}

#[test]
fn slow_handshakes_end_at_the_total_deadline() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).debug().env("HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC", 1).run();
    let stop = Arc::new(AtomicBool::new(false));
    let healthy = healthy_pair(broker.addr(), "healthy", &stop);
    let slow = |bytes: Vec<u8>| {
        let mut client = RawClient::connect(broker.addr());
        let peer = client.local_addr();
        // Each byte comes well within the deadline; all of them do not. The broker hangs up in between.
        for byte in bytes {
            client.try_send(&[byte]);
            std::thread::sleep(Duration::from_millis(100));
        }
        client.assert_closed_without_a_byte();
        wait_for("a log line about the slow handshake", || {
            (reasons(&broker, peer).len() == 1).then_some(())
        });
    };
    let long = "x".repeat(40);
    std::thread::scope(|scope| {
        scope.spawn(|| slow(handshake(PRODUCE, &[&*long], 0)));
        scope.spawn(|| slow(handshake(CONSUME, &["g", &*long], 0)));
        scope.spawn(|| slow(handshake(COMMIT, &[&*long, "t"], 0)));
        // Never a byte at all.
        scope.spawn(|| slow(Vec::new()));
    });
    // After the handshake there is no deadline: the healthy pair and an idle producer live longer than it.
    let mut idle = RawClient::produce(broker.addr(), "idle", 0);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(idle.append(&frame(1, b"", b"late")), 0);
    stop.store(true, Ordering::Relaxed);
    healthy.join().expect("the healthy pair is undisturbed");
}
