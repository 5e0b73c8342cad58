//! Broken connections, brokers that refuse without a word, and ends.

use std::time::Duration;

use tokio::time::timeout;

use super::broker::Broker;
use super::{guard, retry, topic, v1_0_producer};
use crate::client::{ConnectError, DeliveryError, Producer, ProducerOptions, Record, SendError};
use crate::protocol::Ack;
use crate::record::HEADER_LEN;

fn options(max_elapsed: u64) -> ProducerOptions {
    ProducerOptions { retry: retry(max_elapsed), ..v1_0_producer() }
}

async fn connect(broker: &Broker, options: ProducerOptions) -> Producer {
    Producer::connect(broker.addr(), topic(), 0, options).await.unwrap()
}

#[tokio::test]
async fn frames_without_an_ack_are_sent_again_in_order() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(60_000)).await;
        let mut deliveries = Vec::new();
        for text in ["a", "b", "c", "d"] {
            deliveries.push(producer.send(Record::new(text)).await.unwrap());
        }
        let mut peer = broker.accept().await;
        peer.texts(4).await;
        peer.ack(0).await;
        // b is refused, so it waits outside the flight when the connection breaks, with half an ack of c.
        peer.refuse().await;
        peer.send(&[0, 0, 0]).await;
        assert_eq!(deliveries.remove(0).await, Ok(0));
        drop(peer);
        deliveries.push(producer.send(Record::new("e")).await.unwrap());
        let mut peer = broker.accept().await;
        assert_eq!(peer.texts(4).await, ["b", "c", "d", "e"]);
        for offset in 1..5 {
            peer.ack(offset).await;
        }
        for (offset, delivery) in (1..).zip(deliveries) {
            assert_eq!(delivery.await, Ok(offset));
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_producer_connects_again_only_when_it_is_needed() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(60_000)).await;
        for round in 0..3 {
            if round == 0 {
                drop(broker.accept().await);
            }
            let knock = timeout(Duration::from_millis(50), broker.accept()).await;
            assert!(knock.is_err(), "nothing is to be sent");
            let delivery = producer.send(Record::new("x")).await.unwrap();
            let mut peer = broker.accept().await;
            assert_eq!(peer.texts(1).await, ["x"]);
            peer.ack(round).await;
            assert_eq!(delivery.await, Ok(round));
        }
    })
    .await;
}

/// The broker closes without a byte as soon as it sees `poison`.
async fn refuse_poison(broker: &Broker, mut offset: u64) {
    loop {
        let mut peer = broker.accept().await;
        while let Some(frame) = peer.frame().await {
            if frame.payload == b"poison" {
                break;
            }
            peer.ack(offset).await;
            offset += 1;
        }
    }
}

#[tokio::test]
async fn a_frame_that_the_broker_closes_on_is_given_up_alone() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(5000)).await;
        let mut deliveries = Vec::new();
        for text in ["a", "poison", "b", "c"] {
            deliveries.push(producer.send(Record::new(text)).await.unwrap());
        }
        let outcomes = async {
            let mut outcomes = Vec::new();
            for delivery in deliveries {
                outcomes.push(delivery.await);
            }
            outcomes
        };
        let outcomes = tokio::select! {
            outcomes = outcomes => outcomes,
            () = refuse_poison(&broker, 0) => unreachable!(),
        };
        assert_eq!(outcomes[0], Ok(0));
        assert!(matches!(outcomes[1], Err(DeliveryError::Refused { .. })), "{:?}", outcomes[1]);
        assert_eq!(outcomes[2..], [Ok(1), Ok(2)]);
    })
    .await;
}

#[tokio::test]
async fn a_refused_handshake_is_given_up_for_all() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(300)).await;
        let a = producer.send(Record::new("a")).await.unwrap();
        let b = producer.send(Record::new("b")).await.unwrap();
        let refusing = async {
            loop {
                drop(broker.accept().await);
            }
        };
        let outcomes = tokio::select! {
            outcomes = async { (a.await, b.await) } => outcomes,
            () = refusing => unreachable!(),
        };
        assert!(
            matches!(
                outcomes,
                (
                    Err(DeliveryError::HandshakeRefused { .. }),
                    Err(DeliveryError::HandshakeRefused { .. })
                )
            ),
            "{outcomes:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_broker_that_is_gone_is_given_up_and_its_return_is_noticed() {
    guard(async {
        let broker = Broker::start().await;
        let addr = broker.addr();
        let producer = connect(&broker, options(100)).await;
        drop(broker.accept().await);
        drop(broker);
        let outcome = producer.send(Record::new("a")).await.unwrap().await;
        let Err(DeliveryError::Disconnected { elapsed, reason }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(elapsed.as_millis() >= 100);
        assert!(reason.contains(&addr), "{reason}");
        producer.flush().await;
        producer.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_silent_broker_counts_as_gone() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { ack_timeout: Duration::from_millis(50), ..options(60_000) };
        let producer = connect(&broker, options).await;
        let delivery = producer.send(Record::new("a")).await.unwrap();
        let mut silent = broker.accept().await;
        assert_eq!(silent.texts(1).await, ["a"]);
        // Each further connection is answered: a slow one may count as silent too.
        let answering = async {
            loop {
                let mut peer = broker.accept().await;
                if let Some(frame) = peer.frame().await {
                    assert_eq!(frame.text(), "a");
                    peer.send(&Ack::stored(4).to_bytes()).await;
                }
            }
        };
        tokio::select! {
            outcome = delivery => assert_eq!(outcome, Ok(4)),
            () = answering => unreachable!(),
        }
    })
    .await;
}

#[tokio::test]
async fn a_broker_that_still_reads_is_not_silent() {
    guard(async {
        let broker = Broker::start().await;
        let ack_timeout = Duration::from_millis(500);
        let options = ProducerOptions { ack_timeout, ..options(60_000) };
        let producer = connect(&broker, options).await;
        let large = vec![b'x'; 30 << 20];
        let delivery = producer.send(Record::new(large)).await.unwrap();
        // Slower than an ack may be. If the machine is slower still, that connection is silent, and the next one counts.
        let reading = async {
            let mut chunk = vec![0; 512 << 10];
            loop {
                let mut peer = broker.accept().await;
                let mut left = HEADER_LEN + (30 << 20);
                while left > 0 {
                    let n = peer.read(&mut chunk).await;
                    if n == 0 {
                        break;
                    }
                    left -= n;
                    tokio::time::sleep(ack_timeout / 30).await;
                }
                if left == 0 {
                    peer.ack(0).await;
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            outcome = delivery => assert_eq!(outcome, Ok(0)),
            () = reading => unreachable!(),
        }
    })
    .await;
}

#[tokio::test]
async fn acks_that_nobody_asked_for_break_the_connection() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(60_000)).await;
        let mut peer = broker.accept().await;
        peer.ack(9).await;
        assert!(peer.is_closed().await);
        let delivery = producer.send(Record::new("a")).await.unwrap();
        let mut peer = broker.accept().await;
        assert_eq!(peer.texts(1).await, ["a"]);
        peer.ack(1).await;
        assert_eq!(delivery.await, Ok(1));
    })
    .await;
}

#[tokio::test]
async fn nobody_listens() {
    guard(async {
        let broker = Broker::start().await;
        let addr = broker.addr();
        drop(broker);
        let error = Producer::connect(&addr, topic(), 0, options(100)).await.unwrap_err();
        assert!(matches!(&error, ConnectError::Io { addr: tried, .. } if *tried == addr));
    })
    .await;
}

#[test]
fn the_end_of_the_runtime_is_told_to_deliveries_and_senders() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (producer, delivery, heard) = runtime.block_on(guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, options(60_000)).await;
        let delivery = producer.send(Record::new("a")).await.unwrap();
        let (sender, heard) = std::sync::mpsc::channel();
        let callback = move |outcome| sender.send(outcome).unwrap();
        producer.send_with(Record::new("b"), callback).await.unwrap();
        (producer, delivery, heard)
    }));
    drop(runtime);
    assert_eq!(delivery.wait(), Err(DeliveryError::Closed));
    assert_eq!(heard.recv().unwrap(), Err(DeliveryError::Closed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(guard(async {
        assert_eq!(producer.send(Record::new("c")).await.err(), Some(SendError::Closed));
        producer.flush().await;
        producer.close().await;
    }));
}
