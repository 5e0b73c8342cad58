//! Recorded conversations with the original broker, replayed: every byte received is equal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::net::SocketAddr;

use support::{Broker, RawClient, hex, scratch, unhex};

/// Sends each `>` line and expects each `<` line of a transcript; then the connection has nothing more to say.
fn replay(addr: SocketAddr, file: &str) {
    let path = format!("{}/tests/data/v1/transcripts/{file}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut client = RawClient::connect(addr);
    let mut received = 0;
    for (index, line) in text.lines().enumerate() {
        let (direction, bytes) = line.split_once(' ').unwrap();
        let bytes = unhex(bytes);
        match direction {
            ">" => client.send(&bytes),
            "<" => {
                assert_eq!(
                    hex(&client.read(bytes.len())),
                    hex(&bytes),
                    "{file}, line {}",
                    index + 1
                );
                received += bytes.len();
            }
            other => panic!("{path}: {other}"),
        }
    }
    assert!(received > 0, "{file} compares something");
    client.finish_sending();
    assert_eq!(hex(&client.read_to_end()), "", "{file}: nothing more comes");
}

#[test]
fn conversations_with_the_original_are_repeated_byte_for_byte() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    for file in ["produce", "consume_from_start", "commit", "consume_from_committed_mid_batch"] {
        replay(broker.addr(), file);
    }
    // And after a crash: the reading side stays the same.
    broker.kill();
    let broker = Broker::start(&data);
    for file in ["consume_from_start", "consume_from_committed_mid_batch"] {
        replay(broker.addr(), file);
    }
}
