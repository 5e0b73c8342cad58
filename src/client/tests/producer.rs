//! Pipelining, coalescing, deliveries, the window.

use std::sync::mpsc;
use std::time::Duration;

use tokio::time::timeout;

use super::broker::Broker;
use super::{guard, topic, v1_0_producer};
use crate::client::{Producer, ProducerOptions, Record, SendError};
use crate::protocol::Request;

async fn connect(broker: &Broker, options: ProducerOptions) -> Producer {
    Producer::connect(broker.addr(), topic(), 3, options).await.unwrap()
}

#[tokio::test]
async fn frames_are_sent_before_the_first_ack_and_acks_are_matched_in_order() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, v1_0_producer()).await;
        let mut deliveries = Vec::new();
        for i in 0..5 {
            deliveries.push(producer.send(Record::new(format!("r{i}"))).await.unwrap());
        }
        let mut peer = broker.accept().await;
        assert_eq!(peer.request, Request::Produce { topic: topic(), partition: 3 });
        assert_eq!(peer.texts(5).await, ["r0", "r1", "r2", "r3", "r4"]);
        for i in 0..5 {
            peer.ack(100 + i).await;
        }
        for (i, delivery) in (0..).zip(deliveries) {
            assert_eq!(delivery.await, Ok(100 + i));
        }
        producer.close().await;
        assert!(peer.is_closed().await);
    })
    .await;
}

#[tokio::test]
async fn a_record_keeps_its_bytes_key_and_timestamp() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, v1_0_producer()).await;
        let record = Record::new(&b"\n\0\xff"[..]).with_key("k\n").with_timestamp(77);
        let delivery = producer.send(record).await.unwrap();
        drop(producer.send(Record::new("")).await.unwrap());
        let mut peer = broker.accept().await;
        let frame = peer.frame().await.unwrap();
        assert_eq!((&frame.key[..], &frame.payload[..]), (&b"k\n"[..], &b"\n\0\xff"[..]));
        let header = frame.header;
        assert_eq!((header.timestamp, header.offset, header.record_count), (77, 0, 1));
        let empty = peer.frame().await.unwrap();
        assert!(empty.payload.is_empty());
        assert!(empty.header.timestamp > 1_600_000_000_000_000_000, "now, in nanoseconds");
        peer.ack(0).await;
        peer.ack(1).await;
        assert_eq!(delivery.await, Ok(0));
    })
    .await;
}

#[tokio::test]
async fn acks_come_byte_by_byte() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, v1_0_producer()).await;
        let first = producer.send(Record::new("a")).await.unwrap();
        let second = producer.send(Record::new("b")).await.unwrap();
        let mut peer = broker.accept().await;
        peer.texts(2).await;
        for byte in [0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 3] {
            peer.send(&[byte]).await;
            tokio::task::yield_now().await;
        }
        assert_eq!((first.await, second.await), (Ok(0x0102), Ok(0x0103)));
    })
    .await;
}

#[tokio::test]
async fn lingering_records_wait_for_company_and_flush_does_not() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions {
            linger: Duration::from_hours(1),
            batch_bytes: 3 * 30,
            ..v1_0_producer()
        };
        let producer = connect(&broker, options).await;
        let mut peer = broker.accept().await;
        drop(producer.send(Record::new("a")).await.unwrap());
        drop(producer.send(Record::new("b")).await.unwrap());
        assert!(timeout(Duration::from_millis(50), peer.frame()).await.is_err(), "they linger");
        drop(producer.send(Record::new("c")).await.unwrap());
        assert_eq!(peer.texts(3).await, ["a", "b", "c"], "the batch is full");

        drop(producer.send(Record::new("d")).await.unwrap());
        let flush = producer.flush();
        let answers = async {
            assert_eq!(peer.texts(1).await, ["d"]);
            for offset in 0..4 {
                peer.ack(offset).await;
            }
        };
        tokio::join!(flush, answers);
    })
    .await;
}

#[tokio::test]
async fn a_linger_ends_by_itself() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { linger: Duration::from_millis(20), ..v1_0_producer() };
        let producer = connect(&broker, options).await;
        let mut peer = broker.accept().await;
        for text in ["a", "b"] {
            let delivery = producer.send(Record::new(text)).await.unwrap();
            assert_eq!(peer.texts(1).await, [text]);
            peer.ack(0).await;
            assert_eq!(delivery.await, Ok(0));
        }
    })
    .await;
}

#[tokio::test]
async fn callbacks_hear_the_outcome_once_and_in_order() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, v1_0_producer()).await;
        let (sender, receiver) = mpsc::channel();
        for i in 0..3 {
            let sender = sender.clone();
            let callback = move |outcome| sender.send((i, outcome)).unwrap();
            producer.send_with(Record::new("x"), callback).await.unwrap();
        }
        drop(sender);
        let mut peer = broker.accept().await;
        tokio::join!(producer.close(), peer.ack_all(7));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [(0, Ok(7)), (1, Ok(8)), (2, Ok(9))]);
        let closed = producer.send_with(Record::new("x"), |_| panic!("it was not taken")).await;
        assert_eq!(closed, Err(SendError::Closed));
    })
    .await;
}

#[tokio::test]
async fn a_full_window_makes_senders_wait() {
    guard(async {
        let by_frames = ProducerOptions { max_in_flight_frames: 2, ..v1_0_producer() };
        let by_bytes = ProducerOptions { max_in_flight_bytes: 60, ..v1_0_producer() };
        for options in [by_frames, by_bytes] {
            let broker = Broker::start().await;
            let producer = connect(&broker, options).await;
            let mut peer = broker.accept().await;
            drop(producer.send(Record::new("a")).await.unwrap());
            let second = producer.send(Record::new("b")).await.unwrap();
            // 60 bytes are handed over by now.
            let third = producer.send(Record::new("c"));
            tokio::pin!(third);
            let waited = timeout(Duration::from_millis(50), third.as_mut()).await;
            assert!(waited.is_err(), "the window is full");
            assert_eq!(peer.texts(2).await, ["a", "b"]);
            peer.ack(0).await;
            let third = third.await.unwrap();
            assert_eq!(peer.texts(1).await, ["c"]);
            peer.ack(1).await;
            peer.ack(2).await;
            assert_eq!((second.await, third.await), (Ok(1), Ok(2)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_record_larger_than_the_window_passes_and_one_over_the_limit_does_not() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions {
            max_in_flight_bytes: 10,
            max_payload_bytes: 300_000,
            ..v1_0_producer()
        };
        let producer = connect(&broker, options).await;
        let large = vec![7; 300_000];
        let delivery = producer.send(Record::new(large.clone())).await.unwrap();
        let mut peer = broker.accept().await;
        assert_eq!(peer.frame().await.unwrap().payload, large);
        peer.ack(0).await;
        assert_eq!(delivery.await, Ok(0));
        let refused = producer.send(Record::new(vec![7; 300_001])).await;
        assert_eq!(
            refused.err(),
            Some(SendError::PayloadTooLarge { bytes: 300_001, max: 300_000 })
        );
        let refused = producer.send(Record::new("").with_key(vec![0; (1 << 20) + 1])).await;
        assert!(matches!(refused, Err(SendError::KeyTooLarge { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_send_hands_nothing_over() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { max_in_flight_frames: 1, ..v1_0_producer() };
        let producer = connect(&broker, options).await;
        drop(producer.send(Record::new("a")).await.unwrap());
        let callback = |_| panic!("it was not taken");
        let waiting = producer.send_with(Record::new("cancelled"), callback);
        assert!(timeout(Duration::from_millis(30), waiting).await.is_err());
        drop(producer);
        assert_eq!(broker.accept().await.ack_all(0).await, ["a"], "a dropped producer finishes");
    })
    .await;
}
