//! A disk that is full: producers are told to retry, everything else goes on, and no restart is needed when there is
//! space again.
//!
//! What was acked is there, also if the broker is killed while the disk is full. No write through the memory-mapped index
//! ends the process. `HERMITMQ_TEST_SEED` repeats a run, `HERMITMQ_TEST_ROUNDS` makes it longer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::time::Duration;

use support::{
    Broker, INJECT_TOOLS, Journal, Load, Loss, Outcome, Place, Plan, Random, RawClient, Start,
    Tracer, VOLUME_TOOLS, Volume, frame, privileged, rounds, scratch_in_memory, wait_for,
};

fn start(data: &Path) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2)
        .env("HERMITMQ_SERVER__REACTORS", 2)
}

fn place(topic: &str, partition: u32) -> Place {
    (topic.to_owned(), partition)
}

fn plan(usual: u32) -> Plan {
    let (first, second) = (place("orders", 0), place("events", 1));
    Plan {
        producers: vec![first.clone(), first.clone(), second],
        watched: vec![first.clone()],
        committed: vec![first],
        usual,
        budget: u64::MAX,
    }
}

/// Says stored; refused frames are offered again.
fn append_again(broker: &Broker, journal: &mut Journal, place: &Place) {
    let again = wait_for("appends to work again", || {
        let mut client = RawClient::produce(broker.addr(), &place.0, place.1);
        client.send(&frame(1, b"", b"probe"));
        (client.read_ack().code == 0).then_some(())
    });
    let () = again;
    journal.append(broker.addr(), place);
}
