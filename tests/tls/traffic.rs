//! Records in and out, as without TLS.

use std::io::{Read as _, Write as _};

use hermitmq::client::blocking::{Consumer, Producer};
use hermitmq::client::{
    Committer, ConnectOptions, ConsumerOptions, Durability, ProducerOptions, Protocol, Record,
    TlsOptions,
};
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::ACK_LEN;
use rustls::ALL_VERSIONS;
use socket2::{Domain, Socket, Type};

use super::Setup;
use super::support::tunnel::{Tunnel, config, connection_over};
use super::support::{
    Commits, Journal, Load, Loss, Place, Plan, Random, RawClient, assert_group_resumes, commit,
    drain, frame, handshake, scratch_in_memory,
};

/// From a byte to 20 MB, around the sizes of TLS records and of the broker's buffers.
const SIZES: [usize; 14] = [
    1, 2, 100, 16_000, 16_355, 16_384, 16_400, 65_507, 65_536, 262_144, 300_000, 1_000_000,
    5_000_000, 20_000_000,
];

fn payload(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + i / 256 + seed) % 256).unwrap()).collect()
}

#[test]
fn records_of_all_sizes_go_in_and_out_in_both_versions_of_tls() {
    let setup = Setup::new();
    let broker = setup.run("required");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let topic = format!("{:?}", version.version).replace('(', "-").replace(')', "");
        let tunnel = Tunnel::with(broker.addr(), config(&setup.ca, None, &[version]));
        // Large and small ones in turns: what is buffered for the one must not hold up the other.
        let sizes: Vec<usize> =
            SIZES.iter().zip(SIZES.iter().rev()).flat_map(|(a, b)| [*a, *b]).collect();
        let frames: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(i, len)| frame(1, b"k", &payload(*len, i))).collect();
        let mut producer = RawClient::produce(tunnel.addr(), &topic, 0);
        let mut sender = producer.split();
        let all = frames.concat();
        let sending = std::thread::spawn(move || sender.send(&all));
        for offset in 0..frames.len() as u64 {
            assert_eq!(producer.stored(), offset);
        }
        sending.join().unwrap();
        let got = drain(tunnel.addr(), "g", &topic, 0);
        assert_eq!(got.len(), frames.len());
        for (got, sent) in got.iter().zip(&frames) {
            assert!(got.as_sent() == *sent, "{}", got.header.offset);
        }
        commit(tunnel.addr(), "g", &topic, 0, 3);
        let rest = drain(tunnel.addr(), "g", &topic, 0);
        assert_eq!((rest[0].header.offset, rest.len()), (3, frames.len() - 3));
    }
}

/// Records of each producer.
const EACH: usize = 5_000;

#[test]
fn many_small_records_are_sent_ahead_by_several_producers() {
    let setup = Setup::new();
    let broker = setup.start("required").env("HERMITMQ_SERVER__REACTORS", 2).run();
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    std::thread::scope(|scope| {
        for producer in 0..4 {
            let addr = tunnel.addr();
            scope.spawn(move || {
                // Two of them share a partition; one half moves to the other reactor.
                let mut client = RawClient::produce(addr, &format!("t-{}", producer / 2), 0);
                let mut sender = client.split();
                let all: Vec<u8> =
                    (0..EACH).flat_map(|i| frame(1, b"", &payload(i % 40, i))).collect();
                let sending = std::thread::spawn(move || sender.send(&all));
                let acks = client.read(EACH * ACK_LEN);
                assert!(acks.chunks(ACK_LEN).all(|ack| ack[0] == 0));
                sending.join().unwrap();
            });
        }
    });
    for topic in ["t-0", "t-1"] {
        let got = drain(tunnel.addr(), "g", topic, 0);
        assert_eq!(got.len(), 2 * EACH);
        assert!(got.iter().enumerate().all(|(i, frame)| frame.header.offset == i as u64));
    }
}

#[test]
fn all_who_wait_at_the_end_are_woken() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let mut producer = RawClient::produce(tunnel.addr(), "t", 0);
    producer.append(&frame(0, b"", b"before"));
    let mut consumers: Vec<_> =
        (0..50).map(|i| RawClient::consume(tunnel.addr(), &format!("g-{i}"), "t", 0)).collect();
    for consumer in &mut consumers {
        assert_eq!(consumer.read_frame().payload(), b"before");
    }
    for round in 0..20 {
        let text = format!("round {round}");
        producer.append(&frame(0, b"", text.as_bytes()));
        for consumer in &mut consumers {
            assert_eq!(consumer.read_frame().payload(), text.as_bytes());
        }
    }
}

fn options(setup: &Setup, protocol: Protocol) -> ConnectOptions {
    let tls = Some(TlsOptions::with_ca(setup.path("ca.pem")));
    ConnectOptions { protocol, tls, ..ConnectOptions::default() }
}

#[test]
fn the_sdk_produces_consumes_and_commits_in_both_versions_of_the_protocol() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let addr = broker.addr().to_string();
    let group = GroupName::parse("g").unwrap();
    for (protocol, name) in [(Protocol::V1_0, "old"), (Protocol::V1_1, "new")] {
        let topic = TopicName::parse(name).unwrap();
        let connect = options(&setup, protocol);
        let produce = ProducerOptions { connect: connect.clone(), ..ProducerOptions::default() };
        let producer = Producer::connect(addr.clone(), topic.clone(), 0, produce).unwrap();
        let sizes = [0, 1, 1000, 70_000, 1_500_000];
        let deliveries: Vec<_> = (0..100)
            .map(|i| producer.send(Record::new(payload(sizes[i % 5], i))).unwrap())
            .collect();
        for (i, delivery) in deliveries.into_iter().enumerate() {
            assert_eq!(delivery.wait().unwrap(), i as u64);
        }
        producer.close();
        let consume = || ConsumerOptions { connect: connect.clone(), ..ConsumerOptions::default() };
        let begin =
            || Consumer::connect(addr.clone(), group.clone(), topic.clone(), 0, consume()).unwrap();
        let mut consumer = begin();
        for i in 0..100 {
            let message = consumer.recv().unwrap();
            assert!(message.offset == i as u64 && message.payload == payload(sizes[i % 5], i));
            if i == 59 {
                consumer.commit(&message).unwrap();
            }
        }
        drop(consumer);
        assert_eq!(begin().recv().unwrap().offset, 60);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let topic = TopicName::parse("new").unwrap();
        let connect = options(&setup, Protocol::V1_1);
        let mut committer = Committer::new(addr, group, topic, 0, connect);
        assert_eq!(committer.committed().await.unwrap(), Some(60));
        committer.commit(80).await.unwrap();
        assert_eq!(committer.committed().await.unwrap(), Some(80));
    });
}

#[test]
fn an_answer_after_a_flush_comes_without_anything_else_being_sent() {
    let setup = Setup::new();
    let broker = setup.start("required").env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 60_000).run();
    let durability = Durability::Flushed;
    let connect = options(&setup, Protocol::V1_1);
    let options = ProducerOptions { connect, durability, ..ProducerOptions::default() };
    let topic = TopicName::parse("t").unwrap();
    let producer = Producer::connect(broker.addr().to_string(), topic, 0, options).unwrap();
    for i in 0..20 {
        assert_eq!(producer.send(Record::new("one")).unwrap().wait().unwrap(), i);
    }
}

#[test]
fn a_consumer_that_sends_no_more_gets_everything_before_the_end() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    // Whether a socket takes the last piece as a whole is chance: so many lengths, all of them more than it holds.
    for round in 0..25usize {
        let topic = format!("t{round}");
        let sent = frame(1, b"k", &payload(11_000_000 + round * 7_919, round));
        RawClient::produce(tunnel.addr(), &topic, 0).append(&sent);
        // A socket that takes little at once. Without the tunnel, which would take what comes into memory of its own.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(32_768).unwrap();
        socket.connect(&broker.addr().into()).unwrap();
        let config = config(&setup.ca, None, ALL_VERSIONS);
        let mut consumer = connection_over(socket.into(), config);
        consumer.write_all(&handshake(2, &["g", &topic], 0)).unwrap();
        consumer.flush().unwrap();
        consumer.conn.send_close_notify();
        consumer.conn.complete_io(&mut consumer.sock).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let mut received = Vec::new();
        let mut piece = vec![0; 50_000];
        loop {
            let read = consumer.read(&mut piece).unwrap();
            if read == 0 {
                break;
            }
            received.extend_from_slice(&piece[..read]);
        }
        assert_eq!(received.len(), sent.len(), "round {round}");
    }
}

#[test]
fn a_slow_consumer_gets_everything_in_the_end() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let mut producer = RawClient::produce(tunnel.addr(), "t", 0);
    let mut slow = RawClient::consume(tunnel.addr(), "g", "t", 0);
    // More than sockets hold, while nobody reads.
    let frames: Vec<_> = (0..40).map(|i| frame(0, b"", &payload(1 << 20, i))).collect();
    for each in &frames {
        producer.append(each);
    }
    for sent in &frames {
        assert!(slow.read_frame().as_sent() == *sent);
    }
    producer.append(&frame(0, b"", b"last"));
    assert_eq!(slow.read_frame().payload(), b"last");
}

#[test]
fn killed_under_load_nothing_acked_is_lost() {
    let setup = Setup::new();
    let (_dir, data) = scratch_in_memory();
    let start = |port| {
        let files = [("CERT", "broker.pem"), ("KEY", "broker.key")];
        let start = super::Start::on(&data)
            .port(port)
            .env("HERMITMQ_TLS__MODE", "required")
            .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
            .env("HERMITMQ_SERVER__REACTORS", 2)
            .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2);
        let start = files.iter().fold(start, |start, (key, name)| {
            start.env(&format!("HERMITMQ_TLS__{key}_FILE"), super::shown(&setup.path(name)))
        });
        start.run()
    };
    let mut broker = start(0);
    let mut tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let (mut journal, mut random) = (Journal::default(), Random::seeded());
    let (mut acks, mut committed) = (0, Commits::default());
    for round in 0..5 {
        let what = format!("round {round}");
        let places: Vec<Place> =
            [("a", 0), ("a", 1), ("b", 0), ("a", 0)].map(|(t, p)| (t.to_owned(), p)).into();
        let plan = Plan {
            watched: vec![places[0].clone()],
            committed: vec![places[1].clone()],
            producers: places.clone(),
            usual: 4000,
            budget: u64::MAX,
        };
        let load = Load::start(tunnel.addr(), &plan, random.next(), &mut journal);
        std::thread::sleep(std::time::Duration::from_millis(50 + random.below(200)));
        broker.kill();
        let outcome = load.finish(&mut journal);
        acks += outcome.stored;
        assert_eq!(outcome.refused, 0, "{what}");
        broker = start(0);
        tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
        journal.check(tunnel.addr(), &Loss::Nothing, &what);
        for (place, new) in outcome.commits {
            let answered = new.answered.or(committed.answered);
            let commits = Commits { answered, unanswered: new.unanswered };
            let addr = tunnel.addr();
            let at = assert_group_resumes(addr, &place, &mut journal, commits, true, &what);
            // Whichever it was of the last two: it counts from now on.
            committed = Commits { answered: Some(at), unanswered: None };
        }
    }
    assert!(acks > 50, "{acks} acks are no load");
}
