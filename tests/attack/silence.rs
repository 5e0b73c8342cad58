//! Who says nothing, says it slowly, or does not listen.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use hermitmq::protocol::v1_1::{Durability, Start as Position};

use super::bystander::{alone, assert_undisturbed};
use super::crowd::Attacker;
use super::support::http::{closed, metric};
use super::support::v1_1::{self, committer, follower, group, open, producer};
use super::support::{
    COMMIT, CONSUME, PRODUCE, RawClient, Start, frame, handshake, scratch, wait_for,
};

/// A handshake of each role in both versions.
fn handshakes() -> Vec<Vec<u8>> {
    let mut commit = handshake(COMMIT, &["group", "topic"], 0);
    commit.extend([0; 8]);
    vec![
        handshake(PRODUCE, &["topic"], 0),
        handshake(CONSUME, &["group", "topic"], 0),
        commit,
        producer("topic", Durability::Topic),
        follower("topic", Some(group("group")), Position::Latest),
        committer("topic", "group"),
    ]
}

/// One connection for each position of each handshake: it has sent as much, and then a byte now and then. All are closed by
/// the broker at the deadline for the whole.
#[test]
fn slow_handshakes_at_every_byte() {
    let _alone = alone();
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("server.handshake_timeout_sec=1");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let slow = || {
        let mut clients = Vec::new();
        for whole in handshakes() {
            for len in 0..whole.len() {
                let mut client = RawClient::connect(addr);
                client.send(&whole[..len]);
                // The next byte is not the last: that would be a whole handshake.
                let next = (len + 1 < whole.len()).then(|| whole[len]);
                clients.push((client, next));
            }
        }
        for (client, next) in &mut clients {
            if let Some(next) = next {
                client.try_send(&[*next]);
            }
        }
        clients
    };
    let before = closed(admin, "handshake_timeout");
    let mut clients = slow();
    let count = clients.len();
    assert!(count > 100, "{count}");
    for (client, _) in &mut clients {
        client.assert_closed_without_a_byte();
    }
    assert_eq!(closed(admin, "handshake_timeout") - before, i64::try_from(count).unwrap());
    assert_undisturbed(addr, "slow handshakes", slow);
    wait_for("all to be gone", || (metric(admin, "hermitmq_connections") == 0).then_some(()));
}

#[test]
fn silent_producers_and_committers_are_closed_where_that_is_wanted() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.idle_timeout_sec=1");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut waiting = RawClient::consume(addr, "g", "t", 0);
    let (mut newer, _) = open(addr, &follower("t", Some(group("h")), Position::Latest));
    let mut silent = vec![RawClient::produce(addr, "t", 0)];
    silent.push(open(addr, &producer("t", Durability::Topic)).0);
    silent.push(open(addr, &committer("t", "g")).0);
    // Part of a frame is no sign of life for ever.
    let mut half = RawClient::produce(addr, "t", 0);
    half.send(&frame(1, b"", b"x")[..10]);
    silent.push(half);
    for client in &mut silent {
        client.assert_closed_without_a_byte();
    }
    assert_eq!(closed(admin, "idle_timeout"), 4);
    // Who waits at the end has been silent for as long, and is not idle.
    let mut producer = RawClient::produce(addr, "t", 0);
    producer.append(&frame(2, b"", b"for all who wait"));
    assert_eq!(waiting.read_frame().payload(), b"for all who wait");
    assert!(matches!(v1_1::next(&mut newer), v1_1::Got::Frame(_)));
}

/// A client with a small receive buffer from the beginning.
fn narrow(addr: SocketAddr, hello: &[u8]) -> RawClient {
    let mut client = RawClient::connect(addr);
    client.narrow();
    client.send(hello);
    client
}

/// A consumer, and a producer that does not take its acks, are closed once they have taken nothing for long enough, and
/// nothing of them stays. One that is slow is not.
#[test]
fn who_takes_nothing_is_closed_and_who_is_slow_is_not() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.write_timeout_sec=3");
    // Found by the broker itself, not by the system.
    let broker = start.arg("--set").arg("security.user_timeout_sec=0").run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut filling = RawClient::produce(addr, "t", 0);
    let payload = vec![7; 1 << 20];
    let records: u64 = 24;
    for number in 0..records {
        assert_eq!(filling.append(&frame(number, b"", &payload)), number);
    }
    let stalled = narrow(addr, &handshake(CONSUME, &["stalled", "t"], 0));
    let deaf = narrow(addr, &handshake(PRODUCE, &["other"], 0));
    // Acks of 9 bytes: many frames are needed. It sends until it is closed, and no longer.
    let sending = std::thread::spawn(move || {
        let chunk = frame(1, b"", b"").repeat(2000);
        let mut stream = deaf.stream();
        while stream.write_all(&chunk).is_ok() {}
    });
    let slow = std::thread::spawn(move || {
        let client = narrow(addr, &handshake(CONSUME, &["slow", "t"], 0));
        let (mut read, mut part) = (0, vec![0; 128 * 1024]);
        while read < records * ((1 << 20) + 29) {
            let got = client.stream().read(&mut part).expect("the slow one goes on");
            assert!(got > 0, "the slow one was closed after {read} bytes");
            read += got as u64;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    wait_for("both to be closed", || (closed(admin, "write_timeout") == 2).then_some(()));
    sending.join().unwrap();
    slow.join().unwrap();
    drop(filling);
    wait_for("all to be gone", || (metric(admin, "hermitmq_connections") == 0).then_some(()));
    drop(stalled);
}

/// Connections that begin nothing and break off, beside somebody who works.
#[test]
fn half_handshakes_that_are_given_up() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let addr = broker.addr();
    let attacker = Attacker::start(Duration::from_millis(5), move || {
        for whole in handshakes() {
            let mut client = RawClient::connect(addr);
            client.try_send(&whole[..whole.len() / 2]);
        }
    });
    let mut client = RawClient::produce(addr, "t", 0);
    for number in 0..500 {
        assert_eq!(client.append(&frame(number, b"", b"x")), number);
    }
    drop((attacker, client));
    let left = || metric(broker.admin(), "hermitmq_connections");
    wait_for("all to be gone", || (left() == 0).then_some(()));
}
