//! Many records in one frame.

use super::broker::Broker;
use super::{guard, topic, v1_0_producer};
use crate::client::{Packing, Producer, ProducerOptions, Record};

async fn connect(broker: &Broker, options: ProducerOptions) -> Producer {
    Producer::connect(broker.addr(), topic(), 0, options).await.unwrap()
}

fn lines(max_records: u32) -> ProducerOptions {
    ProducerOptions { packing: Packing::Lines { max_records }, ..v1_0_producer() }
}

#[tokio::test]
async fn lines_share_frames_in_order_and_each_has_its_offset() {
    guard(async {
        let broker = Broker::start().await;
        let producer = connect(&broker, lines(3)).await;
        let records = [
            Record::new("a").with_timestamp(5),
            Record::new("").with_timestamp(6),
            Record::new("c"),
            Record::new("d"),
            Record::new("with a key").with_key("k"),
            Record::new("e"),
            Record::new("two\nlines"),
            Record::new("f"),
            Record::new("g"),
        ];
        let mut deliveries = Vec::new();
        for record in records {
            deliveries.push(producer.send(record).await.unwrap());
        }
        let mut peer = broker.accept().await;
        let mut frames = Vec::new();
        let mut offset = 40;
        for _ in 0..6 {
            let frame = peer.frame().await.unwrap();
            peer.ack(offset).await;
            offset += u64::from(frame.header.record_count);
            frames.push((frame.text(), frame.header.record_count, frame.header.timestamp));
        }
        assert_eq!(frames[0], ("a\n\nc\n".to_owned(), 3, 5));
        let shapes: Vec<_> =
            frames.iter().map(|(text, count, _)| (text.as_str(), *count)).collect();
        let expected = [("d", 1), ("with a key", 1), ("e", 1), ("two\nlines", 1), ("f\ng\n", 2)];
        assert_eq!(shapes[1..], expected);
        for (i, delivery) in (40..).zip(deliveries) {
            assert_eq!(delivery.await, Ok(i));
        }
    })
    .await;
}

#[tokio::test]
async fn a_packed_frame_ends_at_the_batch_size() {
    guard(async {
        let broker = Broker::start().await;
        let producer =
            connect(&broker, ProducerOptions { batch_bytes: 29 + 8, ..lines(1000) }).await;
        for text in ["aaa", "bbb", "ccc", "larger than any batch"] {
            drop(producer.send(Record::new(text)).await.unwrap());
        }
        let mut peer = broker.accept().await;
        assert_eq!(peer.texts(3).await, ["aaa\nbbb\n", "ccc", "larger than any batch"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_senders_share_a_producer() {
    guard(async {
        let broker = Broker::start().await;
        let options = ProducerOptions { max_in_flight_bytes: 5_000, ..lines(10) };
        let producer = std::sync::Arc::new(connect(&broker, options).await);
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let producer = std::sync::Arc::clone(&producer);
                tokio::spawn(async move {
                    let mut deliveries = Vec::new();
                    for i in 0..2_000 {
                        let record = Record::new(format!("{sender}:{i}"));
                        deliveries.push(producer.send(record).await.unwrap());
                    }
                    let mut offsets = Vec::new();
                    for delivery in deliveries {
                        offsets.push(delivery.await.unwrap());
                    }
                    assert!(offsets.is_sorted(), "each sender's order holds");
                    offsets
                })
            })
            .collect();
        let mut peer = broker.accept().await;
        let peer = tokio::spawn(async move { peer.ack_all(0).await });
        let mut offsets = Vec::new();
        for sender in senders {
            offsets.extend(sender.await.unwrap());
        }
        producer.close().await;
        let texts = peer.await.unwrap();
        let records: usize = texts.iter().map(|text| text.lines().count().max(1)).sum();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..8_000).collect::<Vec<_>>());
        assert_eq!(records, 8_000);
    })
    .await;
}
