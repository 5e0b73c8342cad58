//! The hot path allocates nothing for a record: counted over the whole process, in which a broker and its clients run.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hermitmq::config::Config;
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::{ACK_LEN, Request};
use hermitmq::record::FrameBuilder;
use hermitmq::server::Server;
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
    config.server.port = 0;
    config.storage.data_dir = dir.path().to_owned();
    let server = Server::start(&config).unwrap();
    let topic = TopicName::parse("counted").unwrap();
    let group = GroupName::parse("g").unwrap();
    let mut chunk = Vec::new();
    for _ in 0..CHUNK {
        FrameBuilder::new(1).write(&[b'x'; PAYLOAD], &mut chunk).unwrap();
    }
    let mut buf = vec![0; chunk.len()];
    let mut producer = connect(&server, &Request::Produce { topic: topic.clone(), partition: 0 });
    let mut consumer = connect(&server, &Request::Consume { group, topic, partition: 0 });
    run((&mut producer, &mut consumer), &chunk, &mut buf, 10);

    let region = Region::new(ALLOCATOR);
    run((&mut producer, &mut consumer), &chunk, &mut buf, ROUNDS);
    let stats = region.change();
    let records = ROUNDS * CHUNK;
    let allocations = stats.allocations + stats.reallocations;
    // The flusher wakes now and then, and a list may grow once more: a handful, whatever the number of records.
    assert!(allocations < records / 500, "{allocations} allocations for {records} records");
    server.stop().unwrap();
}
