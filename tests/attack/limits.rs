//! Each limit of its own: what is over it is told so, counted, and harms nobody below it.

use std::collections::VecDeque;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{AnswerTo, Durability, write_commit};
use hermitmq::record::{FrameBuilder, wire};

use super::support::http::{closed, metric};
use super::support::v1_1::{answer, committer, connect, ok, open, producer, refused};
use super::support::{
    AGAIN, Broker, COMMIT, RawClient, Start, commit, frame, handshake, scratch, wait_for,
};

fn here() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// A producer that is there: its first record is stored.
fn settled(broker: &Broker, topic: &str) -> RawClient {
    let mut client = RawClient::produce(broker.addr(), topic, 0);
    client.append(&frame(1, b"", b"x"));
    client
}

#[test]
fn connections_beyond_the_limit_are_told_why() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.max_connections=4");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut there: Vec<_> = (0..4).map(|n| settled(&broker, &format!("t{n}"))).collect();

    let answer = refused(addr, &producer("t0", Durability::Topic));
    assert_eq!(answer.status(), Some(Status::LimitReached));
    assert!(answer.message.contains("security.max_connections"), "{answer:?}");
    RawClient::produce(addr, "t0", 0).assert_closed_without_a_byte();
    wait_for("both to be counted", || (closed(admin, "connection_limit") == 2).then_some(()));

    // Those that are there go on, and who leaves makes room.
    for client in &mut there {
        assert_eq!(client.append(&frame(2, b"", b"y")), 1);
    }
    drop(there.pop());
    wait_for("room for another", || {
        let mut client = RawClient::try_begin(addr, &handshake(1, &["t0"], 0))?;
        (client.try_send(&frame(3, b"", b"z")) && client.try_read_ack().is_some()).then_some(())
    });
}

/// More than can be told are closed at once; nothing of them stays.
#[test]
fn a_crowd_beyond_the_limit_is_turned_away() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.max_connections=4");
    let broker = start.arg("--set").arg("server.handshake_timeout_sec=60").run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut there = settled(&broker, "t");
    let silent: Vec<_> = (0..600).map(|_| RawClient::connect(addr)).collect();
    // 3 have a seat, 256 are waited for: the others are closed at once, counted, and logged once.
    wait_for("the others to be closed", || {
        (closed(admin, "connection_limit") >= 341).then_some(())
    });
    assert!(metric(admin, "hermitmq_connections") <= 260);
    let said = "connections are closed at once from now on";
    assert_eq!(broker.said(said).len(), 1);
    assert_eq!(there.append(&frame(2, b"", b"y")), 1);
    // Nor is it said again because one gets the place of one that has left.
    let mut silent = VecDeque::from(silent);
    for turned_away in 342..352 {
        drop(silent.pop_front());
        wait_for("another to be closed", || {
            silent.push_back(RawClient::connect(addr));
            (closed(admin, "connection_limit") >= turned_away).then_some(())
        });
    }
    assert_eq!(broker.said(said).len(), 1);
    drop(silent);
    wait_for("all to be gone", || (metric(admin, "hermitmq_connections") == 1).then_some(()));
}

#[test]
fn an_address_has_its_share() {
    let (_dir, data) = scratch();
    let key = "security.max_connections_per_address";
    let broker = Start::on(&data).with_admin().arg("--set").arg(format!("{key}=2")).run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let _there = [settled(&broker, "a"), settled(&broker, "b")];
    let answer = refused(addr, &producer("a", Durability::Topic));
    assert_eq!(answer.status(), Some(Status::LimitReached));
    assert!(answer.message.contains(key), "{answer:?}");
    let mut client = RawClient::connect_from(here(), addr);
    client.send(&handshake(1, &["a"], 0));
    client.assert_closed_without_a_byte();
    // Others have their own.
    let mut client = RawClient::connect_from(Ipv4Addr::new(127, 0, 0, 2).into(), addr);
    client.send(&handshake(1, &["a"], 0));
    assert_eq!(client.append(&frame(2, b"", b"y")), 1);
    wait_for("both to be counted", || (closed(admin, "address_limit") == 2).then_some(()));
}

#[test]
fn groups_beyond_the_limit_cannot_commit() {
    let (_dir, data) = scratch();
    let start = |max: u32| {
        Start::on(&data).with_admin().arg("--set").arg(format!("offsets.max_groups={max}")).run()
    };
    let broker = start(2);
    let addr = broker.addr();
    settled(&broker, "t");
    commit(addr, "first", "t", 0, 1);
    commit(addr, "second", "t", 0, 0);
    let (mut client, _) = open(addr, &committer("t", "third"));
    let mut offset = Vec::new();
    write_commit(1, &mut offset);
    client.send(&offset);
    assert_eq!(answer(&mut client, AnswerTo::Commit).status(), Some(Status::LimitReached));
    let mut client = RawClient::connect(addr);
    let third = [handshake(COMMIT, &["third", "t"], 0), wire::u64_bytes(1).to_vec()].concat();
    client.send(&third);
    client.assert_closed_without_a_byte();
    wait_for("it to be counted", || (closed(broker.admin(), "limit_reached") == 1).then_some(()));
    commit(addr, "second", "t", 0, 1);
    assert_eq!(metric(broker.admin(), "hermitmq_groups"), 2);

    // What was committed is there although a later limit is lower.
    assert!(broker.terminate().0.success());
    let broker = start(1);
    assert_eq!(metric(broker.admin(), "hermitmq_groups"), 2);
    for group in ["first", "second"] {
        assert_eq!(open(broker.addr(), &committer("t", group)).1, 1);
        commit(broker.addr(), group, "t", 0, 0);
    }
}

#[test]
fn keys_and_counts_have_limits_of_their_own() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.max_key_kb=1");
    let broker = start.arg("--set").arg("security.max_record_count=10").run();
    let addr = broker.addr();
    let mut many = Vec::new();
    FrameBuilder::new(1).record_count(11).write(b"x", &mut many).unwrap();
    for (over, value, key) in [
        (frame(1, &[b'k'; 1025], b"x"), 1024, "security.max_key_kb"),
        (many, 10, "security.max_record_count"),
    ] {
        let mut client = connect(addr, &producer("t", Durability::Topic));
        ok(&mut client, AnswerTo::Handshake);
        client.send(&over);
        let answer = answer(&mut client, AnswerTo::Frame);
        assert_eq!((answer.status(), answer.value), (Some(Status::TooLarge), value));
        assert!(answer.message.contains(key), "{answer:?}");
        let mut client = RawClient::produce(addr, "t", 0);
        client.send(&over);
        client.assert_closed_without_a_byte();
    }
    let mut client = RawClient::produce(addr, "t", 0);
    assert_eq!(client.append(&frame(1, &[b'k'; 1024], b"x")), 0);
    let mut most = Vec::new();
    FrameBuilder::new(1).record_count(10).write(b"x", &mut most).unwrap();
    assert_eq!(client.append(&most), 1);
    assert_eq!(closed(broker.admin(), "too_large"), 4);
}

#[test]
fn limits_change_while_the_broker_runs() {
    let (dir, data) = scratch();
    let file = dir.path().join("hermitmq.toml");
    fs::write(&file, "[security]\nmax_connections = 1\n").unwrap();
    let broker = Start::on(&data).with_admin().arg("--config").arg(&file).run();
    let addr = broker.addr();
    let mut idle = settled(&broker, "t");
    refused(addr, &producer("t", Durability::Topic));
    let reload = |text: &str| {
        fs::write(&file, text).unwrap();
        broker.reload(AGAIN);
    };
    reload("[security]\nmax_connections = 2\nmax_key_kb = 1\n");
    let mut client = RawClient::produce(addr, "t", 0);
    client.send(&frame(1, &[b'k'; 1025], b"x"));
    client.assert_closed_without_a_byte();
    // For one that is there, too.
    assert_eq!(idle.append(&frame(1, b"", b"x")), 1);
    reload("[[security.quota]]\nprincipal = '127.0.0.1'\nproduce_kb_per_s = 4\n");
    wait_for("the quota to hold", || {
        idle.append(&frame(1, b"", &[7; 6000]));
        (metric(broker.admin(), "hermitmq_quota_waits_total") > 0).then_some(())
    });
    reload("[security]\nidle_timeout_sec = 1\n");
    idle.assert_closed_without_a_byte();
    assert_eq!(closed(broker.admin(), "idle_timeout"), 1);
}
