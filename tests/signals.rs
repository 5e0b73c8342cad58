//! SIGTERM and SIGINT: what was acked is on disk, everyone gets an honest end, the next start is clean.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustix::process::Signal;
use support::http::metric;
use support::{
    Broker, RawClient, Start, assert_offsets_follow, drain, frame, listing, names_in_use,
    scratch_in_memory, wait_for,
};

/// Frames that a producer sends ahead of its acks: with no limit, what is to be stored before the end is a matter of the machine.
const AHEAD: usize = 256;

/// Sends until the connection ends; returns the offsets of the acks.
fn produce_until_closed(mut client: RawClient, name: u64) -> Vec<(u64, Vec<u8>)> {
    let mut sender = client.split();
    let record = move |i: u64| frame(i, b"", format!("{name}: record {i}").as_bytes());
    let (ahead, in_flight) = sync_channel(AHEAD);
    let sending = std::thread::spawn(move || {
        let mut sent = 0;
        while ahead.send(()).is_ok() && sender.try_send(&record(sent)) {
            sent += 1;
        }
        sent
    });
    let mut acks = Vec::new();
    while let Some(ack) = client.try_read_ack() {
        assert_eq!(ack.code, 0, "{ack:?}");
        acks.push((ack.offset, record(acks.len() as u64)));
        in_flight.recv().expect("an ack for each frame and no more");
    }
    drop((client, in_flight));
    assert!(sending.join().unwrap() >= acks.len() as u64);
    acks
}

fn ends_cleanly_under_load(signal: Signal) {
    let (_dir, data) = scratch_in_memory();
    let broker = Start::on(&data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        // Nobody is broken off for the sake of a busy machine.
        .env("HERMITMQ_SERVER__SHUTDOWN_TIMEOUT_SEC", 60)
        .run();
    let addr = broker.addr();
    let mut parked = RawClient::consume(addr, "g", "empty", 0);
    let half_open = RawClient::connect(addr);
    let dir = data.join("t_0");
    let segments = || names_in_use(&dir, |name| name.contains(".wal")).len();
    let acks = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..4)
            .map(|n| {
                let client = RawClient::produce(addr, "t", 0);
                scope.spawn(move || produce_until_closed(client, n))
            })
            .collect();
        wait_for("a load that rolls segments", || (dir.is_dir() && segments() > 2).then_some(()));
        let (status, log) = broker.end_with(signal);
        assert_eq!(status.code(), Some(0), "{status}");
        for level in ["WARN", "ERROR"] {
            let bad: Vec<_> = log.iter().filter(|line| line.level() == level).collect();
            assert!(bad.is_empty(), "{bad:?}");
        }
        producers.into_iter().flat_map(|p| p.join().unwrap()).collect::<Vec<_>>()
    });
    parked.assert_closed_without_a_byte();
    drop(half_open);
    assert!(acks.len() > 100, "{} acks are no load", acks.len());

    let broker = Broker::start(&data);
    let stored = drain(broker.addr(), "g", "t", 0);
    assert_offsets_follow(&stored, 0);
    for (offset, sent) in &acks {
        let got = stored.get(usize::try_from(*offset).unwrap()).expect("what was acked is there");
        assert!(&got.as_sent() == sent, "offset {offset}");
    }
    let bad: Vec<_> = broker.log().into_iter().filter(|l| l.level() != "INFO").collect();
    assert!(bad.is_empty(), "the second start is clean: {bad:?}");
    assert!(listing(&data.join("t_0")).iter().all(|name| !name.contains("torn")));
}

#[test]
fn sigterm_under_load() {
    ends_cleanly_under_load(Signal::TERM);
}

#[test]
fn sigint_under_load() {
    ends_cleanly_under_load(Signal::INT);
}

#[test]
fn an_idle_broker_ends_at_once_and_lets_go_of_its_directory() {
    let (_dir, data) = scratch_in_memory();
    for _ in 0..3 {
        let broker = Broker::start(&data);
        assert_eq!(broker.terminate().0.code(), Some(0));
    }
}

#[test]
fn no_client_holds_up_the_end() {
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().env("HERMITMQ_SERVER__SHUTDOWN_TIMEOUT_SEC", 2);
    let broker = start.run();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for _ in 0..50 {
        producer.append(&frame(1, b"", &vec![1; 1 << 20]));
    }
    // A consumer that reads nothing, a producer in the middle of a frame, a client in its handshake.
    let _stalled = RawClient::consume(broker.addr(), "g", "t", 0);
    producer.send(&frame(1, b"", b"cut off")[..30]);
    let mut greeting = RawClient::connect(broker.addr());
    greeting.send(&[1, 5, b'h']);
    let number = |sample: &str| metric(broker.admin(), sample);
    wait_for("all of them to be there", || {
        let reading = number("hermitmq_connections_by_role{role=\"consumer\"}") == 1;
        (number("hermitmq_connections") == 3 && reading).then_some(())
    });
    assert_eq!(broker.terminate().0.code(), Some(0));
}

/// A producer that reads no acks, once nothing more is taken from it.
fn deaf_producer(broker: &Broker) -> RawClient {
    let client = RawClient::produce(broker.addr(), "t", 0);
    socket2::SockRef::from(client.stream()).set_recv_buffer_size(4096).unwrap();
    let mut sender = client.split();
    let frames = frame(1, b"", b"x").repeat(100);
    std::thread::spawn(move || while sender.try_send(&frames) {});
    let mut taken = vec![0];
    wait_for("its acks to fill the socket", || {
        std::thread::sleep(Duration::from_millis(100));
        taken.push(metric(broker.admin(), "hermitmq_records_in_total"));
        let last = &taken[taken.len().saturating_sub(4)..];
        (last[0] > 0 && last.iter().all(|now| *now == last[0])).then_some(())
    });
    client
}

#[test]
fn clients_hold_up_the_end_for_as_long_as_is_set() {
    let brokers = [15, 1].map(|seconds| {
        let (dir, data) = scratch_in_memory();
        let timeout = "HERMITMQ_SERVER__SHUTDOWN_TIMEOUT_SEC";
        let broker = Start::on(&data).with_admin().env(timeout, seconds).run();
        let client = deaf_producer(&broker);
        (dir, broker, client)
    });
    let [(_, mut patient, _client), (_, hasty, _other)] = brokers;
    patient.signal(Signal::TERM);
    let (status, log) = hasty.terminate();
    assert_eq!(status.code(), Some(0));
    let broken_off = "connections broken off: they did not take their answers in time";
    assert!(log.iter().any(|line| line.get("message") == broken_off), "{log:?}");
    assert!(patient.is_running(), "the one that waits longer, and was told first");
}
