//! Power cuts, on an ext4 of the test's own: what was not made durable is gone, in whatever order.
//!
//! `interval`: only the end of a log is lost, and nothing that a flush had reached. `always`: nothing acked is lost.
//! `HERMITMQ_TEST_SEED` repeats a run, `HERMITMQ_TEST_ROUNDS` makes it longer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::{
    Broker, Commits, Journal, Load, Loss, Place, Plan, Random, Start, VOLUME_TOOLS, Volume,
    assert_group_resumes, assert_verifies, durable_ends, listing, privileged, rounds,
};

const FLUSH_INTERVAL: Duration = Duration::from_millis(20);

/// A disk this busy may hold up a flush for that long.
const PATIENCE: Duration = Duration::from_millis(500);

/// How much later than it wants to a thread gets its turn here, at worst: a flusher is late by as much, a few times over.
struct Lateness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Lateness {
    fn measure() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let wanted = Duration::from_millis(2);
                let begun = Instant::now();
                std::thread::sleep(wanted);
                worst = worst.max(begun.elapsed().saturating_sub(wanted));
            }
            worst
        });
        Self { stop, thread }
    }

    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Rounds on one file system.
const BLOCK: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Durability {
    Interval,
    Always,
}

fn start(data: &Path, durability: Durability) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__DURABILITY", format!("{durability:?}").to_lowercase())
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", FLUSH_INTERVAL.as_millis())
        .env("HERMITMQ_STORAGE__MIN_FREE_MB", 0)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2)
        .env("HERMITMQ_SERVER__REACTORS", 2)
}

fn place(topic: &str, partition: u32) -> Place {
    (topic.to_owned(), partition)
}

struct Cuts {
    durability: Durability,
    volume: Volume,
    random: Random,
    journal: Journal,
    commits: Commits,
    acks: usize,
    lost: usize,
}

impl Cuts {
    fn plan(&self, round: u64) -> Plan {
        let (first, new) = (place("orders", 0), place(&format!("new-{round}"), 1));
        let producers =
            vec![first.clone(), first.clone(), place("orders", 1), place("events", 0), new];
        Plan {
            // What a consumer has seen is durable: nothing that it was sent disappears.
            watched: if self.durability == Durability::Always {
                producers[..2].to_vec()
            } else {
                Vec::new()
            },
            committed: vec![first],
            producers,
            usual: 4000,
            // Five rounds of it fit the volume.
            budget: 3 << 20,
        }
    }

    fn load(&mut self, broker: &Broker, plan: &Plan) -> Load {
        Load::start(broker.addr(), plan, self.random.next(), &mut self.journal)
    }

    fn finish(&mut self, load: Load) {
        let outcome = load.finish(&mut self.journal);
        self.acks += outcome.stored;
        let new = outcome.commits[&place("orders", 0)];
        let answered = new.answered.or(self.commits.answered);
        self.commits = Commits { answered, unanswered: new.unanswered };
    }

    /// Loads the broker, cuts the power and looks at what is there.
    fn round(&mut self, round: u64) {
        let data = self.volume.data();
        let broker = start(&data, self.durability).with_admin().run();
        // Now and then time for everything to become durable, between two loads.
        let mut kept = None;
        let mut flushed = HashMap::new();
        let mut load_for = Duration::from_millis(5 + self.random.below(100));
        if round.is_multiple_of(8) {
            // A consumer would wait for more.
            let load = self.load(&broker, &Plan { watched: Vec::new(), ..self.plan(round) });
            std::thread::sleep(Duration::from_millis(50));
            load.stop();
            self.finish(load);
            kept = self.commits.answered;
            let places = self.journal.places();
            let topics: BTreeSet<&str> = places.iter().map(|place| place.0.as_str()).collect();
            for topic in topics {
                broker.wait_flushed(topic);
            }
            broker.wait_flushed("__consumer_offsets");
            flushed = self.journal.ends();
            // The beginning of the second load is older than what may be lost.
            load_for += 2 * FLUSH_INTERVAL + PATIENCE;
        }
        let lateness = Lateness::measure();
        let load = self.load(&broker, &self.plan(round));
        std::thread::sleep(load_for);
        let mut durable = durable_ends(&data, &self.journal.places());
        for (place, end) in flushed {
            let durable = durable.entry(place).or_default();
            *durable = end.max(*durable);
        }
        let (now, late) = (Instant::now(), lateness.end());
        // An `fdatasync` under way when the file system is shut down may say OK without having written: what is acked
        // after that moment was not acked before the power was cut.
        let known_before = match self.durability {
            Durability::Interval => {
                now.checked_sub(2 * FLUSH_INTERVAL + PATIENCE + 4 * late).unwrap()
            }
            Durability::Always => now,
        };
        self.volume.cut();
        std::thread::sleep(Duration::from_millis(self.random.below(10)));
        broker.kill();
        self.finish(load);
        self.volume.remount();
        if self.random.below(3) == 0 {
            self.cut_while_starting();
        }
        let loss = Loss::Suffix { known_before, durable };
        self.check(round, &loss, kept);
    }

    fn cut_while_starting(&mut self) {
        let after = Duration::from_millis(self.random.below(20));
        let data = self.volume.data();
        std::thread::scope(|scope| {
            let started = scope.spawn(|| start(&data, self.durability).try_run().map(Broker::kill));
            std::thread::sleep(after);
            self.volume.cut();
            let _ = started.join().unwrap();
        });
        self.volume.remount();
    }

    fn check(&mut self, round: u64, loss: &Loss, kept: Option<u64>) {
        let what = format!("round {round}");
        let broker = start(&self.volume.data(), self.durability).run();
        self.lost += self.journal.check(broker.addr(), loss, &what);
        let (first, commits) = (place("orders", 0), self.commits);
        let at = assert_group_resumes(
            broker.addr(),
            &first,
            &mut self.journal,
            commits,
            // Commits are flushed at intervals in any mode.
            false,
            &what,
        );
        assert!(kept.is_none_or(|kept| kept < at + 8), "{what}: {kept:?} was durable, not {at}");
        self.commits = Commits { answered: Some(at), unanswered: None };
        // The new topic takes records, as many partitions as it has got.
        let names = listing(&self.volume.data());
        for partition in 0..2 {
            let new = place(&format!("new-{round}"), partition);
            if partition == 0 || names.contains(&format!("{}_{partition}", new.0)) {
                self.journal.append(broker.addr(), &new);
            }
        }
        assert!(broker.terminate().0.success(), "{what}");
        assert_verifies(&self.volume.data(), &what);
    }
}

fn power_cuts(durability: Durability, short: u64) {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let rounds = rounds(short);
    let mut cuts = Cuts {
        durability,
        volume: Volume::new(160),
        random: Random::seeded(),
        journal: Journal::default(),
        commits: Commits::default(),
        acks: 0,
        lost: 0,
    };
    for round in 0..rounds {
        if round > 0 && round.is_multiple_of(BLOCK) {
            cuts.volume.format();
            cuts.journal = Journal::default();
            cuts.commits = Commits::default();
        }
        cuts.round(round);
    }
    println!("{durability:?}: {rounds} cuts, {} acks, {} of them lost", cuts.acks, cuts.lost);
    assert!(cuts.acks > usize::try_from(rounds).unwrap() * 10, "{} acks are no load", cuts.acks);
    if durability == Durability::Interval {
        assert!(cuts.lost > 0, "nothing was ever lost: the power was not cut");
    }
}

#[test]
fn power_cuts_in_interval_mode() {
    power_cuts(Durability::Interval, 25);
}

#[test]
fn power_cuts_in_always_mode() {
    power_cuts(Durability::Always, 25);
}
