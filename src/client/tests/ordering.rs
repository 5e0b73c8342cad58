//! Refusals for lack of room: what is sent again, when, and in which order.

use super::broker::Broker;
use super::{guard, retry, topic, v1_0_producer};
use crate::client::{DeliveryError, Packing, Producer, ProducerOptions, Record};

async fn connect(broker: &Broker, options: ProducerOptions) -> Producer {
    Producer::connect(broker.addr(), topic(), 0, options).await.unwrap()
}

#[tokio::test]
async fn a_refused_frame_is_sent_again_behind_those_on_the_way() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { retry: retry(60_000), ..v1_0_producer() };
        let producer = connect(&broker, options).await;
        let mut deliveries = Vec::new();
        for text in ["a", "b", "c", "d"] {
            deliveries.push(producer.send(Record::new(text)).await.unwrap());
        }
        let mut peer = broker.accept().await;
        peer.texts(4).await;
        peer.ack(0).await;
        peer.refuse().await;
        peer.ack(1).await;
        peer.refuse().await;
        assert_eq!(peer.texts(2).await, ["b", "d"], "in the order of handing over");
        peer.refuse().await;
        peer.ack(2).await;
        assert_eq!(peer.texts(1).await, ["b"]);
        peer.ack(3).await;
        let mut offsets = Vec::new();
        for delivery in deliveries {
            offsets.push(delivery.await.unwrap());
        }
        assert_eq!(offsets, [0, 3, 1, 2]);
    })
    .await;
}

#[tokio::test]
async fn with_one_frame_in_flight_the_order_holds() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions {
            max_in_flight_frames: 1,
            packing: Packing::Lines { max_records: 2 },
            retry: retry(60_000),
            ..v1_0_producer()
        };
        let producer = connect(&broker, options).await;
        let a = producer.send(Record::new("a").with_key("k")).await.unwrap();
        let b = producer.send(Record::new("b")).await.unwrap();
        let mut peer = broker.accept().await;
        for _ in 0..3 {
            assert_eq!(peer.texts(1).await, ["a"]);
            peer.refuse().await;
        }
        assert_eq!(peer.texts(1).await, ["a"]);
        peer.ack(0).await;
        assert_eq!(peer.texts(1).await, ["b"]);
        peer.ack(1).await;
        assert_eq!((a.await, b.await), (Ok(0), Ok(1)));
    })
    .await;
}

#[tokio::test]
async fn refusals_without_end_are_given_up() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { retry: retry(80), ..v1_0_producer() };
        let producer = connect(&broker, options).await;
        let delivery = producer.send(Record::new("a")).await.unwrap();
        let mut peer = broker.accept().await;
        let refusing = async {
            let mut attempts = 0;
            while peer.frame().await.is_some() {
                attempts += 1;
                peer.refuse().await;
            }
            attempts
        };
        let outcome = async {
            let outcome = delivery.await;
            producer.close().await;
            outcome
        };
        let (attempts, outcome) = tokio::join!(refusing, outcome);
        assert!(attempts > 1);
        let Err(DeliveryError::NotStored { code: 0xFF, elapsed }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(elapsed.as_millis() >= 80);
    })
    .await;
}

#[tokio::test]
async fn a_final_status_is_not_tried_again() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, v1_0_producer()).await;
        let a = producer.send(Record::new("a")).await.unwrap();
        let b = producer.send(Record::new("b")).await.unwrap();
        let mut peer = broker.accept().await;
        peer.texts(2).await;
        peer.send(&[0x0C, 0, 0, 0, 0, 0, 0, 0, 0]).await;
        peer.ack(0).await;
        assert_eq!(a.await, Err(DeliveryError::Rejected { code: 0x0C, message: "".into() }));
        assert_eq!(b.await, Ok(0));
    })
    .await;
}

#[tokio::test]
async fn a_flush_waits_for_what_is_sent_again() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { retry: retry(60_000), ..v1_0_producer() };
        let producer = connect(&broker, options).await;
        let a = producer.send(Record::new("a")).await.unwrap();
        drop(producer.send(Record::new("b")).await.unwrap());
        let mut peer = broker.accept().await;
        let flush = producer.flush();
        tokio::pin!(flush);
        peer.texts(2).await;
        peer.refuse().await;
        peer.ack(0).await;
        let again = tokio::select! {
            () = &mut flush => panic!("a is not acked"),
            texts = peer.texts(1) => texts,
        };
        assert_eq!(again, ["a"]);
        peer.ack(1).await;
        flush.await;
        assert_eq!(a.await, Ok(1));
    })
    .await;
}
