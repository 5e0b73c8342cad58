//! The SDK against a real broker, over protocol 1.1: what a program sees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::StreamExt as _;
use hermitmq::client::{
    CommitError, Committer, ConnectError, ConnectOptions, ConsumeError, Consumer, ConsumerOptions,
    DeliveryError, Durability, Fallback, GapReason, GroupConsumer, GroupConsumerOptions, Producer,
    ProducerOptions, Protocol, Record, RetryPolicy, Share, Start, Status, TopicProducer, blocking,
    offset_of, partition_count, partition_of_key,
};
use hermitmq::model::{GroupName, TopicName};
use serde_json::Value;
use support::{Broker, HANG, Start as BrokerStart, scratch_in_memory};

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

/// A broker with topics of three partitions.
fn broker(data: &std::path::Path) -> Broker {
    BrokerStart::on(data).arg("--set").arg("topics.default_partitions=3").run()
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANG, test).await.expect("the test hangs") })
}

/// Gives up soon: for what is refused for good, or is not there.
fn impatient() -> RetryPolicy {
    RetryPolicy { max_elapsed: Duration::from_millis(300), ..RetryPolicy::default() }
}

async fn produce(addr: &str, name: &str, partition: u32, texts: &[&'static str]) {
    let options = ProducerOptions::default();
    let producer = Producer::connect(addr, topic(name), partition, options).await.unwrap();
    for text in texts {
        producer.send(Record::new(*text)).await.unwrap().await.unwrap();
    }
    producer.close().await;
}

async fn consume(addr: &str, start: Start) -> Result<Vec<(u64, String)>, ConnectError> {
    let options =
        ConsumerOptions { start: Some(start), until_end: true, ..ConsumerOptions::default() };
    let mut consumer = Consumer::connect(addr, None, topic("t"), 0, options).await?;
    let mut received = Vec::new();
    loop {
        match consumer.recv().await {
            Ok(message) => {
                let text = String::from_utf8(message.payload.to_vec()).unwrap();
                received.push((message.offset, text));
            }
            Err(ConsumeError::End) => return Ok(received),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_consumer_begins_where_it_is_told_and_ends_with_the_log() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        let producer =
            Producer::connect(&addr, topic("t"), 0, ProducerOptions::default()).await.unwrap();
        for (text, at) in [("a", 10), ("b", 20), ("c", 30), ("d", 40)] {
            let sent = producer.send(Record::new(text).with_timestamp(at)).await.unwrap();
            sent.await.unwrap();
        }
        let all: Vec<_> =
            (0..).zip(["a", "b", "c", "d"]).map(|(n, text)| (n, text.to_owned())).collect();
        assert_eq!(consume(&addr, Start::Earliest).await.unwrap(), all);
        assert_eq!(consume(&addr, Start::Latest).await.unwrap(), []);
        assert_eq!(consume(&addr, Start::Offset(2)).await.unwrap(), all[2..]);
        assert_eq!(consume(&addr, Start::Offset(4)).await.unwrap(), []);
        assert_eq!(consume(&addr, Start::Timestamp(25)).await.unwrap(), all[2..]);
        let refused = consume(&addr, Start::Offset(5)).await.unwrap_err();
        let ConnectError::Refused(refused) = refused else { panic!("{refused}") };
        assert_eq!((refused.status(), refused.value), (Some(Status::OffsetOutOfRange), 4));
        let options = ConnectOptions::default();
        let of = async |start| offset_of(&addr, &topic("t"), 0, start, &options).await.unwrap();
        assert_eq!((of(Start::Earliest).await, of(Start::Latest).await), (0, 4));
        assert_eq!(of(Start::Timestamp(40)).await, 3);
        producer.close().await;
    });
}

#[test]
fn commits_are_confirmed_or_cheap_and_a_wrong_one_is_told() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        produce(&addr, "t", 0, &["a", "b", "c"]).await;
        let new = |name| {
            Committer::new(addr.as_str(), group(name), topic("t"), 0, ConnectOptions::default())
        };
        let mut committer = new("g");
        assert_eq!(committer.committed().await.unwrap(), None);
        committer.commit(0).await.unwrap();
        assert_eq!(committer.committed().await.unwrap(), Some(0), "no commit is not commit 0");
        committer.commit(2).await.unwrap();
        let beyond = committer.commit(9).await.unwrap_err();
        let CommitError::Rejected(refused) = beyond else { panic!("{beyond}") };
        assert_eq!((refused.status(), refused.value), (Some(Status::OffsetOutOfRange), 3));
        assert_eq!(new("g").committed().await.unwrap(), Some(2));

        let options = ConsumerOptions::default();
        let connect =
            || Consumer::connect(addr.as_str(), group("g"), topic("t"), 0, options.clone());
        let mut consumer = connect().await.unwrap();
        let message = consumer.recv().await.unwrap();
        assert_eq!(message.offset, 2);
        consumer.commit_unconfirmed(message.next_offset).await.unwrap();
        let mut observer = new("g");
        while observer.committed().await.unwrap() != Some(3) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        consumer.commit_offset(1).await.unwrap();
        let mut again = connect().await.unwrap();
        assert_eq!(again.recv().await.unwrap().offset, 1, "a group can go back");

        let start = Some(Start::Committed(Fallback::Latest));
        let options = ConsumerOptions { start, until_end: true, ..ConsumerOptions::default() };
        let mut late =
            Consumer::connect(addr.as_str(), group("new"), topic("t"), 0, options).await.unwrap();
        assert_eq!(late.position(), Some(3));
        assert_eq!(late.recv().await, Err(ConsumeError::End));
        let mut alone =
            Consumer::connect(addr.as_str(), None, topic("t"), 0, ConsumerOptions::default())
                .await
                .unwrap();
        assert!(matches!(alone.commit_offset(1).await, Err(CommitError::NoGroup)));
    });
}

#[test]
fn refusals_have_a_reason() {
    let (_dir, data) = scratch_in_memory();
    let broker = BrokerStart::on(&data).arg("--set").arg("topics.auto_create=false").run();
    let addr = broker.addr().to_string();
    block_on(async {
        let options = ProducerOptions { retry: impatient(), ..ProducerOptions::default() };
        let refused = Producer::connect(&addr, topic("t"), 0, options.clone()).await.unwrap_err();
        let ConnectError::Refused(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused.status(), Some(Status::UnknownTopic));
        assert!(refused.message.contains('t') && !refused.is_transient(), "{}", refused.message);
        let reserved =
            Producer::connect(&addr, topic("__consumer_offsets"), 0, options).await.unwrap_err();
        let ConnectError::Refused(reserved) = reserved else { panic!("{reserved}") };
        assert_eq!(reserved.status(), Some(Status::ReservedTopic));
        let unknown = partition_count(&addr, &topic("t"), &ConnectOptions::default()).await;
        assert!(matches!(unknown, Err(ConnectError::Refused(_))), "{unknown:?}");
    });
}

#[test]
fn a_record_that_is_too_large_fails_alone_and_says_so() {
    let (_dir, data) = scratch_in_memory();
    let broker = BrokerStart::on(&data).arg("--set").arg("security.max_payload_mb=1").run();
    let addr = broker.addr().to_string();
    block_on(async {
        let options = ProducerOptions { max_payload_bytes: u32::MAX, ..ProducerOptions::default() };
        let producer = Producer::connect(&addr, topic("t"), 0, options).await.unwrap();
        let before = producer.send(Record::new("before")).await.unwrap();
        let large = producer.send(Record::new(vec![b'x'; 2 << 20])).await.unwrap();
        let behind = producer.send(Record::new("behind")).await.unwrap();
        assert_eq!(before.await, Ok(0));
        let Err(DeliveryError::Rejected { code, message }) = large.await else { panic!("stored") };
        assert_eq!(Status::from_code(code), Some(Status::TooLarge));
        assert!(message.contains("2097152"), "{message}");
        assert_eq!(behind.await, Ok(1));
        producer.close().await;
    });
}

#[test]
fn what_version_1_0_cannot_say_is_an_error_before_anything_is_sent() {
    block_on(async {
        let connect = ConnectOptions { protocol: Protocol::V1_0, ..ConnectOptions::default() };
        let of = |options: ConsumerOptions| async {
            let group = Some(group("g"));
            Consumer::connect("127.0.0.1:1", group, topic("t"), 0, options).await.unwrap_err()
        };
        let plain = ConsumerOptions { connect: connect.clone(), ..ConsumerOptions::default() };
        let later = ConsumerOptions { start: Some(Start::Latest), ..plain.clone() };
        assert!(matches!(of(later).await, ConnectError::NotIn1_0(_)));
        let ending = ConsumerOptions { until_end: true, ..plain.clone() };
        assert!(matches!(of(ending).await, ConnectError::NotIn1_0(_)));
        let alone = Consumer::connect("127.0.0.1:1", None, topic("t"), 0, plain).await.unwrap_err();
        assert!(matches!(alone, ConnectError::NotIn1_0(_)));
        let options = ProducerOptions { connect: connect.clone(), ..ProducerOptions::default() };
        let spread = TopicProducer::connect("127.0.0.1:1", topic("t"), options).await.unwrap_err();
        let count = partition_count("127.0.0.1:1", &topic("t"), &connect).await.unwrap_err();
        for error in [spread, count] {
            assert_eq!(error.to_string(), "protocol 1.0 has no number of partitions");
        }
        let flushed = ProducerOptions {
            connect,
            durability: Durability::Flushed,
            ..ProducerOptions::default()
        };
        let producer = Producer::connect("127.0.0.1:1", topic("t"), 0, flushed).await.unwrap_err();
        assert!(matches!(producer, ConnectError::NotIn1_0(_)));
    });
}

#[test]
fn clients_of_both_versions_share_a_topic() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        let connect = ConnectOptions { protocol: Protocol::V1_0, ..ConnectOptions::default() };
        let old = ProducerOptions { connect: connect.clone(), ..ProducerOptions::default() };
        let old = Producer::connect(&addr, topic("t"), 0, old).await.unwrap();
        old.send(Record::new("old")).await.unwrap().await.unwrap();
        let flushed =
            ProducerOptions { durability: Durability::Flushed, ..ProducerOptions::default() };
        let new = Producer::connect(&addr, topic("t"), 0, flushed).await.unwrap();
        new.send(Record::new("new")).await.unwrap().await.unwrap();
        let options = ConsumerOptions { connect, ..ConsumerOptions::default() };
        let mut consumer =
            Consumer::connect(addr.as_str(), group("g"), topic("t"), 0, options).await.unwrap();
        assert_eq!(&consumer.recv().await.unwrap().payload[..], b"old");
        let second = consumer.recv().await.unwrap();
        assert_eq!(&second.payload[..], b"new");
        consumer.commit(&second).await.unwrap();
        let mut next =
            Consumer::connect(addr.as_str(), group("g"), topic("t"), 0, ConsumerOptions::default())
                .await
                .unwrap();
        assert_eq!(next.position(), Some(2), "a commit of 1.0 counts in 1.1");
        old.send(Record::new("third")).await.unwrap().await.unwrap();
        assert_eq!(next.recv().await.unwrap().offset, 2);
    });
}

#[test]
fn keys_keep_their_partition_and_the_rest_is_spread() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        let producer =
            TopicProducer::connect(&addr, topic("t"), ProducerOptions::default()).await.unwrap();
        assert_eq!(producer.partitions(), 3);
        let three = NonZeroU32::new(3).unwrap();
        for n in 0..60 {
            let key = format!("key-{}", n % 10);
            let record = Record::new(format!("{n}")).with_key(key.clone());
            let (partition, stored) = producer.send(record).await.unwrap();
            assert_eq!(partition, partition_of_key(key.as_bytes(), three));
            stored.await.unwrap();
        }
        let mut spread = BTreeMap::new();
        for _ in 0..30 {
            let (partition, _) = producer.send(Record::new("x")).await.unwrap();
            *spread.entry(partition).or_insert(0) += 1;
        }
        assert_eq!(spread, BTreeMap::from([(0, 10), (1, 10), (2, 10)]));
        producer.close().await;
        assert_eq!(
            partition_count(&addr, &topic("t"), &ConnectOptions::default()).await.unwrap(),
            3
        );
        let mut ends = 0;
        for partition in 0..3 {
            let options = ConnectOptions::default();
            ends +=
                offset_of(&addr, &topic("t"), partition, Start::Latest, &options).await.unwrap();
        }
        assert_eq!(ends, 90);
    });
}

/// What one member of `of` gets of the topic, up to its end.
async fn member(addr: &str, member: u32, of: u32) -> BTreeSet<(u32, u64)> {
    let consumer = ConsumerOptions { until_end: true, ..ConsumerOptions::default() };
    let of = NonZeroU32::new(of).unwrap();
    let options = GroupConsumerOptions {
        consumer,
        share: Share::Member { member, of },
        ..GroupConsumerOptions::default()
    };
    let mut consumer = GroupConsumer::connect(addr, group("g"), topic("t"), options).await.unwrap();
    let mut received = BTreeSet::new();
    loop {
        match consumer.recv().await {
            Ok((partition, message)) => assert!(received.insert((partition, message.offset))),
            Err(error) if error.source == ConsumeError::End => break,
            Err(error) => panic!("{error}"),
        }
    }
    consumer.close().await.unwrap();
    received
}

#[test]
fn members_share_the_partitions_and_go_on_where_they_were() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        for partition in 0..3 {
            produce(&addr, "t", partition, &["a", "b", "c", "d"][..2 + partition as usize]).await;
        }
        let (even, odd) = tokio::join!(member(&addr, 0, 2), member(&addr, 1, 2));
        let expected = |partitions: &[u32]| {
            let of = |&p: &u32| (0..2 + u64::from(p)).map(move |offset| (p, offset));
            partitions.iter().flat_map(of).collect::<BTreeSet<_>>()
        };
        assert_eq!((even, odd), (expected(&[0, 2]), expected(&[1])));
        // What was handled is committed: another split of the group gets what is new alone.
        produce(&addr, "t", 1, &["e"]).await;
        assert_eq!(member(&addr, 0, 1).await, BTreeSet::from([(1, 3)]));
    });
}

#[test]
fn a_program_that_dies_gets_what_it_had_not_handled_again() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        produce(&addr, "t", 0, &["a", "b", "c"]).await;
        let options = GroupConsumerOptions {
            share: Share::Partitions(vec![0]),
            auto_commit: Some(Duration::ZERO),
            ..GroupConsumerOptions::default()
        };
        let connect =
            || GroupConsumer::connect(addr.as_str(), group("g"), topic("t"), options.clone());
        let mut first = connect().await.unwrap();
        assert_eq!(first.recv().await.unwrap().1.offset, 0);
        // Asked for the next one, so the first is handled; the second is not.
        assert_eq!(first.recv().await.unwrap().1.offset, 1);
        drop(first);
        let mut second = connect().await.unwrap();
        assert_eq!(second.recv().await.unwrap().1.offset, 1);
    });
}

#[test]
fn what_retention_took_is_a_gap_and_the_consumer_goes_on() {
    let (_dir, data) = scratch_in_memory();
    let start = || BrokerStart::on(&data).arg("--set").arg("storage.max_segment_mb=1");
    let broker = start().run();
    let addr = broker.addr().to_string();
    block_on(async {
        let options = ConnectOptions::default();
        let mut committer =
            Committer::new(addr.as_str(), group("g"), topic("t"), 0, options.clone());
        let producer =
            Producer::connect(&addr, topic("t"), 0, ProducerOptions::default()).await.unwrap();
        for _ in 0..40 {
            producer.send(Record::new(vec![b'x'; 100_000])).await.unwrap().await.unwrap();
        }
        committer.commit(1).await.unwrap();
        producer.close().await;
    });
    let (status, _) = broker.terminate();
    assert!(status.success());
    // As retention leaves it.
    let partition = data.join("t_0");
    for extension in ["wal", "idx", "sum"] {
        std::fs::remove_file(partition.join(format!("{:020}.{extension}", 0))).unwrap();
    }
    let broker = start().run();
    let addr = broker.addr().to_string();
    block_on(async {
        let options = ConsumerOptions::default();
        let mut consumer =
            Consumer::connect(addr.as_str(), group("g"), topic("t"), 0, options).await.unwrap();
        let first = consumer.recv().await.unwrap();
        assert!(first.offset > 1);
        let gap = consumer.take_gap().expect("a gap");
        assert_eq!((gap.to, gap.reason), (first.offset, GapReason::Deleted));
        assert_eq!(consumer.take_gap(), None);
    });
}

#[test]
fn a_consumer_goes_on_over_a_restart_without_a_repetition() {
    let (_dir, data) = scratch_in_memory();
    let first = broker(&data);
    let addr = first.addr();
    block_on(async {
        produce(&addr.to_string(), "t", 0, &["a", "b"]).await;
        let options = ConsumerOptions::default();
        let mut consumer =
            Consumer::connect(addr.to_string(), group("g"), topic("t"), 0, options).await.unwrap();
        assert_eq!(consumer.recv().await.unwrap().offset, 0);
        assert_eq!(consumer.recv().await.unwrap().offset, 1);
        assert!(first.terminate().0.success());
        // Nothing was committed: a new consumer of the group would begin with the oldest.
        let second = BrokerStart::on(&data).port(addr.port()).run();
        produce(&second.addr().to_string(), "t", 0, &["c"]).await;
        assert_eq!(consumer.recv().await.unwrap().offset, 2);
    });
}

#[test]
fn a_look_for_partitions_is_nothing_that_an_operator_reads_about() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        let options = ConnectOptions::default();
        assert_eq!(partition_count(&addr, &topic("t"), &options).await.unwrap(), 3);
    });
    let warnings: Vec<_> = broker.lines_at("WARN").iter().map(|line| line.get("message")).collect();
    assert_eq!(warnings, [""; 0]);
    // One of 1.0 is told nothing: its operator is.
    let raw = support::RawClient::produce(broker.addr(), "t", 7);
    drop(raw);
    support::wait_for("the warning", || {
        broker
            .lines_at("WARN")
            .into_iter()
            .find(|line| line.get("detail").contains("no partition 7"))
    });
}

#[test]
fn messages_are_a_stream_from_which_the_consumer_comes_back() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        produce(&addr, "t", 0, &["a", "b"]).await;
        let options = ConsumerOptions::default();
        let consumer =
            Consumer::connect(&addr, group("g"), topic("t"), 0, options.clone()).await.unwrap();
        let mut messages = consumer.into_stream();
        let payload = |message: Option<Result<hermitmq::client::Message, ConsumeError>>| {
            String::from_utf8(message.unwrap().unwrap().payload.to_vec()).unwrap()
        };
        let first = messages.next().await.unwrap().unwrap();
        assert_eq!(first.offset, 0);
        messages.consumer().await.unwrap().commit(&first).await.unwrap();
        assert_eq!(payload(messages.next().await), "b");

        // While the stream waits at the end of the log, the consumer can be had all the same, again and again.
        assert!(futures_util::poll!(messages.next()).is_pending());
        for offset in [2, 1] {
            messages.consumer().await.unwrap().commit_offset(offset).await.unwrap();
            assert!(futures_util::poll!(messages.next()).is_pending());
        }
        let mut committer =
            Committer::new(&addr, group("g"), topic("t"), 0, ConnectOptions::default());
        assert_eq!(committer.committed().await.unwrap(), Some(1));
        // A stale call back loses no message either.
        produce(&addr, "t", 0, &["c", "d"]).await;
        messages.consumer().await.unwrap();
        assert_eq!(payload(messages.next().await), "c");
        messages.consumer().await.unwrap();
        assert_eq!(payload(messages.next().await), "d");

        // With an end, the stream ends.
        let options = ConsumerOptions { until_end: true, ..options };
        let consumer = Consumer::connect(&addr, None, topic("t"), 0, options).await.unwrap();
        let all: Vec<_> =
            consumer.into_stream().map(|message| payload(Some(message))).collect().await;
        assert_eq!(all, ["a", "b", "c", "d"]);
    });
}

#[test]
fn without_a_runtime_a_topic_is_written_and_read_as_well() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    let producer =
        blocking::TopicProducer::connect(&addr, topic("t"), ProducerOptions::default()).unwrap();
    let deliveries = ["a", "b", "c", "d"].map(|text| producer.send(Record::new(text)).unwrap().1);
    producer.flush();
    for delivery in deliveries {
        delivery.wait().unwrap();
    }
    let (partition, delivery) = producer.send(Record::new("e").with_key("k")).unwrap();
    assert_eq!(partition, partition_of_key(b"k", NonZeroU32::new(3).unwrap()));
    delivery.wait().unwrap();
    let (sender, outcomes) = mpsc::channel();
    let callback = move |outcome| sender.send(outcome).unwrap();
    producer.send_with(Record::new("f").with_key("k"), callback).unwrap();
    outcomes.recv().unwrap().unwrap();
    // Within a runtime another one cannot be entered: while there is room in the window it is not.
    let (_, delivery) = block_on(async { producer.send(Record::new("g").with_key("k")) }).unwrap();
    delivery.wait().unwrap();
    producer.close();

    let consumer = || {
        let consumer = ConsumerOptions { until_end: true, ..ConsumerOptions::default() };
        let options = GroupConsumerOptions { consumer, ..GroupConsumerOptions::default() };
        blocking::GroupConsumer::connect(&addr, group("g"), topic("t"), options).unwrap()
    };
    let mut first = consumer();
    let mut received = BTreeSet::new();
    while let Ok((_, message)) = first.recv() {
        received.insert(message.payload);
    }
    assert_eq!(received.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f", "g"]);
    first.close().unwrap();
    let error = consumer().recv().unwrap_err();
    assert_eq!(error.source, ConsumeError::End, "all of it is committed");
}

#[test]
fn a_group_reads_a_stream_of_all_partitions() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let addr = broker.addr().to_string();
    block_on(async {
        for partition in 0..3 {
            produce(&addr, "t", partition, &["a", "b"]).await;
        }
        let consumer = ConsumerOptions { until_end: true, ..ConsumerOptions::default() };
        let options = GroupConsumerOptions { consumer, ..GroupConsumerOptions::default() };
        let consumer =
            GroupConsumer::connect(&addr, group("g"), topic("t"), options).await.unwrap();
        let mut messages = consumer.into_stream();
        let mut received = Vec::new();
        while let Some(message) = messages.next().await {
            let (partition, message) = message.unwrap();
            received.push((partition, message.offset));
        }
        received.sort_unstable();
        assert_eq!(received, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
        messages.consumer().await.unwrap().commit().await.unwrap();
        for partition in 0..3 {
            let options = ConnectOptions::default();
            let mut committer = Committer::new(&addr, group("g"), topic("t"), partition, options);
            assert_eq!(committer.committed().await.unwrap(), Some(2));
        }
    });
}

#[test]
fn a_partition_that_comes_later_is_read_from_its_first_record() {
    let (_dir, data) = scratch_in_memory();
    let broker = BrokerStart::on(&data).with_admin().run();
    let addr = broker.addr().to_string();
    block_on(async {
        produce(&addr, "t", 0, &["before"]).await;
        let start = Some(Start::Latest);
        let options = GroupConsumerOptions {
            consumer: ConsumerOptions { start, ..ConsumerOptions::default() },
            discover: Some(Duration::from_millis(10)),
            ..GroupConsumerOptions::default()
        };
        let mut consumer =
            GroupConsumer::connect(&addr, group("g"), topic("t"), options).await.unwrap();
        let two = serde_json::json!({ "partitions": 2 });
        let grown = support::http::send(broker.admin(), "PATCH", "/api/v1/topics/t", &two);
        assert_eq!(grown.status, 200, "{grown:?}");
        produce(&addr, "t", 1, &["first"]).await;
        let (partition, message) = consumer.recv().await.unwrap();
        assert_eq!((partition, &message.payload[..]), (1, &b"first"[..]));
    });
}

#[test]
fn what_was_given_of_a_deleted_topic_is_not_committed_into_the_next() {
    let (_dir, data) = scratch_in_memory();
    let broker = BrokerStart::on(&data).with_admin().run();
    let addr = broker.addr().to_string();
    block_on(async {
        produce(&addr, "t", 0, &["a", "b"]).await;
        let options = GroupConsumerOptions { auto_commit: None, ..GroupConsumerOptions::default() };
        let mut consumer =
            GroupConsumer::connect(&addr, group("g"), topic("t"), options).await.unwrap();
        for offset in 0..2 {
            assert_eq!(consumer.recv().await.unwrap().1.offset, offset);
        }
        let deleted =
            support::http::send(broker.admin(), "DELETE", "/api/v1/topics/t", &Value::Null);
        assert!(deleted.status < 300, "{deleted:?}");
        let error = consumer.recv().await.unwrap_err();
        assert!(matches!(error.source, ConsumeError::TopicDeleted(_)), "{error}");
        produce(&addr, "t", 0, &["new", "newer", "newest"]).await;
        consumer.commit().await.unwrap();
        let mut committer =
            Committer::new(&addr, group("g"), topic("t"), 0, ConnectOptions::default());
        assert_eq!(committer.committed().await.unwrap(), None);
        assert_eq!(&consumer.recv().await.unwrap().1.payload[..], b"new");
    });
}

/// A topic of three partitions with a record in each, the first of them damaged.
fn damaged(data: &std::path::Path) -> Broker {
    let first = broker(data);
    block_on(async {
        for partition in 0..3 {
            produce(&first.addr().to_string(), "t", partition, &["a"]).await;
        }
    });
    assert!(first.terminate().0.success());
    let log = data.join("t_0").join(format!("{:020}.wal", 0));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[0] ^= 0xFF;
    std::fs::write(&log, bytes).unwrap();
    broker(data)
}

#[test]
fn a_damaged_partition_keeps_no_group_from_the_others() {
    let (_dir, data) = scratch_in_memory();
    let broker = damaged(&data);
    block_on(async {
        let options = GroupConsumerOptions::default();
        let addr = broker.addr().to_string();
        let mut consumer =
            GroupConsumer::connect(addr, group("g"), topic("t"), options).await.unwrap();
        let (mut received, mut failed) = (BTreeSet::new(), None);
        while received.len() < 2 || failed.is_none() {
            match consumer.recv().await {
                Ok((partition, _)) => assert!(received.insert(partition)),
                Err(error) => failed = Some(error),
            }
        }
        let failed = failed.unwrap();
        let ConsumeError::Rejected(refused) = &failed.source else { panic!("{failed}") };
        assert_eq!((failed.partition, refused.status()), (0, Some(Status::Corrupt)));
        assert_eq!(received, BTreeSet::from([1, 2]));

        let options = GroupConsumerOptions {
            share: Share::Partitions(vec![0]),
            ..GroupConsumerOptions::default()
        };
        let alone = GroupConsumer::connect(broker.addr().to_string(), None, topic("t"), options);
        assert!(matches!(alone.await, Err(ConnectError::Refused(_))), "there is nothing to read");
    });
}

#[test]
fn the_command_prints_what_is_not_damaged_and_fails() {
    let (_dir, data) = scratch_in_memory();
    let broker = damaged(&data);
    let addr = broker.addr().to_string();
    let command = support::hermitmq(&["consume", "t", "--broker", &addr, "--until-end"]);
    let output = support::run_to_end(command, Vec::new());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\na\n", "{errors}");
    assert!(!output.status.success() && errors.contains("partition 0"), "{errors}");
}
