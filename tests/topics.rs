//! Topics that are created, altered and deleted while clients are connected, over both versions of the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hermitmq::broker::{GroupReset, ResetTo, TopicChange, TopicOptions};
use hermitmq::config::Config;
use hermitmq::metrics::CloseReason;
use hermitmq::model::TopicName;
use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{AnswerTo, Durability, Fallback, NO_COMMIT, Start, write_commit};
use hermitmq::server::Server;
use serde_json::json;
use support::v1_1::{Got, answer, committer, connect, control, follower, group, next, ok, open};
use support::v1_1::{producer, reader, refused};
use support::{Frame, HANG, RawClient, commit, drain, frame, listing, scratch, wait_for};

const MIB: usize = 1024 * 1024;

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn start(data: &Path) -> Server {
    let mut config = Config::default();
    config.admin.listen.clear();
    config.server.port = 0;
    data.clone_into(&mut config.storage.data_dir);
    config.storage.cleanup_interval_min = 1_000_000;
    Server::start(&config).unwrap()
}

fn with_topic(options: serde_json::Value) -> (tempfile::TempDir, PathBuf, Server) {
    let (dir, data) = scratch();
    let server = start(&data);
    let options: TopicOptions = serde_json::from_value(options).unwrap();
    server.broker().create_topic(options).unwrap();
    (dir, data, server)
}

fn delete(server: &Server, name: &str) {
    server.broker().delete_topic(&topic(name)).unwrap();
}

/// Appends records of one byte, over version 1.0.
fn fill(addr: SocketAddr, topic: &str, count: u64) {
    let mut client = RawClient::produce(addr, topic, 0);
    for number in 0..count {
        client.append(&frame(number, b"", b"x"));
    }
}

fn next_frame(client: &mut RawClient) -> Frame {
    match next(client) {
        Got::Frame(frame) => frame,
        Got::Control(control) => panic!("no frame: {control:?}"),
    }
}

#[test]
fn consumers_of_a_deleted_topic_are_told() {
    let (_dir, data, server) = with_topic(json!({"name": "t"}));
    let addr = server.addr();
    fill(addr, "t", 3);
    let (mut waiting, first) = open(addr, &follower("t", Some(group("g")), Start::Earliest));
    assert_eq!(first, 0);
    (0..3).for_each(|offset| assert_eq!(next_frame(&mut waiting).header.offset, offset));
    let mut old = RawClient::consume(addr, "g", "t", 0);
    old.read_frames(3);
    // Another topic's consumers notice nothing.
    server.broker().create_topic(TopicOptions::named(topic("other"))).unwrap();
    let (mut other, _) = open(addr, &follower("other", None, Start::Earliest));

    delete(&server, "t");
    let told = control(&mut waiting);
    assert_eq!((told.status(), told.offset), (Some(Status::TopicDeleted), 3));
    assert!(!told.message.is_empty());
    assert_eq!(waiting.read_to_end(), b"");
    assert_eq!(old.read_to_end(), b"");
    fill(addr, "other", 1);
    assert_eq!(next_frame(&mut other).header.offset, 0);
    wait_for("both to be counted", || {
        (server.metrics().closed.get(CloseReason::TopicDeleted) == 2).then_some(())
    });
    let gone = || listing(&data).iter().all(|name| !name.starts_with(".deleted")).then_some(());
    wait_for("the directory to be removed", gone);
    server.stop().unwrap();
}

#[test]
fn a_consumer_that_takes_nothing_does_not_keep_a_deleted_topic() {
    let (_dir, _data, server) = with_topic(json!({"name": "t"}));
    let mut sender = RawClient::produce(server.addr(), "t", 0);
    for number in 0..32 {
        sender.append(&frame(number, b"", &vec![7; MIB]));
    }
    let (mut stalled, _) = open(server.addr(), &follower("t", None, Start::Earliest));
    assert_eq!(next_frame(&mut stalled).header.offset, 0);
    delete(&server, "t");
    assert_eq!(sender.read_to_end(), b"");
    wait_for("it to be closed", || {
        (server.metrics().closed.get(CloseReason::TopicDeleted) == 2).then_some(())
    });
    server.stop().unwrap();
}

/// A consumer that has not got all there is gets whole frames to the end of a segment, then it is told.
#[test]
fn a_consumer_in_the_middle_of_the_log_gets_whole_frames() {
    let (_dir, _data, server) = with_topic(json!({"name": "t", "max_segment_mb": 8}));
    let addr = server.addr();
    let mut sender = RawClient::produce(addr, "t", 0);
    let payload = vec![7; MIB];
    for number in 0..48 {
        sender.append(&frame(number, b"", &payload));
    }
    let (mut slow, _) = open(addr, &follower("t", None, Start::Earliest));
    assert_eq!(next_frame(&mut slow).header.offset, 0);
    delete(&server, "t");
    let mut got = 1;
    let told = loop {
        match next(&mut slow) {
            Got::Frame(frame) => {
                assert_eq!((frame.header.offset, frame.payload() == payload), (got, true));
                got += 1;
            }
            Got::Control(control) => break control,
        }
    };
    assert_eq!((told.status(), told.offset), (Some(Status::TopicDeleted), got));
    assert!(got < 48, "it does not get all of a topic that is deleted");
    assert_eq!(slow.read_to_end(), b"");
    server.stop().unwrap();
}

#[test]
fn producers_of_a_deleted_topic_are_told_and_it_begins_anew() {
    let (_dir, data, server) = with_topic(json!({"name": "t"}));
    let addr = server.addr();
    let (mut idle, _) = open(addr, &producer("t", Durability::Topic));
    let (mut sends, _) = open(addr, &producer("t", Durability::Flushed));
    sends.send(&frame(1, b"", b"x"));
    assert_eq!(ok(&mut sends, AnswerTo::Frame), 0);
    let mut old = RawClient::produce(addr, "t", 0);
    assert_eq!(old.append(&frame(1, b"", b"x")), 1);
    commit(addr, "g", "t", 0, 2);

    delete(&server, "t");
    for client in [&mut idle, &mut sends] {
        let told = answer(client, AnswerTo::Frame);
        assert_eq!(told.status(), Some(Status::TopicDeleted));
        assert!(!told.message.is_empty());
        assert_eq!(client.read_to_end(), b"");
    }
    assert_eq!(old.read_to_end(), b"");

    let (mut anew, end) = open(addr, &producer("t", Durability::Topic));
    assert_eq!(end, 0);
    anew.send(&frame(9, b"", b"new"));
    assert_eq!(ok(&mut anew, AnswerTo::Frame), 0);
    let check = |addr| {
        // The group has committed nothing of it, which is not 0.
        assert_eq!(open(addr, &committer("t", "g")).1, NO_COMMIT);
        let latest = Start::Committed(Fallback::Latest);
        assert_eq!(open(addr, &reader("t", Some(group("g")), latest)).1, 1);
        let frames = drain(addr, "g", "t", 0);
        assert_eq!((frames.len(), frames[0].payload()), (1, &b"new"[..]));
    };
    check(addr);
    drop(anew);
    server.stop().unwrap();
    let server = start(&data);
    check(server.addr());
    server.stop().unwrap();
    support::assert_verifies(&data, "after a topic was deleted");
}

#[test]
fn committers_of_a_deleted_topic_are_answered_and_end() {
    let (_dir, _data, server) = with_topic(json!({"name": "t"}));
    let addr = server.addr();
    fill(addr, "t", 3);
    let (mut client, _) = open(addr, &committer("t", "g"));
    let mut bytes = Vec::new();
    write_commit(2, &mut bytes);
    client.send(&bytes);
    assert_eq!(ok(&mut client, AnswerTo::Commit), 2);
    let (mut consumer, _) = open(addr, &follower("t", Some(group("g")), Start::Latest));
    delete(&server, "t");
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(control(&mut consumer).status(), Some(Status::TopicDeleted));
    // What it commits after that is not the new topic's.
    consumer.send(&bytes);
    consumer.finish_sending();
    assert_eq!(consumer.read_to_end(), b"");
    fill(addr, "t", 3);
    assert_eq!(open(addr, &committer("t", "g")).1, NO_COMMIT);
    server.stop().unwrap();
}

/// Clients that never stop, while the topic is deleted again and again: every ack is an offset of the topic that it was
/// sent to, and nobody hangs.
#[test]
fn deleting_under_load_leaves_nobody_hanging() {
    let (_dir, _data, server) = with_topic(json!({"name": "t"}));
    let addr = server.addr();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn(move || {
                    let (mut ended, began) = (0, Instant::now());
                    while ended < 5 {
                        assert!(began.elapsed() < HANG, "only {ended} of them ended");
                        let mut client = if number % 2 == 0 {
                            RawClient::produce(addr, "t", 0)
                        } else {
                            connect(addr, &producer("t", Durability::Topic))
                        };
                        // It may be deleted before the handshake is answered.
                        if number % 2 == 1 && !answer(&mut client, AnswerTo::Handshake).is_ok() {
                            continue;
                        }
                        let mut last = None;
                        while client.try_send(&frame(1, b"", b"x")) {
                            let Some(ack) = client.try_read_ack() else { break };
                            if ack.code != 0 {
                                continue;
                            }
                            assert!(
                                last.is_none_or(|last| last < ack.offset),
                                "one topic after all"
                            );
                            last = Some(ack.offset);
                        }
                        ended += 1;
                    }
                })
            })
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            // One that is not there is being created.
            let _ = server.broker().delete_topic(&topic("t"));
            std::thread::sleep(Duration::from_millis(20));
        }
        for client in clients {
            client.join().unwrap();
        }
    });
    server.stop().unwrap();
}

#[test]
fn a_topic_has_its_own_largest_payload() {
    let (_dir, _data, server) = with_topic(json!({"name": "small", "max_payload_mb": 1}));
    let addr = server.addr();
    let broker = server.broker();
    let large = TopicOptions { max_payload_mb: Some(60), ..TopicOptions::named(topic("large")) };
    broker.create_topic(large).unwrap();
    let produce = |name: &str, bytes: usize| {
        let (mut client, _) = open(addr, &producer(name, Durability::Topic));
        client.try_send(&frame(1, b"", &vec![3; bytes]));
        let answer = answer(&mut client, AnswerTo::Frame);
        (answer.status().unwrap(), answer.value)
    };
    assert_eq!(produce("small", MIB), (Status::Ok, 0));
    assert_eq!(produce("small", MIB + 1), (Status::TooLarge, MIB as u64));
    assert_eq!(produce("large", 55 * MIB), (Status::Ok, 0));
    let (mut before, _) = open(addr, &producer("small", Durability::Topic));
    let change: TopicChange = serde_json::from_value(json!({"max_payload_mb": 2})).unwrap();
    broker.alter_topic(&topic("small"), change).unwrap();
    assert_eq!(produce("small", MIB + 1), (Status::Ok, 1));
    // Who was connected keeps what was said at its handshake.
    before.try_send(&frame(1, b"", &vec![3; MIB + 1]));
    assert_eq!(answer(&mut before, AnswerTo::Frame).status(), Some(Status::TooLarge));
    server.stop().unwrap();
}

/// Row 22: the frame in flight ends whole, then the consumer is told where it goes on.
#[test]
fn a_consumer_slower_than_retention_is_told_where_it_goes_on() {
    let (_dir, _data, server) =
        with_topic(json!({"name": "t", "max_segment_mb": 4, "retention_mb": 4}));
    let addr = server.addr();
    let mut sender = RawClient::produce(addr, "t", 0);
    let payload = vec![7; MIB];
    let mut send = |count| (0..count).for_each(|_| _ = sender.append(&frame(1, b"", &payload)));
    send(3);
    let (mut slow, _) = open(addr, &follower("t", None, Start::Earliest));
    let mut old = RawClient::consume(addr, "g", "t", 0);
    assert_eq!((next_frame(&mut slow).header.offset, old.read_frame().header.offset), (0, 0));
    send(57);
    let partition = server.broker().partition(&topic("t"), 0).unwrap();
    wait_for("the flush", || (partition.flushed().until == 60).then_some(()));
    server.broker().retain(&|| false);
    let oldest = partition.start_offset();
    assert!(oldest > 40, "{oldest}");
    let mut expected = 1;
    let mut moved = None;
    while expected < 60 {
        match next(&mut slow) {
            Got::Frame(frame) => {
                assert_eq!((frame.header.offset, frame.payload() == payload), (expected, true));
                expected += 1;
            }
            Got::Control(control) => {
                assert_eq!(control.status(), Some(Status::OffsetOutOfRange));
                assert!(control.message.contains(&expected.to_string()), "{control:?}");
                assert_eq!((control.offset, moved), (oldest, None), "once");
                (expected, moved) = (oldest, Some(expected));
            }
        }
    }
    assert!(moved.is_some_and(|from| from < oldest), "{moved:?}");
    // Version 1.0 has no words for it.
    let mut last = 0;
    while last < 59 {
        let offset = old.read_frame().header.offset;
        assert!(offset == last + 1 || offset == oldest, "{last} {offset}");
        last = offset;
    }
    assert_eq!(server.metrics().readers_moved.get(), 2);
    // One that comes back for what is gone is told where to go on. One that has read nothing has missed nothing.
    for (offset, counted) in [(0, 2), (1, 3), (oldest - 1, 4), (100, 4)] {
        let answer = refused(addr, &follower("t", Some(group("late")), Start::Offset(offset)));
        assert_eq!(answer.status(), Some(Status::OffsetOutOfRange), "{offset}");
        assert_eq!(server.metrics().readers_moved.get(), counted, "{offset}");
    }
    server.stop().unwrap();
}

#[test]
fn consumers_of_a_group_count_as_long_as_they_are_connected() {
    let (_dir, _data, server) = with_topic(json!({"name": "t"}));
    let addr = server.addr();
    fill(addr, "t", 4);
    let broker = server.broker();
    let (mut new, _) = open(addr, &follower("t", Some(group("g")), Start::Earliest));
    let mut old = RawClient::consume(addr, "g", "t", 0);
    old.read_frames(4);
    (0..4).for_each(|_| _ = next_frame(&mut new));
    assert_eq!(broker.describe_group(&group("g")).unwrap().consumers, 2);
    let reset = GroupReset {
        topic: topic("t"),
        partitions: vec![],
        to: ResetTo::Offset(3),
        dry_run: false,
    };
    let refused = broker.reset_group(&group("g"), &reset).unwrap_err().to_string();
    assert!(refused.contains("2 consumers"), "{refused}");
    drop((new, old));
    wait_for("both to leave", || broker.groups().is_empty().then_some(()));
    broker.reset_group(&group("g"), &reset).unwrap();
    assert_eq!(drain(addr, "g", "t", 0)[0].header.offset, 3);
    let mut client = connect(addr, &committer("t", "g"));
    assert_eq!(ok(&mut client, AnswerTo::Handshake), 3);
    commit(addr, "g", "t", 0, 4);
    assert_eq!(broker.describe_group(&group("g")).unwrap().offsets[0].lag, Some(0));
    server.stop().unwrap();
}

/// Row 19: whoever asks for topics without end gets as many as are allowed, and nobody else notices.
#[test]
fn no_more_topics_than_are_allowed() {
    let (_dir, data) = scratch();
    let mut config = Config::default();
    config.admin.listen.clear();
    config.server.port = 0;
    data.clone_into(&mut config.storage.data_dir);
    config.topics.max_topics = 5;
    let server = Server::start(&config).unwrap();
    let addr = server.addr();
    fill(addr, "first", 1);
    let mut made = 0;
    for number in 0..300 {
        let name = format!("t{number}");
        if number % 2 == 0 {
            let mut client = connect(addr, &producer(&name, Durability::Topic));
            let answer = answer(&mut client, AnswerTo::Handshake);
            made += u64::from(answer.is_ok());
            let refused = answer.status() == Some(Status::LimitReached);
            assert!(answer.is_ok() || refused && !answer.message.is_empty(), "{answer:?}");
        } else {
            let mut client = RawClient::produce(addr, &name, 0);
            client.try_send(&frame(1, b"", b"x"));
            made += u64::from(client.try_read_ack().is_some());
        }
    }
    assert_eq!((made, server.broker().topic_count()), (4, 5));
    fill(addr, "first", 1);
    assert_eq!(drain(addr, "g", "first", 0).len(), 2);
    assert_eq!(listing(&data).iter().filter(|name| name.starts_with('t')).count(), 4);
    server.stop().unwrap();
}
