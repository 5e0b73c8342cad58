//! Requests and bytes, more than anybody needs.

use std::time::{Duration, Instant};

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{AnswerTo, Durability, Start as From, write_commit};
use hermitmq::record::{Header, wire};

use super::bystander::{alone, assert_undisturbed};
use super::crowd::{Attacker, connect};
use super::support::http::{closed, metric};
use super::support::v1_1::{self, producer};
use super::support::{
    COMMIT, PRODUCE, Random, RawClient, Start, commit, frame, handshake, scratch_in_memory,
    wait_for,
};

const PAUSE: Duration = Duration::from_millis(2);

/// Bytes that are no protocol, and such that begin as one.
#[test]
fn garbage() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let broker = Start::on(&data).with_admin().run();
    let addr = broker.addr();
    let flood = || {
        let mut random = Random::seeded();
        Attacker::start(PAUSE, move || {
            let mut bytes = random.bytes(4096);
            if random.below(2) == 0 {
                // As a producer: what follows is no frame.
                bytes.splice(0..0, handshake(PRODUCE, &["garbage"], 0));
            }
            RawClient::connect(addr).try_send(&bytes);
        })
    };
    assert_undisturbed(addr, "garbage", flood);
    let admin = broker.admin();
    assert!(closed(admin, "unknown_role") + closed(admin, "bad_magic") > 20);
    assert_eq!(metric(admin, "hermitmq_frames_not_stored_total"), 0);
}

/// Sizes that nobody sends, and such that are allowed and of which not a byte comes: neither takes memory.
#[test]
fn claims() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.receive_memory_mb=64");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let claim = |payload_size: u32| {
        let header = Header {
            magic: 1,
            timestamp: 7,
            offset: 0,
            key_size: 0,
            payload_size,
            record_count: 1,
        };
        [handshake(PRODUCE, &["claims"], 0), header.to_bytes().to_vec()].concat()
    };
    RawClient::produce(addr, "claims", 0).append(&frame(1, b"", b"x"));
    let before = broker.memory_kib("RssAnon");
    let mut most = 0;
    let (huge, allowed) = (claim(u32::MAX), claim(50 << 20));
    let claims = || {
        let held = connect(addr, 200, &allowed);
        let huge = huge.clone();
        let coming = Attacker::start(PAUSE, move || {
            RawClient::connect(addr).try_send(&huge);
        });
        most = most.max(broker.memory_kib("RssAnon"));
        assert!(metric(admin, "hermitmq_receive_memory_bytes") <= 64 << 20);
        (coming, held)
    };
    assert_undisturbed(addr, "claims", claims);
    assert!(most < before + 16 * 1024, "{before} KiB before, {most} KiB beside claims of 10 GB");
    assert!(closed(admin, "too_large") > 20);
    assert!(metric(admin, "hermitmq_receive_memory_waits_total") > 100);
    wait_for("all memory to be given back", || {
        (metric(admin, "hermitmq_receive_memory_bytes") == 0).then_some(())
    });
}

#[test]
fn topics() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().arg("--set").arg("topics.max_topics=20");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut there = RawClient::produce(addr, "there", 0);
    there.append(&frame(1, b"", b"x"));
    let mut round = 0;
    // All that there is room for: creating them takes the disk's time, which is not what is measured.
    for number in 0..17 {
        RawClient::produce(addr, &format!("more-{number}"), 0).append(&frame(1, b"", b"x"));
    }
    let flood = || {
        round += 1;
        let (mut number, round) = (0, round);
        Attacker::start(PAUSE, move || {
            number += 1;
            let hello = producer(&format!("topic-{round}-{number}"), Durability::Topic);
            let mut client = v1_1::connect(addr, &hello);
            let answer = v1_1::answer(&mut client, AnswerTo::Handshake);
            if answer.is_ok() {
                return;
            }
            assert_eq!(answer.status(), Some(Status::LimitReached));
            assert!(answer.message.contains("topics.max_topics"), "{answer:?}");
        })
    };
    assert_undisturbed(addr, "topics", flood);
    assert_eq!(metric(admin, "hermitmq_topics"), 20);
    assert!(closed(admin, "limit_reached") > 20);
    assert_eq!(there.append(&frame(2, b"", b"y")), 1);
}

#[test]
fn groups() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().arg("--set").arg("offsets.max_groups=20");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"x"));
    let mut round = 0;
    let flood = || {
        round += 1;
        let (mut number, round) = (0, round);
        Attacker::start(PAUSE, move || {
            number += 1;
            let mut client = RawClient::connect(addr);
            let mut bytes = handshake(COMMIT, &[&format!("group-{round}-{number}"), "t"], 0);
            bytes.extend_from_slice(&wire::u64_bytes(1));
            client.try_send(&bytes);
            let _ = client.try_read_ack();
        })
    };
    assert_undisturbed(addr, "groups", flood);
    assert_eq!(metric(admin, "hermitmq_groups"), 20);
    assert!(closed(admin, "limit_reached") > 20);
}

/// Commits that cannot be: as often as clients send them, the log says so a few times a second.
#[test]
fn commits_beyond_the_end_do_not_fill_the_log() {
    let (_dir, data) = scratch_in_memory();
    let broker = Start::on(&data).with_admin().run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"x"));
    let begun = Instant::now();
    let (mut consumer, _) =
        v1_1::open(addr, &v1_1::follower("t", Some(v1_1::group("new")), From::Latest));
    for number in 1..=100 {
        let mut beyond = Vec::new();
        write_commit(1000, &mut beyond);
        consumer.send(&beyond);
        commit(addr, "old", "t", 0, 1000);
        wait_for("the refusal", || {
            (metric(admin, "hermitmq_commits_refused_total") == number).then_some(())
        });
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    for message in ["not committed", "commit beyond the log end, clamped to it"] {
        let said = wait_for("a line", || broker.said(message).len().checked_sub(1)) + 1;
        assert!(said <= 5 * seconds, "{said} lines in {seconds} s: {message}");
    }
}
