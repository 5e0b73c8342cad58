//! Somebody who has nothing to do with the attack: how long its records take, beside it and without it.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hermitmq::protocol::v1_1::Start;

use super::support::v1_1::{Got, follower, next, open};
use super::support::{RawClient, frame};

/// Records of one round.
const RECORDS: usize = 200;

/// Rounds with and without the attack, in turns.
const ROUNDS: usize = 3;

/// Tries: a machine that is busy with something else disturbs one, a broker that lets others wait disturbs all.
const TRIES: usize = 8;

/// Below this nobody is disturbed, whatever the ratio.
const FLOOR: Duration = Duration::from_micros(500);

/// How much slower than undisturbed is still undisturbed.
const RATIO: u32 = 2;

/// Attacks of other tests are not what is measured, and take descriptors and memory that one of them may need.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A producer and a consumer of the same topic, connected before the attack.
#[derive(Debug)]
struct Bystander {
    producer: RawClient,
    consumer: RawClient,
}

impl Bystander {
    fn new(addr: SocketAddr) -> Self {
        let producer = RawClient::produce(addr, "bystander", 0);
        let (consumer, _) = open(addr, &follower("bystander", None, Start::Latest));
        Self { producer, consumer }
    }

    /// The 99th percentile of the time from sending a record to having its ack and the record itself.
    fn p99(&mut self) -> Duration {
        let mut took = Vec::new();
        for number in 0..RECORDS {
            let sent = frame(number as u64, b"key", &[b'x'; 100]);
            let begun = Instant::now();
            self.producer.append(&sent);
            let Got::Frame(got) = next(&mut self.consumer) else { panic!("no frame") };
            took.push(begun.elapsed());
            assert_eq!(got.as_sent(), sent);
            // Somebody's usual pace: an attack is not a benchmark.
            std::thread::sleep(Duration::from_micros(200));
        }
        took.sort_unstable();
        took[RECORDS * 99 / 100 - 1]
    }
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Measures a bystander with and without the attack, which goes on for as long as what `attack` returns is kept.
pub(super) fn assert_undisturbed<A>(addr: SocketAddr, what: &str, mut attack: impl FnMut() -> A) {
    let mut bystander = Bystander::new(addr);
    bystander.p99();
    for number in 1.. {
        let (mut without, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            without.push(bystander.p99());
            let attack = attack();
            beside.push(bystander.p99());
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
