//! A disk that is full: producers are told to retry, everything else goes on, and no restart is needed once there is
//! space again.
//!
//! What was acked is there, also if the broker is killed and started while the disk is full. No write through a mapped
//! file ends the process. `HERMITMQ_TEST_SEED` repeats a run, `HERMITMQ_TEST_ROUNDS` makes it longer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use hermitmq::record::{Frames, wire};
use support::{
    Broker, COMMIT, CONSUME, INJECT_TOOLS, Journal, Load, Loss, Place, Plan, Random, RawClient,
    Start, Tracer, VOLUME_TOOLS, Volume, assert_verifies, files_in_use, handshake, inject,
    inject_on, listing, names_in_use, privileged, rounds, scratch_in_memory, wait_for,
};

fn start(data: &Path, segment_mb: u64) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", segment_mb)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
        .env("HERMITMQ_STORAGE__MIN_FREE_MB", 0)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2)
        .env("HERMITMQ_SERVER__REACTORS", 2)
}

fn place(topic: &str, partition: u32) -> Place {
    (topic.to_owned(), partition)
}

/// Bytes that one producer of a turn sends at most, so that it is the ballast that fills the volume: where the records of all
/// turns do, no space comes back.
const BUDGET: u64 = 10 << 20;

fn plan(usual: u32, watched: bool) -> Plan {
    let (first, second) = (place("orders", 0), place("events", 1));
    Plan {
        producers: vec![first.clone(), first.clone(), second],
        watched: if watched { vec![first.clone()] } else { Vec::new() },
        committed: vec![first],
        usual,
        budget: BUDGET,
    }
}

/// Every partition takes records again, soon and without a restart.
fn appends_work_again(broker: &Broker, journal: &mut Journal) {
    for place in journal.places() {
        wait_for(&format!("appends to {place:?}"), || journal.try_append(broker.addr(), &place));
    }
}

/// Segments of 1 MiB roll all the time; in one of 32 MiB the index and the checksums must grow.
const SEGMENT_MB: [u64; 2] = [1, 32];

#[test]
fn a_full_disk_is_survived_without_a_restart() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    let mut volume = Volume::new(128);
    let mut refused = 0;
    for round in 0..rounds(8) {
        volume.format();
        let mut journal = Journal::default();
        let segment_mb = SEGMENT_MB[usize::try_from(round % 2).unwrap()];
        let mut broker = start(&volume.data(), segment_mb).run();
        for turn in 0..3 {
            let what = format!("round {round}, turn {turn}, segments of {segment_mb} MiB");
            let usual = if random.below(2) == 0 { 200 } else { 4000 };
            let load = Load::start(broker.addr(), &plan(usual, false), random.next(), &mut journal);
            // The first time it is full in any case: at once.
            if round > 0 {
                std::thread::sleep(Duration::from_millis(random.below(40)));
            }
            let ballast = volume.fill(random.below(1 << 20));
            if round == 0 {
                load.wait_refused();
            }
            std::thread::sleep(Duration::from_millis(60));
            load.stop();
            refused += load.finish(&mut journal).refused;
            assert!(broker.is_running(), "{what}");
            journal.check(broker.addr(), &Loss::Nothing, &what);
            for dir in ["orders_0", "events_1"] {
                assert_nothing_half_written(&volume.data().join(dir), &what);
            }
            ballast.remove();
            appends_work_again(&broker, &mut journal);
            journal.check(broker.addr(), &Loss::Nothing, &what);
        }
        let (status, _) = broker.terminate();
        assert!(status.success(), "round {round}: {status}");
        let broker = start(&volume.data(), segment_mb).run();
        journal.check(broker.addr(), &Loss::Nothing, &format!("round {round}, restarted"));
    }
    assert!(refused > 0, "the disk was never full");
}

#[test]
fn killed_and_started_while_the_disk_is_full() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    let mut volume = Volume::new(64);
    let mut refused = 0;
    for round in 0..rounds(10) {
        let what = format!("round {round}");
        volume.format();
        let mut journal = Journal::default();
        let segment_mb = SEGMENT_MB[usize::try_from(round % 2).unwrap()];
        let broker = start(&volume.data(), segment_mb).run();
        let usual = if random.below(2) == 0 { 200 } else { 4000 };
        let load = Load::start(broker.addr(), &plan(usual, true), random.next(), &mut journal);
        // The first time it is full in any case: at once.
        if round > 0 {
            std::thread::sleep(Duration::from_millis(random.below(60)));
        }
        let ballast = volume.fill(random.below(1 << 20));
        if round == 0 {
            load.wait_refused();
        }
        std::thread::sleep(Duration::from_millis(10 + random.below(50)));
        broker.kill();
        refused += load.finish(&mut journal).refused;
        let started = start(&volume.data(), segment_mb).try_run();
        let broker = started.unwrap_or_else(|ended| {
            panic!("{what}: no start on a full disk: {}\n{}", ended.status, ended.log)
        });
        journal.check(broker.addr(), &Loss::Nothing, &what);
        broker.kill();
        ballast.remove();
        let broker = start(&volume.data(), segment_mb).run();
        journal.check(broker.addr(), &Loss::Nothing, &what);
        appends_work_again(&broker, &mut journal);
        assert!(broker.terminate().0.success(), "{what}");
        assert_verifies(&volume.data(), &what);
    }
    assert!(refused > 0, "the disk was never full");
}

/// A data directory that a broker left when it was killed, with segments whose names are provisional.
fn killed_before_it_flushed(data: &Path, journal: &mut Journal) {
    let broker = start(data, 1).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 600_000).run();
    let mut plan = plan(4000, false);
    plan.budget = 2 << 20;
    Load::start(broker.addr(), &plan, 7, journal).spend(journal);
    broker.kill();
    assert!(listing(&data.join("orders_0")).iter().any(|name| name.ends_with(".wal.new")));
}

#[test]
fn a_start_without_a_single_block() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let mut journal = Journal::default();
    killed_before_it_flushed(&data, &mut journal);
    // Not even the process id can be written down.
    let command = inject_on(&data.join(".lock"), "write:error=ENOSPC");
    let started = start(&data, 1).by(command).try_run();
    let broker = started.unwrap_or_else(|ended| panic!("{}\n{}", ended.status, ended.log));
    journal.check(broker.addr(), &Loss::Nothing, "full");
    broker.kill();
    let broker = start(&data, 1).run_after_kill();
    journal.check(broker.addr(), &Loss::Nothing, "with space");
    appends_work_again(&broker, &mut journal);
}

#[test]
fn a_start_that_cannot_rename() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let mut journal = Journal::default();
    killed_before_it_flushed(&data, &mut journal);
    let started = start(&data, 1).by(inject("/^rename:error=ENOSPC")).try_run();
    let broker = started.unwrap_or_else(|ended| panic!("{}\n{}", ended.status, ended.log));
    journal.check(broker.addr(), &Loss::Nothing, "full");
    for place in journal.places() {
        journal.append(broker.addr(), &place);
    }
    let names = names_in_use(&data.join("orders_0"), |name| name.contains(".wal"));
    assert!(names.iter().any(|name| name.ends_with(".wal.new")), "{names:?}");
    broker.kill();
    let broker = start(&data, 1).run_after_kill();
    journal.check(broker.addr(), &Loss::Nothing, "with space");
    appends_work_again(&broker, &mut journal);
}

/// The `.wal` files of a partition hold frames and nothing else.
fn assert_nothing_half_written(dir: &Path, what: &str) {
    // Its topic may have come too late.
    let is_log = |name: &str| name.contains(".wal");
    let logs = if dir.exists() { files_in_use(dir, is_log) } else { Vec::new() };
    for (name, bytes) in logs {
        let mut frames = Frames::new(&bytes);
        frames.by_ref().for_each(drop);
        let rest = frames.rest().len();
        assert_eq!(rest, 0, "{what}: {name} ends in {rest} bytes that are no frame");
    }
}

#[test]
fn writes_that_fail_leave_nothing_behind() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    for fault in [
        "pwrite64:error=ENOSPC:when=3..12",
        "pwrite64:error=EDQUOT:when=1+3",
        "pwrite64:error=EIO:when=5+5",
        "pwrite64:error=EINTR:when=1+2",
        "pwrite64:retval=0:when=4+4",
        "fallocate:error=ENOSPC",
        "fallocate:error=EOPNOTSUPP",
        "/^open:error=EMFILE:when=1..3",
        "mmap:error=ENOMEM:when=1..4",
    ] {
        let (_dir, data) = scratch_in_memory();
        let mut journal = Journal::default();
        let mut broker = start(&data, 1).run();
        for place in [place("orders", 0), place("events", 1)] {
            journal.append(broker.addr(), &place);
        }
        let mut plan = plan(20_000, false);
        plan.budget = 1_500_000;
        let tracer = Tracer::attach(broker.pid(), fault);
        let load = Load::start(broker.addr(), &plan, random.next(), &mut journal);
        let outcome = load.spend(&mut journal);
        drop(tracer);
        println!("{fault}: {} stored, {} refused", outcome.stored, outcome.refused);
        assert!(broker.is_running(), "{fault}");
        journal.check(broker.addr(), &Loss::Nothing, fault);
        appends_work_again(&broker, &mut journal);
        for dir in ["orders_0", "events_1"] {
            assert_nothing_half_written(&data.join(dir), fault);
        }
        broker.kill();
        let broker = start(&data, 1).run();
        journal.check(broker.addr(), &Loss::Nothing, fault);
        assert!(broker.terminate().0.success(), "{fault}");
    }
}

/// Truncates a file of a partition while it is in use, reads and appends; returns how the broker ended. Only what is
/// derived from the log may be lost with it.
fn truncated_in_use(extension: &str, last: bool) -> ExitStatus {
    let (_dir, data) = scratch_in_memory();
    let mut journal = Journal::default();
    let mut broker = start(&data, 1).run();
    let mut plan = plan(4000, false);
    plan.budget = 2_000_000;
    Load::start(broker.addr(), &plan, 7, &mut journal).spend(&mut journal);
    let dir = data.join("orders_0");
    // A log gets another name when the one before it was flushed: it may be gone when it is opened.
    let file = wait_for("segments that have rolled and keep their names", || {
        let mut names = listing(&dir);
        names.retain(|name| name.contains(extension));
        let name = if last { names.last() } else { names.first() };
        let name = name.filter(|_| names.len() > 1)?;
        fs::OpenOptions::new().write(true).open(dir.join(name)).ok()
    });
    file.set_len(0).unwrap();
    let orders = place("orders", 0);
    for at in 0..100 {
        // Whatever comes of it, for these clients.
        let hello = handshake(COMMIT, &["reader", "orders"], 0);
        let commit = [hello, wire::u64_bytes(at * 7).to_vec()].concat();
        let _ = RawClient::try_begin(broker.addr(), &commit);
        let _ = RawClient::try_begin(broker.addr(), &handshake(CONSUME, &["reader", "orders"], 0));
        let _ = journal.try_append(broker.addr(), &orders);
        if !broker.is_running() {
            return broker.wait().0;
        }
    }
    assert!(journal.try_append(broker.addr(), &place("events", 0)).is_some(), "others go on");
    broker.kill();
    let broker = start(&data, 1).run();
    if extension != ".wal" {
        journal.check(broker.addr(), &Loss::Nothing, extension);
    }
    broker.terminate().0
}

#[test]
fn a_file_truncated_while_in_use_ends_nobody() {
    for extension in [".wal", ".idx", ".sum"] {
        for last in [false, true] {
            let status = truncated_in_use(extension, last);
            assert_eq!(status.signal(), None, "{extension}, the last segment: {last}");
        }
    }
}
