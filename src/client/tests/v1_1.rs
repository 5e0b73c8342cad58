//! What a broker says in protocol 1.1 alone, and what a program hears of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::broker::{Broker, stored};
use super::{group, guard, retry, topic};
use crate::client::{
    ConnectError, ConsumeError, Consumer, ConsumerOptions, DeliveryError, GapReason, GroupConsumer,
    GroupConsumerOptions, Message, Producer, ProducerOptions, Record, RetryPolicy, Share, Start,
};
use crate::protocol::Status;
use crate::protocol::v1_1::{Answer, AnswerTo, ControlFrame, Handshake, Parsed, Role};

/// A connection whose handshake was read.
struct Peer {
    stream: TcpStream,
    handshake: Handshake,
}

async fn accept(broker: &Broker) -> Peer {
    let mut stream = broker.accept_raw().await;
    let mut bytes = Vec::new();
    loop {
        if let Parsed::Complete(handshake, _) = Handshake::parse(&bytes).unwrap() {
            return Peer { stream, handshake };
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "closed during the handshake");
    }
}

impl Peer {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn answer(&mut self, answer: Answer) {
        let mut bytes = Vec::new();
        answer.write(AnswerTo::Handshake, &mut bytes);
        self.send(&bytes).await;
    }

    async fn control(&mut self, status: Status, offset: u64) {
        let mut bytes = Vec::new();
        ControlFrame::new(status, offset, "because").write(&mut bytes);
        self.send(&bytes).await;
    }

    fn start(&self) -> Start {
        match &self.handshake.role {
            Role::Consume { start, .. } => *start,
            role => panic!("{role:?}"),
        }
    }
}

fn options() -> ConsumerOptions {
    ConsumerOptions { retry: retry(60_000), ..ConsumerOptions::default() }
}

/// A consumer that the broker lets begin at `first`.
async fn connect(broker: &Broker, options: ConsumerOptions, first: u64) -> (Consumer, Peer) {
    let serve = async {
        let mut peer = accept(broker).await;
        peer.answer(Answer::ok(first)).await;
        peer
    };
    let connecting = Consumer::connect(broker.addr(), group(), topic(), 3, options);
    let (consumer, peer) = tokio::join!(connecting, serve);
    (consumer.unwrap(), peer)
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_told_apart() {
    guard(async {
        let broker = Broker::start().await;
        let close = async { drop(accept(&broker).await) };
        let connecting = Consumer::connect(broker.addr(), group(), topic(), 0, options());
        let (closed, ()) = tokio::join!(connecting, close);
        assert!(matches!(closed, Err(ConnectError::NoReply { .. })), "{closed:?}");
    })
    .await;
}

#[tokio::test]
async fn gaps_are_told_and_the_next_connection_begins_behind_them() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options(), 5).await;
        assert_eq!(peer.start(), Start::default_of(Some(&group())));
        peer.send(&stored(5, "a")).await;
        peer.control(Status::Corrupt, 9).await;
        assert_eq!(consumer.recv().await.unwrap().offset, 5);
        drop(peer);
        let serve = async {
            let mut peer = accept(&broker).await;
            assert_eq!(peer.start(), Start::Offset(9));
            peer.answer(Answer::error(Status::OffsetOutOfRange, 12, "gone")).await;
            let mut peer = accept(&broker).await;
            assert_eq!(peer.start(), Start::Offset(12));
            peer.answer(Answer::ok(12)).await;
            peer.send(&stored(12, "b")).await;
            peer
        };
        let (message, _peer) = tokio::join!(consumer.recv(), serve);
        assert_eq!(message.unwrap().offset, 12);
        let mut told = || consumer.take_gap().map(|gap| (gap.from, gap.to, gap.reason));
        assert_eq!(told(), Some((Some(6), 9, GapReason::Damaged)));
        assert_eq!(told(), Some((Some(9), 12, GapReason::Deleted)));
        assert_eq!(told(), None);
    })
    .await;
}

#[tokio::test]
async fn damage_that_the_broker_ends_at_is_no_gap() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options(), 5).await;
        peer.send(&stored(5, "a")).await;
        peer.control(Status::Corrupt, 6).await;
        drop(peer);
        assert_eq!(consumer.recv().await.unwrap().offset, 5);
        let refuse = async {
            let mut peer = accept(&broker).await;
            assert_eq!(peer.start(), Start::Offset(6));
            peer.answer(Answer::error(Status::Corrupt, 6, "damaged")).await;
        };
        let (refused, ()) = tokio::join!(consumer.recv(), refuse);
        let Err(ConsumeError::Rejected(refused)) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.status(), Some(Status::Corrupt));
        assert_eq!(consumer.take_gap(), None, "all before it was given");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_topic_ends_the_consumer_and_a_broker_that_goes_down_does_not() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options(), 0).await;
        peer.control(Status::ShuttingDown, 0).await;
        drop(peer);
        let serve = async {
            let mut peer = accept(&broker).await;
            peer.answer(Answer::error(Status::Starting, 0, "recovery")).await;
            let mut peer = accept(&broker).await;
            peer.answer(Answer::ok(0)).await;
            peer.send(&stored(0, "a")).await;
            peer.control(Status::TopicDeleted, 1).await;
        };
        let (message, ()) = tokio::join!(consumer.recv(), serve);
        assert_eq!(message.unwrap().offset, 0);
        assert_eq!(consumer.recv().await, Err(ConsumeError::TopicDeleted("because".into())));
        let refuse = async {
            accept(&broker).await.answer(Answer::error(Status::UnknownTopic, 0, "none")).await;
        };
        let (refused, ()) = tokio::join!(consumer.recv(), refuse);
        let Err(ConsumeError::Rejected(refused)) = refused else { panic!("{refused:?}") };
        assert_eq!((refused.status(), &*refused.message), (Some(Status::UnknownTopic), "none"));
    })
    .await;
}

#[tokio::test]
async fn what_was_stored_before_the_first_record_came_is_not_skipped_by_a_break() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { start: Some(Start::Latest), ..options() };
        let (mut consumer, peer) = connect(&broker, options, 100).await;
        assert_eq!(peer.start(), Start::Latest);
        drop(peer);
        let serve = async {
            let mut peer = accept(&broker).await;
            assert_eq!(peer.start(), Start::Offset(100), "more may be stored by now");
            peer.answer(Answer::ok(100)).await;
            peer.send(&stored(100, "a")).await;
            peer
        };
        let (message, _peer) = tokio::join!(consumer.recv(), serve);
        assert_eq!(message.unwrap().offset, 100);
    })
    .await;
}

#[tokio::test]
async fn a_topic_that_takes_the_name_of_one_deleted_is_read_from_its_beginning() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { start: Some(Start::Latest), ..options() };
        let (mut consumer, mut peer) = connect(&broker, options, 100).await;
        peer.send(&stored(100, "a")).await;
        peer.control(Status::TopicDeleted, 101).await;
        assert_eq!(consumer.recv().await.unwrap().offset, 100);
        assert_eq!(consumer.recv().await, Err(ConsumeError::TopicDeleted("because".into())));
        assert_eq!(consumer.position(), None);
        let serve = async || {
            let mut peer = accept(&broker).await;
            assert_eq!(peer.start(), Start::Earliest);
            peer.answer(Answer::ok(0)).await;
            peer.send(&stored(0, "new")).await;
            peer
        };
        let (message, peer) = tokio::join!(consumer.recv(), serve());
        assert_eq!(message.unwrap().offset, 0);

        // The same if it is deleted while the connection is down.
        drop(peer);
        let refuse = async {
            accept(&broker).await.answer(Answer::error(Status::UnknownTopic, 0, "none")).await;
        };
        let (refused, ()) = tokio::join!(consumer.recv(), refuse);
        assert!(matches!(refused, Err(ConsumeError::Rejected(_))), "{refused:?}");
        let (message, _peer) = tokio::join!(consumer.recv(), serve());
        assert_eq!(message.unwrap().offset, 0);
    })
    .await;
}

/// Gives each further connection a record: a slow one may count as silent, too.
async fn serve_each(broker: &Broker) {
    let mut peers = Vec::new();
    loop {
        let mut peer = accept(broker).await;
        peer.answer(Answer::ok(0)).await;
        peer.send(&stored(0, "a")).await;
        peers.push(peer);
    }
}

#[tokio::test]
async fn a_connection_without_heartbeats_is_made_again() {
    guard(async {
        let broker = Broker::start().await;
        let heartbeat = Some(Duration::from_millis(20));
        let (mut consumer, silent) =
            connect(&broker, ConsumerOptions { heartbeat, ..options() }, 0).await;
        let Role::Consume { heartbeat_ms, .. } = &silent.handshake.role else {
            panic!("a consumer")
        };
        assert_eq!(heartbeat_ms.map(std::num::NonZeroU32::get), Some(20));
        tokio::select! {
            message = consumer.recv() => assert_eq!(message.unwrap().offset, 0),
            () = serve_each(&broker) => unreachable!(),
        }
        drop(silent);
    })
    .await;
}

/// Waits as a program with a short tick does.
async fn recv_by_ticks(consumer: &mut Consumer) -> Message {
    loop {
        match timeout(Duration::from_millis(2), consumer.recv()).await {
            Ok(message) => return message.unwrap(),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Pauses that are longer than any wait of the tests that use it.
fn slow_retry() -> RetryPolicy {
    RetryPolicy { initial_backoff: Duration::from_millis(200), ..RetryPolicy::default() }
}

#[tokio::test]
async fn waits_that_are_dropped_keep_no_consumer_from_connecting_again() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { retry: slow_retry(), ..options() };
        let (mut consumer, peer) = connect(&broker, options, 0).await;
        drop(peer);
        let serve = async {
            let mut peer = accept(&broker).await;
            // It takes longer than a tick to answer, too.
            tokio::time::sleep(Duration::from_millis(50)).await;
            peer.answer(Answer::ok(0)).await;
            peer.send(&stored(0, "a")).await;
            peer
        };
        let (message, _peer) = tokio::join!(recv_by_ticks(&mut consumer), serve);
        assert_eq!(message.offset, 0);
    })
    .await;
}

#[tokio::test]
async fn waits_that_are_dropped_hide_no_silence() {
    guard(async {
        let broker = Broker::start().await;
        let heartbeat = Some(Duration::from_millis(20));
        let (mut consumer, _silent) =
            connect(&broker, ConsumerOptions { heartbeat, ..options() }, 0).await;
        tokio::select! {
            message = recv_by_ticks(&mut consumer) => assert_eq!(message.offset, 0),
            () = serve_each(&broker) => unreachable!(),
        }
    })
    .await;
}

/// A reader of partitions 0 and 1, and the connection of each.
async fn connect_two(broker: &Broker, consumer: ConsumerOptions) -> (GroupConsumer, Peer, Peer) {
    connect_committing(broker, consumer, None).await
}

async fn connect_committing(
    broker: &Broker,
    consumer: ConsumerOptions,
    auto_commit: Option<Duration>,
) -> (GroupConsumer, Peer, Peer) {
    let share = Share::Partitions(vec![0, 1]);
    let options = GroupConsumerOptions { consumer, share, auto_commit, discover: None };
    let serve = async {
        let (mut first, mut second) = (None, None);
        for peer in [&mut first, &mut second] {
            peer.insert(accept(broker).await).answer(Answer::ok(0)).await;
        }
        (first.unwrap(), second.unwrap())
    };
    let connecting = GroupConsumer::connect(broker.addr(), group(), topic(), options);
    let (consumer, (first, second)) = tokio::join!(connecting, serve);
    assert_eq!((first.handshake.partition, second.handshake.partition), (0, 1));
    (consumer.unwrap(), first, second)
}

#[tokio::test]
async fn partitions_take_turns_however_much_one_of_them_has() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { read_bytes: 64, ..options() };
        let (mut consumer, mut first, mut second) = connect_two(&broker, options).await;
        let text = "x".repeat(100);
        let backlog: Vec<u8> = (0..300).flat_map(|offset| stored(offset, &text)).collect();
        first.send(&backlog).await;
        assert_eq!(consumer.recv().await.unwrap().0, 0);
        second.send(&stored(0, "a")).await;
        let mut given = 1;
        while consumer.recv().await.unwrap().0 == 0 {
            given += 1;
        }
        assert!(given < 300, "all of the first partition came before the second had its turn");
    })
    .await;
}

#[tokio::test]
async fn a_partition_connects_again_while_others_give_messages() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { retry: slow_retry(), ..options() };
        let (mut consumer, mut busy, broken) = connect_two(&broker, options).await;
        drop(broken);
        let give = async {
            for offset in 0.. {
                busy.send(&stored(offset, "x")).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let serve = async {
            let mut peer = accept(&broker).await;
            peer.answer(Answer::ok(0)).await;
            peer.send(&stored(0, "a")).await;
            std::future::pending::<()>().await;
        };
        let receive = async { while consumer.recv().await.unwrap().0 != 1 {} };
        tokio::select! {
            () = receive => {}
            () = give => unreachable!(),
            () = serve => unreachable!(),
        }
    })
    .await;
}

#[tokio::test]
async fn partitions_are_committed_at_the_same_time() {
    guard(async {
        let broker = Broker::start().await;
        let never = Duration::from_hours(1);
        let options = ConsumerOptions { commit_timeout: never, ..options() };
        let (mut consumer, mut first, mut second) = connect_two(&broker, options).await;
        for peer in [&mut first, &mut second] {
            peer.send(&stored(0, "a")).await;
        }
        for _ in 0..2 {
            consumer.recv().await.unwrap();
        }
        let serve = async {
            // Neither has its answer before both have asked.
            let mut commits = [accept(&broker).await, accept(&broker).await];
            for peer in &mut commits {
                assert!(matches!(peer.handshake.role, Role::Commit { .. }));
                peer.answer(Answer::ok(0)).await;
                let mut bytes = Vec::new();
                Answer::ok(1).write(AnswerTo::Commit, &mut bytes);
                peer.send(&bytes).await;
            }
            commits
        };
        let (committed, _commits) = tokio::join!(consumer.commit(), serve);
        committed.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_commit_without_an_answer_keeps_no_message_from_waits_that_are_dropped() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { commit_timeout: Duration::from_hours(1), ..options() };
        let each = Some(Duration::ZERO);
        let (mut consumer, mut first, _second) = connect_committing(&broker, options, each).await;
        for offset in 0..3 {
            first.send(&stored(offset, "a")).await;
            let message = loop {
                if let Ok(received) = timeout(Duration::from_millis(5), consumer.recv()).await {
                    break received.unwrap().1;
                }
            };
            assert_eq!(message.offset, offset);
        }
    })
    .await;
}

#[tokio::test]
async fn what_concerns_the_producer_fails_all_at_once() {
    guard(async {
        let broker = Broker::start().await;
        let serve = async {
            let mut peer = accept(&broker).await;
            peer.answer(Answer::ok(0)).await;
            peer
        };
        let options = ProducerOptions { retry: retry(60_000), ..ProducerOptions::default() };
        let connecting = Producer::connect(broker.addr(), topic(), 0, options);
        let (producer, mut peer) = tokio::join!(connecting, serve);
        let producer = producer.unwrap();
        let first = producer.send(Record::new("a")).await.unwrap();
        let second = producer.send(Record::new("b")).await.unwrap();
        let mut bytes = Vec::new();
        Answer::error(Status::ReadOnly, 0, "a flush failed").write(AnswerTo::Frame, &mut bytes);
        peer.send(&bytes).await;
        drop(peer);
        let expected = DeliveryError::Rejected {
            code: Status::ReadOnly.code(),
            message: "a flush failed".into(),
        };
        assert_eq!((first.await, second.await), (Err(expected.clone()), Err(expected)));
    })
    .await;
}

#[tokio::test]
async fn a_producer_that_is_refused_for_good_knocks_no_faster_for_new_records() {
    guard(async {
        let broker = Broker::start().await;
        let never = Duration::from_hours(1);
        let retry = RetryPolicy { initial_backoff: never, max_backoff: never, max_elapsed: never };
        let options = ProducerOptions { retry, ..ProducerOptions::default() };
        let serve = async {
            let mut peer = accept(&broker).await;
            peer.answer(Answer::ok(0)).await;
            peer
        };
        let connecting = Producer::connect(broker.addr(), topic(), 0, options);
        let (producer, mut peer) = tokio::join!(connecting, serve);
        let producer = producer.unwrap();
        let refused = producer.send(Record::new("a")).await.unwrap();
        let mut bytes = Vec::new();
        Answer::error(Status::Unauthorized, 0, "not you").write(AnswerTo::Frame, &mut bytes);
        peer.send(&bytes).await;
        assert!(matches!(refused.await, Err(DeliveryError::Rejected { .. })));
        let _waits = producer.send(Record::new("b")).await.unwrap();
        let knock = timeout(Duration::from_millis(200), accept(&broker)).await;
        assert!(knock.is_err(), "the pause is an hour");
    })
    .await;
}
