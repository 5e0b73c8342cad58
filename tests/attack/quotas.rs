//! A principal that wants more than its share waits; others do not.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::bystander::{alone, assert_undisturbed};
use super::crowd::Attacker;
use super::support::http::metric;
use super::support::{
    CONSUME, PRODUCE, RawClient, Start, drain, frame, handshake, scratch_in_memory,
};

/// Who has a quota: not the address that tests connect from.
const LIMITED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// In KiB a second.
const RATE: u64 = 512;

fn start(data: &std::path::Path, text: &str) -> super::support::Broker {
    start_with(data, text, |start| start)
}

/// With a quota for [`limited`] ones, and what else `with` asks for.
pub(super) fn start_with(
    data: &std::path::Path,
    text: &str,
    with: impl FnOnce(Start) -> Start,
) -> super::support::Broker {
    let file = data.parent().unwrap().join("quota.toml");
    let table = format!("[[security.quota]]\nprincipal = \"{LIMITED}\"\n{text}\n");
    std::fs::write(&file, table).unwrap();
    with(Start::on(data).with_admin().arg("--config").arg(&file)).run()
}

pub(super) fn limited(addr: SocketAddr, hello: &[u8]) -> RawClient {
    let mut client = RawClient::connect_from(LIMITED, addr);
    client.send(hello);
    client
}

/// The shortest time that bytes may take on so many connections: what is neither the burst nor the last step of each, an
/// eighth of the rate, at the rate.
fn shortest(kib: u64, connections: u64) -> Duration {
    Duration::from_millis((kib - RATE - connections * RATE / 8) * 1000 / RATE)
}

#[test]
fn a_producer_is_held_to_its_rate_and_loses_nothing() {
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, &format!("produce_kb_per_s = {RATE}"));
    let addr = broker.addr();
    // Two connections, small frames and a large one: it is all one principal.
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for topic in ["a", "b"] {
            scope.spawn(move || {
                let mut client = limited(addr, &handshake(PRODUCE, &[topic], 0));
                let large = frame(1, b"", &vec![7; 384 * 1024]);
                let small = frame(1, b"", &vec![7; 1000]).repeat(128);
                client.send(&[large, small].concat());
                for number in 0..129 {
                    assert_eq!(client.stored(), number);
                }
            });
        }
    });
    let took = begun.elapsed();
    assert!(took >= shortest(2 * 512, 2), "{took:?}");
    for topic in ["a", "b"] {
        assert_eq!(drain(addr, "g", topic, 0).len(), 129);
    }
    assert!(metric(broker.admin(), "hermitmq_quota_waits_total") > 0);
    assert!(broker.terminate().0.success());
}

#[test]
fn a_consumer_is_held_to_its_rate_and_gets_all() {
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, &format!("consume_kb_per_s = {RATE}"));
    let addr = broker.addr();
    let mut producer = RawClient::produce(addr, "t", 0);
    for number in 0..4 {
        // Without a quota of its own.
        producer.append(&frame(number, b"", &vec![7; 256 * 1024]));
    }
    let begun = Instant::now();
    let mut client = limited(addr, &handshake(CONSUME, &["g", "t"], 0));
    for number in 0..4 {
        assert_eq!(client.read_frame().header.offset, number);
    }
    let took = begun.elapsed();
    assert!(took >= shortest(1024, 1), "{took:?}");
    producer.append(&frame(4, b"", b"at the tail"));
    assert_eq!(client.read_frame().payload(), b"at the tail");
}

/// What was sent before the end is answered, whatever the quota.
#[test]
fn going_down_waits_for_no_quota() {
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, "produce_kb_per_s = 16");
    let addr = broker.addr();
    let mut client = limited(addr, &handshake(PRODUCE, &["t"], 0));
    // All of it fits the socket: it was received, as far as the client can know.
    let frames = 50;
    client.send(&frame(1, b"", &vec![7; 1000]).repeat(frames));
    assert_eq!(client.stored(), 0);
    // At the rate most of it would take seconds.
    assert!(broker.terminate().0.success());
    let acks = client.read_to_end();
    assert_eq!(acks.len(), 9 * (frames - 1));
}

#[test]
fn who_is_over_the_quota_disturbs_nobody() {
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data, &format!("produce_kb_per_s = {RATE}\nconsume_kb_per_s = {RATE}"));
    let _alone = alone();
    let addr = broker.addr();
    RawClient::produce(addr, "greedy", 0).append(&frame(1, b"", &vec![7; 1 << 20]));
    let greedy = || {
        let producer = limited(addr, &handshake(PRODUCE, &["greedy"], 0));
        producer.stream().set_nonblocking(true).unwrap();
        let consumer = limited(addr, &handshake(CONSUME, &["g", "greedy"], 0));
        consumer.stream().set_nonblocking(true).unwrap();
        let chunk = frame(1, b"", &[7; 1000]).repeat(64);
        let mut sink = vec![0; 64 * 1024];
        let mut at = 0;
        Attacker::start(Duration::from_millis(2), move || {
            at += producer.stream().write(&chunk[at..]).unwrap_or(0);
            at %= chunk.len();
            while producer.stream().read(&mut sink).is_ok_and(|read| read > 0) {}
            while consumer.stream().read(&mut sink).is_ok_and(|read| read > 0) {}
        })
    };
    assert_undisturbed(addr, "somebody over the quota", greedy);
    assert!(metric(broker.admin(), "hermitmq_quota_waits_total") > 0);
}
