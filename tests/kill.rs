//! SIGKILL at any moment: between any two system calls, while segments roll, topics begin and offsets are committed.
//!
//! Everything acked, and everything a consumer was sent, is there afterwards, once, at its offset, byte for byte.
//! `HERMITMQ_TEST_SEED` repeats a run, `HERMITMQ_TEST_ROUNDS` and `HERMITMQ_TEST_LONG` make it longer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use support::{
    Broker, Commits, INJECT_TOOLS, Journal, Load, Loss, Outcome, Place, Plan, Random, Start,
    Tracer, assert_group_resumes, assert_verifies, inject, is_long, privileged, rounds,
    scratch_in_memory,
};

fn start(data: &Path) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 10)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2)
        .env("HERMITMQ_SERVER__REACTORS", 2)
}

fn place(topic: &str, partition: u32) -> Place {
    (topic.to_owned(), partition)
}

/// Payload bytes of a producer between two kills: a life's rounds fit where there is little memory, however fast they go.
const BUDGET: u64 = 4 << 20;

/// What was committed, over all rounds.
#[derive(Default)]
struct Committed(BTreeMap<Place, Commits>);

impl Committed {
    fn add(&mut self, outcome: &Outcome) {
        for (place, new) in &outcome.commits {
            let known = self.0.entry(place.clone()).or_default();
            let answered = new.answered.or(known.answered);
            *known = Commits { answered, unanswered: new.unanswered };
        }
    }

    fn check(&mut self, broker: &Broker, journal: &mut Journal, what: &str) {
        for (place, commits) in &mut self.0 {
            let at = assert_group_resumes(broker.addr(), place, journal, *commits, true, what);
            // Whichever it was of the last two: it counts from now on.
            *commits = Commits { answered: Some(at), unanswered: None };
        }
    }
}

#[test]
fn killed_at_random_moments() {
    let mut random = Random::seeded();
    let mut acks = 0;
    let rounds = rounds(50);
    for block in 0..rounds.div_ceil(5) {
        let (_dir, data) = scratch_in_memory();
        let (mut journal, mut committed) = (Journal::default(), Committed::default());
        let mut broker = start(&data).run();
        for round in block * 5..rounds.min(block * 5 + 5) {
            let what = format!("round {round}");
            let new = place(&format!("new-{round}"), 1);
            let old = [("orders", 0), ("orders", 1), ("events", 0), ("orders", 0), ("events", 1)];
            let producers: Vec<Place> =
                old.map(|(topic, partition)| place(topic, partition)).into_iter().collect();
            let plan = Plan {
                watched: vec![producers[0].clone(), new.clone()],
                committed: vec![producers[0].clone()],
                producers: [producers, vec![new]].concat(),
                usual: 4000,
                budget: BUDGET,
            };
            let load = Load::start(broker.addr(), &plan, random.next(), &mut journal);
            std::thread::sleep(Duration::from_millis(random.below(80)));
            broker.kill();
            let outcome = load.finish(&mut journal);
            acks += outcome.stored;
            assert_eq!(outcome.refused, 0, "{what}");
            committed.add(&outcome);
            broker = start(&data).run();
            journal.check(broker.addr(), &Loss::Nothing, &what);
            committed.check(&broker, &mut journal, &what);
        }
        assert!(broker.terminate().0.success());
        assert_verifies(&data, "after a clean end");
        let broker = start(&data).run();
        journal.check(broker.addr(), &Loss::Nothing, "after a clean end");
        assert_eq!(broker.lines_at("WARN").len(), 0, "after a clean end");
    }
    assert!(acks > usize::try_from(rounds).unwrap() * 10, "{acks} acks are no load");
}

/// Numbers of calls to be killed at: all in the long form, fewer and fewer in the short one.
fn counts() -> impl Iterator<Item = u64> {
    let step = |n: &u64| Some(if is_long() { n + 1 } else { (n + 1).max(n * 8 / 5) });
    std::iter::successors(Some(1), step)
}

/// Kills on one data directory. What grows with each of them has more calls to be killed at, and more that is looked at.
const KILLS_OF_A_LIFE: usize = 5;

/// A data directory, and what is known to be in it.
struct Life {
    _dir: tempfile::TempDir,
    data: PathBuf,
    journal: Journal,
    committed: Committed,
}

impl Life {
    fn new() -> Self {
        let (dir, data) = scratch_in_memory();
        Self { _dir: dir, data, journal: Journal::default(), committed: Committed::default() }
    }

    /// Goes on for the kill with this number, or begins another one.
    fn go_on(&mut self, number: usize) {
        if number > 0 && number.is_multiple_of(KILLS_OF_A_LIFE) {
            *self = Self::new();
        }
    }
}

/// System calls that change what is on the disk, or might.
const CALLS: [&str; 8] =
    ["pwrite64", "ftruncate", "/^rename", "fdatasync", "fsync", "fallocate", "mmap", "/^mkdir"];

#[test]
fn killed_at_each_call_while_starting() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    let mut killed = 0;
    for call in CALLS {
        let mut life = Life::new();
        let places = [place("orders", 0), place("orders", 1)];
        let plan = Plan {
            producers: places.to_vec(),
            watched: Vec::new(),
            committed: places[..1].to_vec(),
            usual: 8000,
            budget: BUDGET,
        };
        for (number, count) in counts().enumerate() {
            life.go_on(number);
            let Life { data, journal, .. } = &mut life;
            // Something to recover from.
            let broker = start(data).run();
            let load = Load::start(broker.addr(), &plan, random.next(), journal);
            std::thread::sleep(Duration::from_millis(20));
            broker.kill();
            load.finish(journal);

            let what = format!("{call}:signal=KILL:when={count}");
            let started = start(data).by(inject(&what)).try_run();
            let broker = start_again(data, started);
            journal.check(broker.0.addr(), &Loss::Nothing, &what);
            if broker.1 {
                println!("{call}: killed {number} starts");
                killed += number;
                break;
            }
        }
    }
    assert!(killed > CALLS.len(), "{killed} starts were killed");
}

/// Starts the broker for good if it was killed while it started; the second value says that it was not.
fn start_again(data: &Path, started: Result<Broker, support::Ended>) -> (Broker, bool) {
    let survived = match started {
        Ok(broker) => {
            broker.kill();
            true
        }
        Err(ended) => {
            assert_eq!(ended.status.signal(), Some(9), "{}", ended.log);
            false
        }
    };
    (start(data).run_after_kill(), survived)
}

#[test]
fn killed_at_each_call_while_serving() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    for call in CALLS {
        let mut life = Life::new();
        let mut killed = 0;
        for (number, count) in counts().enumerate() {
            life.go_on(number);
            let Life { data, journal, committed, .. } = &mut life;
            let what = format!("{call}:signal=KILL:when={count}");
            let mut broker = start(data).env("HERMITMQ_SERVER__REACTORS", 1).run();
            let tracer = Tracer::attach(broker.pid(), &what);
            let (orders, new) = (place("orders", 0), place(&format!("new-{count}"), 0));
            let plan = Plan {
                producers: vec![orders.clone(), orders.clone(), new],
                watched: vec![orders.clone()],
                committed: vec![orders],
                usual: 16_000,
                budget: 600_000,
            };
            let load = Load::start(broker.addr(), &plan, random.next(), journal);
            // Long enough for the budget to be used, and for a flush after it.
            for _ in 0..30 {
                if !broker.is_running() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            load.stop();
            if broker.is_running() {
                broker.signal(rustix::process::Signal::TERM);
            }
            let (status, _) = broker.wait();
            drop(tracer);
            committed.add(&load.finish(journal));
            let broker = start(data).run_after_kill();
            journal.check(broker.addr(), &Loss::Nothing, &what);
            committed.check(&broker, journal, &what);
            drop(broker);
            if status.signal() != Some(9) {
                assert!(status.success(), "{what}: {status}");
                break;
            }
            killed += 1;
        }
        println!("{call}: killed {killed} times");
        assert!(killed > 0, "{call}: is never called");
    }
}

#[test]
fn a_topic_is_created_whole_or_not_at_all() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    for call in ["/^mkdir", "/^open", "fsync", "mmap", "fallocate"] {
        for count in 1..=12 {
            let what = format!("{call}:signal=KILL:when={count}");
            let (_dir, data) = scratch_in_memory();
            let settings = || start(&data).env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 4);
            let mut broker = settings().run();
            let tracer = Tracer::attach(broker.pid(), &what);
            let mut journal = Journal::default();
            let _ = journal.try_append(broker.addr(), &place("new", 0));
            if broker.is_running() {
                broker.signal(rustix::process::Signal::TERM);
            }
            let (status, _) = broker.wait();
            drop(tracer);
            let broker = settings().run_after_kill();
            for partition in 0..4 {
                journal.append(broker.addr(), &place("new", partition));
            }
            journal.check(broker.addr(), &Loss::Nothing, &what);
            if status.success() {
                break;
            }
        }
    }
}
