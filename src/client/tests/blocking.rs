//! The façade without a runtime: the program's thread blocks, a broker runs on another one.

use std::sync::mpsc;
use std::thread;

use super::broker::{Broker, stored};
use super::{group, guard, topic, v1_0_consumer, v1_0_producer};
use crate::client::{ProducerOptions, Record, blocking};
use crate::protocol::Request;

/// Runs a broker's script on a thread of its own; returns its address and the thread.
fn script<F>(script: impl FnOnce(Broker) -> F + Send + 'static) -> (String, thread::JoinHandle<()>)
where
    F: Future<Output = ()>,
{
    let (sender, addr) = mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(guard(async {
            let broker = Broker::start().await;
            sender.send(broker.addr()).unwrap();
            script(broker).await;
        }));
    });
    (addr.recv().unwrap(), thread)
}

#[test]
fn a_producer_works_between_calls() {
    let (seen, heard) = mpsc::channel();
    let (addr, broker) = script(move |broker| async move {
        let mut peer = broker.accept().await;
        seen.send(peer.frame().await.unwrap().text()).unwrap();
        peer.ack(5).await;
        assert_eq!(peer.ack_all(6).await.len(), 1000);
    });
    let options = ProducerOptions { max_in_flight_frames: 10, ..v1_0_producer() };
    let producer = blocking::Producer::connect(addr, topic(), 0, options).unwrap();
    let delivery = producer.send(Record::new("first")).unwrap();
    // No call into the producer is under way while the broker gets the record.
    assert_eq!(heard.recv().unwrap(), "first");
    assert_eq!(delivery.wait(), Ok(5));

    let (sender, offsets) = mpsc::channel();
    for i in 0..1000 {
        let sender = sender.clone();
        let callback = move |outcome| sender.send(outcome).unwrap();
        producer.send_with(Record::new(format!("{i}")), callback).unwrap();
    }
    producer.flush();
    producer.close();
    let offsets: Vec<_> = offsets.try_iter().map(Result::unwrap).collect();
    assert_eq!(offsets, (6..1006).collect::<Vec<_>>());
    broker.join().unwrap();
}

#[test]
fn a_consumer_receives_and_commits() {
    let (addr, broker) = script(|broker| async move {
        let mut peer = broker.accept().await;
        peer.send(&[stored(0, "a"), stored(1, "b")].concat()).await;
        for next in [1, 2] {
            let mut committing = broker.accept().await;
            let (group, topic) = (group(), topic());
            let expected = Request::Commit { group, topic, partition: 0, offset: next };
            assert_eq!(committing.request, expected);
            committing.send(&[1]).await;
        }
        assert!(peer.is_closed().await);
    });
    let options = v1_0_consumer();
    let mut consumer = blocking::Consumer::connect(addr, group(), topic(), 0, options).unwrap();
    let first = consumer.recv().unwrap();
    assert_eq!((first.offset, &first.payload[..]), (0, &b"a"[..]));
    consumer.commit(&first).unwrap();
    let second = consumer.recv().unwrap();
    assert_eq!((second.offset, &second.payload[..]), (1, &b"b"[..]));
    assert_eq!(consumer.try_next(), Ok(None));
    consumer.commit_offset(second.next_offset).unwrap();
    drop(consumer);
    broker.join().unwrap();
}
