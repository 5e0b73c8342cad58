//! Protocol 1.1 against a broker: what the examples of `docs/PROTOCOL.md` do not show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::net::SocketAddr;
use std::num::NonZeroU32;

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{
    AnswerTo, ControlFrame, Durability, Fallback, NO_COMMIT, Role, Start, write_commit,
};
use hermitmq::record::{HEADER_LEN, wire};
use rustix::process::Signal;
use support::v1_1::{
    Got, answer, committer, connect, control, group, handshake, next, ok, open, producer, reader,
    refused,
};
use support::{
    Broker, Random, RawClient, Start as StartBroker, Trace, drain, frame, scratch, wait_for,
};

/// Offsets of all frames that a consumer gets until the broker closes, and the reply's value.
fn read_all(addr: SocketAddr, handshake: &[u8]) -> (u64, Vec<u64>) {
    let (mut client, first) = open(addr, handshake);
    let frames = support::frames_of(&client.read_to_end());
    (first, frames.iter().map(|frame| frame.header.offset).collect())
}

/// A topic with frames of these timestamps.
fn fill(addr: SocketAddr, topic: &str, timestamps: &[u64]) {
    let (mut client, end) = open(addr, &producer(topic, Durability::Topic));
    for (number, &timestamp) in (end..).zip(timestamps) {
        client.send(&frame(timestamp, b"", format!("record {number}").as_bytes()));
        assert_eq!(ok(&mut client, AnswerTo::Frame), number);
    }
}

#[test]
fn each_refusal_has_its_status() {
    let (_dir, data) = scratch();
    let broker = StartBroker::on(&data).env("HERMITMQ_TOPICS__MAX_PARTITIONS", 2).run();
    let addr = broker.addr();
    fill(addr, "t", &[1, 2]);
    let status = |handshake: &[u8]| {
        let answer = refused(addr, handshake);
        (answer.status().unwrap(), answer.value)
    };
    assert_eq!(status(&producer("one-more", Durability::Topic)), (Status::LimitReached, 0));
    let start = Start::Offset(3);
    assert_eq!(status(&reader("t", None, start)), (Status::OffsetOutOfRange, 2));
    assert_eq!(status(b"\x13\x00\x04\x01\x00\x01t"), (Status::Malformed, 0), "no group");
    assert_eq!(status(b"\x12\xff\xff"), (Status::Malformed, 0), "as soon as the length is there");
    assert_eq!(status(b"\x11\x00\x04\x01\x00\x09t"), (Status::Malformed, 0), "runs over");
    drop(broker);
    let broker = StartBroker::on(&data).env("HERMITMQ_TOPICS__AUTO_CREATE", "false").run();
    let refused = refused(broker.addr(), &producer("nowhere", Durability::Topic));
    assert_eq!(refused.status(), Some(Status::UnknownTopic));
    assert!(refused.message.contains("nowhere"), "{refused:?}");
}

#[test]
fn garbage_and_slow_handshakes_cost_nobody_else_anything() {
    let (_dir, data) = scratch();
    let broker = StartBroker::on(&data).env("HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC", 1).run();
    let addr = broker.addr();
    let (mut other, _) = open(addr, &producer("t", Durability::Topic));
    let mut slow = RawClient::connect(addr);
    for byte in &producer("t", Durability::Topic)[..6] {
        slow.send(&[*byte]);
    }
    let mut random = Random::seeded();
    for round in 0..60u8 {
        let mut bytes = vec![0x11 + round % 3];
        let len = usize::try_from(random.below(60)).unwrap();
        bytes.extend(wire::u16_bytes(u16::try_from(len).unwrap()));
        bytes.extend(random.bytes(len + 40));
        let mut client = RawClient::connect(addr);
        client.try_send(&bytes);
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
        // An answer or none, and the end.
        let _ = std::io::Read::read_to_end(&mut client.stream(), &mut Vec::new());
    }
    slow.assert_closed_without_a_byte();
    other.send(&frame(1, b"", b"x"));
    assert_eq!(ok(&mut other, AnswerTo::Frame), 0);
}

#[test]
fn a_handshake_may_come_byte_by_byte_and_with_what_follows() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut client = RawClient::connect(broker.addr());
    for byte in [producer("t", Durability::Topic), frame(1, b"", b"x")].concat() {
        client.send(&[byte]);
    }
    assert_eq!(ok(&mut client, AnswerTo::Handshake), 0);
    assert_eq!(ok(&mut client, AnswerTo::Frame), 0);
    let all = [producer("t", Durability::Topic), frame(2, b"", b"y"), frame(3, b"", b"z")].concat();
    let mut client = connect(broker.addr(), &all);
    assert_eq!(ok(&mut client, AnswerTo::Handshake), 1);
    assert_eq!((ok(&mut client, AnswerTo::Frame), ok(&mut client, AnswerTo::Frame)), (1, 2));
}

#[test]
fn a_bad_frame_is_answered_behind_the_good_ones() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    for durability in [Durability::Topic, Durability::Flushed] {
        let (mut client, end) = open(broker.addr(), &producer("t", durability));
        let mut sent: Vec<u8> = (0..50).flat_map(|i| frame(i, b"", b"good")).collect();
        sent.push(2);
        // What follows is neither stored nor answered, and does not take the answer away.
        sent.extend(vec![7; 100_000]);
        client.send(&sent);
        for number in end..end + 50 {
            assert_eq!(ok(&mut client, AnswerTo::Frame), number);
        }
        let last = answer(&mut client, AnswerTo::Frame);
        assert_eq!(last.status(), Some(Status::Malformed), "{last:?}");
        assert_eq!(client.read_to_end(), b"");
    }
}

#[test]
fn flushed_is_answered_after_fdatasync_whatever_the_topic_says() {
    let (dir, data) = scratch();
    // An interval that no test waits for: only hurrying ends the wait.
    let Some(trace) = Trace::of(dir.path(), "fdatasync,sendto", "fdatasync:delay_enter=1000")
    else {
        return;
    };
    let start = StartBroker::on(&data).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20_000);
    let traced = trace.run(start);
    let (mut client, _) = open(traced.broker.addr(), &producer("t", Durability::Flushed));
    for number in 0..20 {
        let syncs = |events: Vec<support::Event>| {
            let of_topic = |event: &&support::Event| event.args.contains("/t_0/");
            let done = |event: &&support::Event| event.result == Some(0);
            events.iter().filter(of_topic).filter(done).count()
        };
        let before = syncs(traced.so_far());
        client.send(&frame(number, b"", b"x"));
        assert_eq!(ok(&mut client, AnswerTo::Frame), number);
        wait_for("a flush in the trace", || (syncs(traced.so_far()) > before).then_some(()));
    }
}

#[test]
fn a_failed_flush_is_read_only_and_the_end() {
    let (dir, data) = scratch();
    let fail = "fdatasync:error=EIO:when=3+";
    let Some(trace) = Trace::of(dir.path(), "fdatasync", fail) else { return };
    let traced = trace.run(StartBroker::on(&data));
    let addr = traced.broker.addr();
    let last = wait_for("a flush to fail", || {
        let (mut client, _) = open(addr, &producer("t", Durability::Flushed));
        client.send(&frame(1, b"", b"x"));
        let last = answer(&mut client, AnswerTo::Frame);
        (!last.is_ok()).then(|| {
            assert_eq!(client.read_to_end(), b"");
            last
        })
    });
    assert_eq!(last.status(), Some(Status::ReadOnly), "{last:?}");
    let (mut client, _) = open(addr, &producer("t", Durability::Topic));
    // Alone: nothing that goes on for the connection gives it another turn.
    std::thread::sleep(std::time::Duration::from_millis(100));
    client.send(&frame(1, b"", b"x"));
    assert_eq!(answer(&mut client, AnswerTo::Frame).status(), Some(Status::ReadOnly));
    let mut old = RawClient::produce(addr, "t", 0);
    old.send(&frame(1, b"", b"x"));
    assert_eq!(old.read_ack().code, 0xff, "as ever in version 1.0");
}

#[test]
fn not_stored_is_transient_and_the_connection_goes_on() {
    let (_dir, data) = scratch();
    let broker = StartBroker::on(&data).env("HERMITMQ_STORAGE__MIN_FREE_MB", 1_000_000_000).run();
    let (mut client, _) = open(broker.addr(), &producer("t", Durability::Flushed));
    for _ in 0..3 {
        client.send(&frame(1, b"", b"x"));
        assert_eq!(answer(&mut client, AnswerTo::Frame).status(), Some(Status::NotStored));
    }
}

#[test]
fn a_consumer_begins_where_it_asks_to() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr();
    fill(addr, "t", &[10, 30, 20, 40]);
    let from = |group, start| read_all(addr, &reader("t", group, start));
    assert_eq!(from(None, Start::Earliest), (0, vec![0, 1, 2, 3]));
    assert_eq!(from(None, Start::Latest), (4, vec![]));
    assert_eq!(from(None, Start::Offset(2)), (2, vec![2, 3]));
    assert_eq!(from(None, Start::Offset(4)), (4, vec![]));
    // The first one in the order of the log, although an older one follows.
    assert_eq!(from(None, Start::Timestamp(20)), (1, vec![1, 2, 3]));
    assert_eq!(from(None, Start::Timestamp(31)), (3, vec![3]));
    assert_eq!(from(None, Start::Timestamp(41)), (4, vec![]));
    assert_eq!(from(Some(group("new")), Start::Committed(Fallback::Latest)), (4, vec![]));
    assert_eq!(
        from(Some(group("new")), Start::Committed(Fallback::Earliest)),
        (0, vec![0, 1, 2, 3])
    );
    support::commit(addr, "old", "t", 0, 3);
    assert_eq!(from(Some(group("old")), Start::Committed(Fallback::Latest)), (3, vec![3]));
}

#[test]
fn times_and_ends_are_found_across_segments() {
    let (_dir, data) = scratch();
    let broker = StartBroker::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();
    let addr = broker.addr();
    let (mut client, _) = open(addr, &producer("t", Durability::Topic));
    for number in 0..40u64 {
        client.send(&frame(1000 + number, b"", &vec![b'x'; 100_000]));
        assert_eq!(ok(&mut client, AnswerTo::Frame), number);
    }
    assert!(support::listing(&data.join("t_0")).len() > 6, "some segments");
    // Twice: the second time, what the first one found out is used.
    for time in [1035, 1000, 1035, 1012] {
        let expected: Vec<u64> = (time - 1000..40).collect();
        let got = read_all(addr, &reader("t", None, Start::Timestamp(time)));
        assert_eq!(got, (time - 1000, expected));
    }
    // More comes while it reads: it ends all the same, where the log ended.
    let (mut bounded, _) = open(addr, &reader("t", None, Start::Earliest));
    for number in 40..60u64 {
        client.send(&frame(2000 + number, b"", &vec![b'y'; 100_000]));
        assert_eq!(ok(&mut client, AnswerTo::Frame), number);
    }
    assert_eq!(support::frames_of(&bounded.read_to_end()).len(), 40);
}

#[test]
fn a_consumer_commits_on_its_connection_also_after_the_end() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr();
    fill(addr, "t", &[1, 2, 3, 4]);
    let committed = || open(addr, &committer("t", "g")).1;
    assert_eq!(committed(), NO_COMMIT);
    let (mut client, _) =
        open(addr, &reader("t", Some(group("g")), Start::Committed(Fallback::Earliest)));
    assert_eq!(support::frames_of(&client.read_to_end()).len(), 4);
    let mut commits = Vec::new();
    write_commit(2, &mut commits);
    write_commit(3, &mut commits);
    // Beyond the end, and cut off.
    write_commit(99, &mut commits);
    commits.extend([0, 0, 0]);
    client.send(&commits);
    wait_for("the commit", || (committed() == 3).then_some(()));
    client.send(&[0, 0, 0, 0, 4]);
    wait_for("the commit in two pieces", || (committed() == 4).then_some(()));
}

#[test]
fn commits_are_answered_in_order_however_many_come_at_once() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr();
    fill(addr, "t", &[1, 2, 3]);
    let mut sent = committer("t", "g");
    for number in 0..2000 {
        write_commit(number % 5, &mut sent);
    }
    let mut client = connect(addr, &sent);
    assert_eq!(ok(&mut client, AnswerTo::Handshake), NO_COMMIT);
    for number in 0..2000 {
        let got = answer(&mut client, AnswerTo::Commit);
        let expected = match number % 5 {
            4 => (Some(Status::OffsetOutOfRange), 3),
            valid => (Some(Status::Ok), valid),
        };
        assert_eq!((got.status(), got.value), expected);
    }
    client.finish_sending();
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(open(addr, &committer("t", "g")).1, 3);
}

#[test]
fn an_idle_consumer_gets_heartbeats_and_a_goodbye() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr();
    fill(addr, "t", &[1, 2]);
    let heartbeat_ms = NonZeroU32::new(100);
    let role = Role::Consume { group: None, start: Start::Latest, heartbeat_ms, until_end: false };
    let (mut client, first) = open(addr, &handshake("t", role));
    assert_eq!(first, 2);
    assert_eq!(control(&mut client), ControlFrame::heartbeat(2));
    assert_eq!(control(&mut client), ControlFrame::heartbeat(2));
    fill(addr, "t", &[3]);
    wait_for("the frame", || match next(&mut client) {
        Got::Frame(_) => Some(()),
        Got::Control(control) => {
            assert_eq!(control, ControlFrame::heartbeat(2), "before the frame came");
            None
        }
    });
    assert_eq!(control(&mut client), ControlFrame::heartbeat(3));
    broker.signal(Signal::TERM);
    let last = wait_for("the last word", || {
        Some(control(&mut client)).filter(|control| control.status() != Some(Status::Ok))
    });
    assert_eq!((last.status(), last.offset), (Some(Status::ShuttingDown), 3), "{last:?}");
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn damage_is_told_whether_it_is_skipped_or_not() {
    for skip in [true, false] {
        let (_dir, data) = scratch();
        let broker = StartBroker::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();
        let (mut client, _) = open(broker.addr(), &producer("t", Durability::Topic));
        for number in 0..30u64 {
            client.send(&frame(number, b"", &vec![b'x'; 100_000]));
            assert_eq!(ok(&mut client, AnswerTo::Frame), number);
        }
        broker.terminate();
        // A header in the middle of the first segment, which is sealed.
        let segment = data.join("t_0").join(format!("{:020}.wal", 0));
        let mut bytes = std::fs::read(&segment).unwrap();
        let len = HEADER_LEN + 100_000;
        bytes[3 * len..3 * len + HEADER_LEN].fill(0xee);
        std::fs::write(&segment, bytes).unwrap();
        let mode = if skip { "skip" } else { "disconnect" };
        let broker = StartBroker::on(&data).env("HERMITMQ_STORAGE__ON_CORRUPTION", mode).run();
        wait_for("the damage to be found", || {
            broker.log_text().contains("records are damaged").then_some(())
        });
        let (mut client, _) = open(broker.addr(), &reader("t", None, Start::Earliest));
        let mut seen = Vec::new();
        let told = loop {
            match next(&mut client) {
                Got::Frame(frame) => seen.push(frame.header.offset),
                Got::Control(control) => break control,
            }
        };
        assert_eq!(told.status(), Some(Status::Corrupt), "{told:?}");
        assert!(seen.iter().copied().eq(0..seen.len() as u64), "{seen:?}");
        let behind = support::frames_of(&client.read_to_end());
        if skip {
            assert_eq!(behind[0].header.offset, told.offset);
            assert_eq!(behind.last().unwrap().header.offset, 29);
        } else {
            assert_eq!((told.offset, behind.len()), (seen.len() as u64, 0));
        }
    }
}

#[test]
fn a_group_whose_place_is_gone_is_told_where_it_goes_on() {
    let (_dir, data) = scratch();
    let small = || StartBroker::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();
    let broker = small();
    let (mut client, _) = open(broker.addr(), &producer("t", Durability::Topic));
    for number in 0..30u64 {
        client.send(&frame(number, b"", &vec![b'x'; 100_000]));
        assert_eq!(ok(&mut client, AnswerTo::Frame), number);
    }
    support::commit(broker.addr(), "g", "t", 0, 2);
    broker.terminate();
    let oldest = format!("{:020}.", 0);
    let dir = data.join("t_0");
    for name in support::listing(&dir).iter().filter(|name| name.starts_with(&oldest)) {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    let broker = small();
    let start = Start::Committed(Fallback::Latest);
    let (mut client, first) = open(broker.addr(), &reader("t", Some(group("g")), start));
    assert!(first > 2, "{first}");
    let told = control(&mut client);
    assert_eq!((told.status(), told.offset), (Some(Status::OffsetOutOfRange), first), "{told:?}");
    let frames = support::frames_of(&client.read_to_end());
    assert_eq!((frames[0].header.offset, frames.last().unwrap().header.offset), (first, 29));
    let gone = refused(broker.addr(), &reader("t", None, Start::Offset(2)));
    assert_eq!((gone.status(), gone.value), (Some(Status::OffsetOutOfRange), first));
}

#[test]
fn a_position_inside_a_batch_is_answered_with_its_start() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let (mut client, _) = open(broker.addr(), &producer("t", Durability::Topic));
    let mut batch = frame(1, b"", b"a\nb\nc\n");
    batch[25..29].copy_from_slice(&wire::u32_bytes(3));
    client.send(&[frame(0, b"", b"x"), batch].concat());
    assert_eq!((ok(&mut client, AnswerTo::Frame), ok(&mut client, AnswerTo::Frame)), (0, 1));
    let got = read_all(broker.addr(), &reader("t", None, Start::Offset(3)));
    assert_eq!(got, (1, vec![1]));
}

#[test]
fn both_versions_share_a_topic() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr();
    let mut old = RawClient::produce(addr, "t", 0);
    let (mut new, _) = open(addr, &producer("t", Durability::Topic));
    let mut old_reader = RawClient::consume(addr, "g", "t", 0);
    let role =
        Role::Consume { group: None, start: Start::Latest, heartbeat_ms: None, until_end: false };
    let (mut new_reader, _) = open(addr, &handshake("t", role));
    for number in 0..100 {
        let bytes = frame(number, b"k", b"payload");
        if number % 2 == 0 {
            assert_eq!(old.append(&bytes), number);
        } else {
            new.send(&bytes);
            assert_eq!(ok(&mut new, AnswerTo::Frame), number);
        }
        let seen = old_reader.read_frame();
        assert_eq!((seen.header.offset, seen.as_sent()), (number, bytes));
        assert_eq!(new_reader.read_frame(), seen);
    }
    assert_eq!(drain(addr, "other", "t", 0).len(), 100);
}
