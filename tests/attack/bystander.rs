//! Somebody who has nothing to do with the attack: how long its records take, beside it and without it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::support::{RawClient, frame};

/// Records of one round.
const RECORDS: usize = 200;

/// Rounds with and without the attack, in turns.
const ROUNDS: usize = 3;

/// Tries: a machine that is busy with something else disturbs one, a broker that lets others wait disturbs all.
const TRIES: usize = 4;

/// Below this nobody is disturbed, whatever the ratio.
const FLOOR: Duration = Duration::from_micros(500);

/// How much slower than undisturbed is still undisturbed.
const RATIO: u32 = 2;

/// The 99th percentile of the time from sending a record to having its ack and the record itself.
pub fn p99(addr: SocketAddr) -> Duration {
    let mut producer = RawClient::produce(addr, "bystander", 0);
    let mut sent = frame(0, b"", b"first");
    let from = producer.append(&sent);
    let group = format!("bystander-{from}");
    super::support::commit(addr, &group, "bystander", 0, from);
    let mut consumer = RawClient::consume(addr, &group, "bystander", 0);
    assert_eq!(consumer.read_frame().header.offset, from);
    let mut took = Vec::new();
    for number in 0..RECORDS {
        sent = frame(number as u64, b"key", &[b'x'; 100]);
        let begun = Instant::now();
        producer.append(&sent);
        assert_eq!(consumer.read_frame().as_sent(), sent);
        took.push(begun.elapsed());
        // Somebody's usual pace: an attack is not a benchmark.
        std::thread::sleep(Duration::from_micros(200));
    }
    took.sort_unstable();
    took[RECORDS * 99 / 100 - 1]
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Measures a bystander with and without the attack, which goes on for as long as what `attack` returns is kept.
pub fn assert_undisturbed<A>(addr: SocketAddr, what: &str, mut attack: impl FnMut() -> A) {
    p99(addr);
    for number in 1.. {
        let (mut without, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            without.push(p99(addr));
            let attack = attack();
            beside.push(p99(addr));
            drop(attack);
        }
        let (without, beside) = (median(without), median(beside));
        println!("p99 beside {what}: {beside:?}, without: {without:?}");
        if beside <= without.max(FLOOR) * RATIO {
            return;
        }
        assert!(number < TRIES, "{what}: {beside:?} beside it, {without:?} without it");
    }
}
