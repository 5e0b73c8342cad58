//! Records in and out under load: pipelined, large, in pieces, and to many consumers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{
    Broker, Frame, HANG, Random, RawClient, Start, assert_offsets_follow, drain, frame, scratch,
    wait_for,
};

#[test]
fn many_frames_before_the_first_ack_is_read() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut client = RawClient::produce(broker.addr(), "t", 0);
    // 270 KB of acks: more than lies in a socket's buffers only if the client is slow, which it is not after this.
    let sent: Vec<Vec<u8>> =
        (0..30_000u64).map(|i| frame(i, b"", format!("record {i}").as_bytes())).collect();
    client.send(&sent.concat());
    for i in 0..sent.len() as u64 {
        assert_eq!(client.stored(), i);
    }
    let frames = drain(broker.addr(), "g", "t", 0);
    assert_offsets_follow(&frames, 0);
    let got: Vec<_> = frames.iter().map(Frame::as_sent).collect();
    assert!(got == sent, "byte-identical");
}

#[test]
fn handshake_and_frames_in_one_piece() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut client = RawClient::connect(broker.addr());
    let mut bytes = support::handshake(support::PRODUCE, &["t"], 0);
    bytes.extend(frame(1, b"a", b"first"));
    bytes.extend(frame(2, b"b", b"second"));
    client.send(&bytes);
    client.finish_sending();
    assert_eq!((client.stored(), client.stored()), (0, 1));
    assert_eq!(client.read_to_end(), b"", "the broker closes once all is acked");
}

#[test]
fn ten_producers_on_one_partition() {
    const PRODUCERS: u64 = 10;
    const FRAMES: u64 = 2_000;
    let (_dir, data) = scratch();
    // Small segments: what is written rolls them many times, and consumers cross them.
    let broker = Start::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();
    let addr = broker.addr();
    let payload = |producer: u64, i: u64| {
        let len = usize::try_from((producer * 7 + i * 13) % 700).unwrap();
        Random::from(producer * FRAMES + i).bytes(len)
    };
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..3)
            .map(|n| {
                scope.spawn(move || {
                    let mut consumer = RawClient::consume(addr, &format!("live-{n}"), "t", 0);
                    consumer.read_frames(usize::try_from(PRODUCERS * FRAMES).unwrap())
                })
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                scope.spawn(move || {
                    let mut client = RawClient::produce(addr, "t", 0);
                    let mut sender = client.split();
                    let name = producer.to_string();
                    let sending = std::thread::spawn(move || {
                        for i in 0..FRAMES {
                            sender.send(&frame(i, name.as_bytes(), &payload(producer, i)));
                        }
                    });
                    let acks: Vec<u64> = (0..FRAMES).map(|_| client.stored()).collect();
                    sending.join().unwrap();
                    acks
                })
            })
            .collect();
        let acks: Vec<Vec<u64>> = producers.into_iter().map(|p| p.join().unwrap()).collect();
        for acks in &acks {
            assert!(acks.is_sorted_by(|a, b| a < b), "acks of a connection grow");
        }
        let stored = drain(addr, "after", "t", 0);
        assert_eq!(assert_offsets_follow(&stored, 0), PRODUCERS * FRAMES);
        // Every ack names the offset at which the very frame stands.
        for (producer, acks) in acks.iter().enumerate() {
            for (i, &offset) in acks.iter().enumerate() {
                let sent = frame(
                    i as u64,
                    producer.to_string().as_bytes(),
                    &payload(producer as u64, i as u64),
                );
                let got = &stored[usize::try_from(offset).unwrap()];
                assert!(got.as_sent() == sent, "producer {producer}, frame {i}");
            }
        }
        for consumer in consumers {
            assert!(consumer.join().unwrap() == stored, "live consumers saw the same");
        }
    });
}

#[test]
fn large_frames_round_trip() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let mut consumer = RawClient::consume(broker.addr(), "g", "t", 0);
    let payload = Random::from(9).bytes(20_000_000);
    let large = frame(1, b"large", &payload);
    let small = frame(2, b"small", b"x");
    let sending = {
        let mut sender = producer.split();
        let bytes = [&small[..], &large, &small, &large].concat();
        std::thread::spawn(move || sender.send(&bytes))
    };
    for offset in 0..4 {
        assert_eq!(producer.stored(), offset);
    }
    sending.join().unwrap();
    for (offset, sent) in [&small, &large, &small, &large].into_iter().enumerate() {
        let got = consumer.read_frame();
        assert_eq!(got.header.offset, offset as u64);
        assert!(&got.as_sent() == sent, "frame {offset} is byte-identical");
    }
}

#[test]
fn bytes_arriving_one_by_one() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut client = RawClient::connect(broker.addr());
    let mut bytes = support::handshake(support::PRODUCE, &["t"], 0);
    let frames = [frame(1, b"key", b"payload"), frame(2, b"", b""), frame(3, b"k", b"end")];
    bytes.extend(frames.concat());
    for byte in bytes {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    for offset in 0..3 {
        assert_eq!(client.stored(), offset);
    }
    let got: Vec<_> = drain(broker.addr(), "g", "t", 0).iter().map(Frame::as_sent).collect();
    assert_eq!(got, frames);
}

#[test]
fn consumer_at_the_tail_gets_each_new_record() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    // The consumer comes first: the topic is created by it.
    let mut consumer = RawClient::consume(broker.addr(), "g", "t", 0);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..200u64 {
        let sent = frame(i, b"", format!("record {i}").as_bytes());
        assert_eq!(producer.append(&sent), i);
        let got = consumer.read_frame();
        assert_eq!((got.header.offset, got.as_sent()), (i, sent));
    }
}

#[test]
fn consumer_that_finished_sending_gets_everything_and_the_end() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    // More than the sockets' buffers hold, so that the end of sending is seen in the middle.
    let sent = frame(1, b"", &Random::from(3).bytes(100_000));
    for _ in 0..200 {
        producer.append(&sent);
    }
    let mut consumer = RawClient::consume(broker.addr(), "g", "t", 0);
    consumer.finish_sending();
    std::thread::sleep(Duration::from_millis(100));
    let frames = support::frames_of(&consumer.read_to_end());
    assert_eq!(assert_offsets_follow(&frames, 0), 200);
    assert!(frames.iter().all(|frame| frame.as_sent() == sent));
    // Parked at the tail first, then half-closed.
    let mut consumer = RawClient::consume(broker.addr(), "g", "t", 0);
    assert_eq!(consumer.read_frames(200).len(), 200);
    consumer.finish_sending();
    assert_eq!(consumer.read_to_end(), b"");
}

#[test]
fn consumers_of_many_topics_do_not_mix() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 3).run();
    let mut sent = HashMap::new();
    for topic in ["a", "a_1", "A", "a_1_0", "1"] {
        for partition in 0..3 {
            let bytes = frame(u64::from(partition), b"", format!("{topic}/{partition}").as_bytes());
            assert_eq!(RawClient::produce(broker.addr(), topic, partition).append(&bytes), 0);
            sent.insert((topic, partition), bytes);
        }
    }
    let check = |broker: &Broker| {
        for ((topic, partition), bytes) in &sent {
            let frames = drain(broker.addr(), "g", topic, *partition);
            let got: Vec<_> = frames.iter().map(Frame::as_sent).collect();
            assert_eq!(got, std::slice::from_ref(bytes), "{topic}/{partition}");
        }
    };
    check(&broker);
    broker.kill();
    check(&Broker::start(&data));
}

/// Raises the limit of descriptors, for this process and for the brokers it starts, as far as it goes; returns it.
fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[test]
fn a_thousand_parked_consumers_cost_nothing_and_all_wake() {
    // A thousand, unless the process may not have so many.
    let count = usize::try_from(raise_descriptor_limit() / 2).unwrap_or(1000).min(1000);
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    producer.append(&frame(0, b"", b"first"));
    let mut consumers: Vec<RawClient> = (0..count)
        .map(|n| RawClient::consume(broker.addr(), &format!("g{}", n % 7), "t", 0))
        .collect();
    for consumer in &mut consumers {
        assert_eq!(consumer.read_frame().payload(), b"first");
    }
    // Whatever it had to do before is done at some time.
    wait_for("at most four clock ticks of processor time in two seconds", || {
        let before = broker.cpu_ticks();
        std::thread::sleep(Duration::from_secs(2));
        (broker.cpu_ticks() - before <= 4).then_some(())
    });

    for round in 1..4u64 {
        let sent = frame(round, b"", format!("round {round}").as_bytes());
        assert_eq!(producer.append(&sent), round);
        for consumer in &mut consumers {
            let got = consumer.read_frame();
            assert_eq!((got.header.offset, got.as_sent()), (round, sent.clone()));
        }
    }
    // Those that leave at the tail leave nothing behind.
    let open = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    let with_consumers = open();
    drop(consumers);
    wait_for("the broker to close what consumers left", || {
        (open() + count - 10 < with_consumers).then_some(())
    });
    assert_eq!(producer.append(&frame(9, b"", b"last")), 4);
}

#[test]
fn a_producer_that_reads_no_acks_is_held_back_and_disturbs_nobody() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut warm = RawClient::produce(broker.addr(), "quiet", 0);
    warm.append(&frame(0, b"", b"warm"));
    let resident = broker.memory_kib("RssAnon");

    // Empty frames: 9 bytes of acks for 29 bytes of frames. Sent until the broker stops reading, or 400 MB (120 MB of
    // acks) are in.
    let greedy = RawClient::produce(broker.addr(), "greedy", 0);
    greedy.stream().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let block = frame(1, b"", b"").repeat(10_000);
    let mut blocks = 0u64;
    while blocks < 1400 && greedy.stream().write_all(&block).is_ok() {
        blocks += 1;
        if blocks.is_multiple_of(100) {
            let offset = warm.append(&frame(blocks, b"", b"beside"));
            assert_eq!(offset, blocks / 100);
        }
    }
    let grown = broker.memory_kib("RssAnon").saturating_sub(resident);
    assert!(grown < 64 * 1024, "the broker grew by {grown} KiB for {blocks} blocks");
    let offset = warm.append(&frame(1, b"", b"after"));
    assert_eq!(offset, blocks / 100 + 1);
    // The acks are all there for a client that changes its mind.
    greedy.stream().set_read_timeout(Some(HANG)).unwrap();
    let mut greedy = greedy;
    for expected in 0..(blocks * 10_000).min(50_000) {
        assert_eq!(greedy.stored(), expected);
    }
}

#[test]
fn a_consumer_that_reads_nothing_disturbs_nobody() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let bytes = frame(1, b"", &vec![7; 1 << 20]);
    let stalled: Vec<_> =
        (0..20).map(|_| RawClient::consume(broker.addr(), "stalled", "t", 0)).collect();
    let mut reading = RawClient::consume(broker.addr(), "reading", "t", 0);
    producer.append(&bytes);
    reading.read_frame();
    let resident = broker.memory_kib("RssAnon");
    for offset in 1..100 {
        assert_eq!(producer.append(&bytes), offset);
        assert!(reading.read_frame().as_sent() == bytes);
    }
    let grown = broker.memory_kib("RssAnon").saturating_sub(resident);
    assert!(grown < 64 * 1024, "the broker grew by {grown} KiB");
    drop(stalled);
}
