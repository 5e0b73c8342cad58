//! Decoding, batches, breaks in the middle of a frame, bad data.

use std::time::Duration;

use tokio::time::timeout;

use super::broker::{Broker, Peer, batch, stored};
use super::{group, guard, retry, topic, v1_0_consumer};
use crate::client::{ConsumeError, Consumer, ConsumerOptions, Message};
use crate::protocol::Request;
use crate::record::{FrameBuilder, Header, MAGIC_V1};

fn options() -> ConsumerOptions {
    ConsumerOptions { retry: retry(60_000), ..v1_0_consumer() }
}

async fn connect(broker: &Broker, options: ConsumerOptions) -> (Consumer, Peer) {
    let consumer = Consumer::connect(broker.addr(), group(), topic(), 3, options).await.unwrap();
    (consumer, broker.accept().await)
}

fn text(message: &Message) -> (u64, &str) {
    (message.offset, std::str::from_utf8(&message.payload).unwrap())
}

async fn next(consumer: &mut Consumer) -> (u64, String) {
    let message = consumer.recv().await.unwrap();
    let (offset, text) = text(&message);
    (offset, text.to_owned())
}

#[tokio::test]
async fn messages_come_with_all_that_was_stored() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        let request = Request::Consume { group: group(), topic: topic(), partition: 3 };
        assert_eq!(peer.request, request);
        let mut frame = Vec::new();
        FrameBuilder::new(55).key(b"k").offset(9).write(b"\0\n", &mut frame).unwrap();
        peer.send(&frame).await;
        let message = consumer.recv().await.unwrap();
        assert_eq!((&message.key[..], &message.payload[..]), (&b"k"[..], &b"\0\n"[..]));
        assert_eq!((message.timestamp, message.offset, message.next_offset), (55, 9, 10));
        assert_eq!(message.record_count, 1);
        assert_eq!(consumer.try_next(), Ok(None));
    })
    .await;
}

#[tokio::test]
async fn what_is_buffered_is_taken_without_waiting() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        let frames: Vec<u8> = (0..100).flat_map(|i| stored(i, "x")).collect();
        peer.send(&frames).await;
        let mut offsets = vec![consumer.recv().await.unwrap().offset];
        while let Some(message) = consumer.try_next().unwrap() {
            offsets.push(message.offset);
        }
        assert!(offsets.len() > 1, "one read brings many");
        while offsets.len() < 100 {
            offsets.push(consumer.recv().await.unwrap().offset);
        }
        assert_eq!(offsets, (0..100).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn batches_are_split_where_their_records_show() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        peer.send(&batch(4, "a\n\nc\n", 3)).await;
        peer.send(&batch(7, "opaque", 5)).await;
        peer.send(&batch(12, "line\n", 1)).await;
        for (offset, text) in [(4, "a"), (5, ""), (6, "c")] {
            let message = consumer.recv().await.unwrap();
            assert_eq!((message.offset, &message.payload[..]), (offset, text.as_bytes()));
            assert_eq!((message.record_count, message.next_offset), (1, offset + 1));
            assert_eq!(message.timestamp, 1004);
        }
        let whole = consumer.recv().await.unwrap();
        assert_eq!((text(&whole), whole.record_count), ((7, "opaque"), 5));
        assert_eq!(whole.next_offset, 12);
        assert_eq!(next(&mut consumer).await, (12, "line\n".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn batches_stay_whole_if_asked_for() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { split_batches: false, ..options() };
        let (mut consumer, mut peer) = connect(&broker, options).await;
        peer.send(&batch(4, "a\nb\nc\n", 3)).await;
        let whole = consumer.recv().await.unwrap();
        assert_eq!((text(&whole), whole.record_count), ((4, "a\nb\nc\n"), 3));
        assert_eq!(whole.next_offset, 7);
    })
    .await;
}

#[tokio::test]
async fn frames_come_byte_by_byte_and_recv_is_cancelled_all_the_while() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        let frames = [stored(0, "first"), batch(1, "a\nb\n", 2), stored(3, "")].concat();
        let mut received = Vec::new();
        for byte in frames {
            peer.send(&[byte]).await;
            // Most of these are dropped while they wait, some after the byte was read.
            while let Ok(message) = timeout(Duration::from_millis(1), consumer.recv()).await {
                received.push(message.unwrap());
            }
        }
        while received.len() < 4 {
            received.push(consumer.recv().await.unwrap());
        }
        let texts: Vec<_> = received.iter().map(text).collect();
        assert_eq!(texts, [(0, "first"), (1, "a"), (2, "b"), (3, "")]);
    })
    .await;
}

#[tokio::test]
async fn a_break_inside_a_frame_makes_neither_gap_nor_repetition() {
    guard(async {
        let broker = Broker::start().await;
        let log = [stored(10, "a"), batch(11, "b\nc\n", 2), stored(13, "d"), stored(14, "e")];
        let whole = log.concat();
        for cut in 0..whole.len() {
            let (mut consumer, mut peer) = connect(&broker, options()).await;
            peer.send(&whole[..cut]).await;
            drop(peer);
            let serve_again = async {
                let mut peer = broker.accept().await;
                peer.send(&whole).await;
                peer
            };
            let receive = async {
                let mut received = Vec::new();
                while received.len() < 5 {
                    received.push(next(&mut consumer).await);
                }
                received
            };
            let (received, _peer) = tokio::join!(receive, serve_again);
            let expected = [(10, "a"), (11, "b"), (12, "c"), (13, "d"), (14, "e")];
            let expected = expected.map(|(offset, text)| (offset, text.to_owned()));
            assert_eq!(received, expected, "cut at {cut}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_was_begun_is_gone_on_with_after_a_break() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        peer.send(&batch(0, "a\nb\nc\n", 3)).await;
        assert_eq!(next(&mut consumer).await, (0, "a".to_owned()));
        drop(peer);
        assert_eq!(next(&mut consumer).await, (1, "b".to_owned()));
        assert_eq!(next(&mut consumer).await, (2, "c".to_owned()));
        let serve_again = async {
            let mut peer = broker.accept().await;
            peer.send(&batch(0, "a\nb\nc\n", 3)).await;
            peer.send(&stored(3, "d")).await;
            peer
        };
        let (message, _peer) = tokio::join!(next(&mut consumer), serve_again);
        assert_eq!(message, (3, "d".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn what_is_not_a_frame_is_an_error_and_the_next_call_starts_over() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) = connect(&broker, options()).await;
        peer.send(&stored(0, "a")).await;
        peer.send(b"HTTP/1.1 400 Bad Request").await;
        assert_eq!(next(&mut consumer).await, (0, "a".to_owned()));
        assert_eq!(consumer.recv().await, Err(ConsumeError::BadMagic(b'H')));
        let serve_again = async {
            let mut peer = broker.accept().await;
            peer.send(&[stored(0, "a"), stored(1, "b")].concat()).await;
            peer
        };
        let (message, _peer) = tokio::join!(next(&mut consumer), serve_again);
        assert_eq!(message, (1, "b".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_claim_over_the_limit_is_refused_with_the_header_alone() {
    guard(async {
        let broker = Broker::start().await;
        for (key_size, payload_size) in [(0, u32::MAX), (u32::MAX, 0), (u32::MAX, u32::MAX)] {
            let (mut consumer, mut peer) = connect(&broker, options()).await;
            let header = Header {
                magic: MAGIC_V1,
                timestamp: 0,
                offset: 0,
                key_size,
                payload_size,
                record_count: 1,
            };
            peer.send(&header.to_bytes()).await;
            let error = consumer.recv().await.unwrap_err();
            let max = options().max_frame_bytes;
            assert_eq!(error, ConsumeError::FrameTooLarge { bytes: header.frame_len(), max });
        }
    })
    .await;
}

#[tokio::test]
async fn a_frame_larger_than_a_read_is_put_together() {
    guard(async {
        let broker = Broker::start().await;
        let (mut consumer, mut peer) =
            connect(&broker, ConsumerOptions { read_bytes: 64, ..options() }).await;
        let large = "x".repeat(1_000_000);
        let frames = [stored(0, &large), stored(1, "b")].concat();
        let (first, ()) = tokio::join!(next(&mut consumer), peer.send(&frames));
        assert!(first == (0, large));
        assert_eq!(next(&mut consumer).await, (1, "b".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_broker_that_closes_on_every_handshake_is_given_up() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions { retry: retry(100), ..options() };
        let (mut consumer, peer) = connect(&broker, options).await;
        drop(peer);
        let refusing = async {
            loop {
                drop(broker.accept().await);
            }
        };
        let error = tokio::select! {
            message = consumer.recv() => message.unwrap_err(),
            () = refusing => unreachable!(),
        };
        assert!(matches!(error, ConsumeError::Refused { .. }), "{error:?}");
        drop(broker);
        let error = consumer.recv().await.unwrap_err();
        assert!(matches!(error, ConsumeError::Disconnected { .. }), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_silent_connection_is_made_again_if_asked_for() {
    guard(async {
        let broker = Broker::start().await;
        let options = ConsumerOptions {
            idle_timeout: Some(Duration::from_millis(40)),
            retry: retry(50),
            ..options()
        };
        let (mut consumer, _silent) = connect(&broker, options).await;
        // From the third connection on each one is served: a slow one may count as silent too.
        let serving = async {
            let _silent = (broker.accept().await, broker.accept().await);
            let mut peers = Vec::new();
            loop {
                let mut peer = broker.accept().await;
                peer.send(&stored(0, "a")).await;
                peers.push(peer);
            }
        };
        tokio::select! {
            message = next(&mut consumer) => assert_eq!(message, (0, "a".to_owned())),
            () = serving => unreachable!(),
        }
    })
    .await;
}
