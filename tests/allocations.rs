//! The hot path allocates nothing for a record: counted over the whole process, in which a broker and its clients run.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hermitmq::broker::TopicOptions;
use hermitmq::config::Config;
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::{ACK_LEN, Request};
use hermitmq::record::FrameBuilder;
use hermitmq::server::Server;
use hermitmq::storage::Durability;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAYLOAD: usize = 100;
/// Frames of one write.
const CHUNK: usize = 500;
const ROUNDS: usize = 100;

fn connect(server: &Server, request: &Request) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream
}

/// Sends a chunk, takes its acks, and takes its frames at the consumer's end, `rounds` times over.
fn run(clients: (&mut TcpStream, &mut TcpStream), chunk: &[u8], buf: &mut [u8], rounds: usize) {
    let (producer, consumer) = clients;
    for _ in 0..rounds {
        producer.write_all(chunk).unwrap();
        producer.read_exact(&mut buf[..CHUNK * ACK_LEN]).unwrap();
        consumer.read_exact(&mut buf[..chunk.len()]).unwrap();
    }
}

#[test]
fn nothing_is_allocated_for_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.admin.listen.clear();
    config.server.port = 0;
    config.storage.data_dir = dir.path().to_owned();
    let topics = [Durability::Interval, Durability::Always].map(|durability| TopicOptions {
        durability: Some(durability),
        ..TopicOptions::named(TopicName::parse(format!("{durability:?}")).unwrap())
    });
    config.topic = topics.to_vec();
    let server = Server::start(&config).unwrap();
    let mut chunk = Vec::new();
    for _ in 0..CHUNK {
        FrameBuilder::new(1).write(&[b'x'; PAYLOAD], &mut chunk).unwrap();
    }
    let mut buf = vec![0; chunk.len()];
    // One after the other: what is counted is the whole process.
    for TopicOptions { name: topic, .. } in topics {
        let group = GroupName::parse("g").unwrap();
        let produce = Request::Produce { topic: topic.clone(), partition: 0 };
        let consume = Request::Consume { group, topic: topic.clone(), partition: 0 };
        let (mut producer, mut consumer) = (connect(&server, &produce), connect(&server, &consume));
        run((&mut producer, &mut consumer), &chunk, &mut buf, 10);

        let region = Region::new(ALLOCATOR);
        run((&mut producer, &mut consumer), &chunk, &mut buf, ROUNDS);
        let stats = region.change();
        let records = ROUNDS * CHUNK;
        let allocations = stats.allocations + stats.reallocations;
        // A flusher wakes now and then, and a list may grow once more: a handful, whatever the number of records.
        assert!(
            allocations < records / 500,
            "{topic}: {allocations} allocations for {records} records"
        );
    }
    server.stop().unwrap();
}
