//! A flush that fails is final: the kernel may have dropped what it could not write, and the next `fdatasync` says OK.
//!
//! The partition takes no more records and says so once; what is on the disk can be read, and no more; the other partitions go
//! on. After a restart nothing is served that was not sent.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use support::{
    Broker, INJECT_TOOLS, Journal, Load, Loss, Place, Plan, Random, RawClient, Start, Tracer,
    VOLUME_TOOLS, Volume, assert_verifies, drain, durable_ends, frame, privileged,
    scratch_in_memory, wait_for,
};

fn start(data: &Path) -> Start {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
        .env("HERMITMQ_STORAGE__MIN_FREE_MB", 0)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 1)
}

fn place(topic: &str) -> Place {
    (topic.to_owned(), 0)
}

/// Lines of the log that say a flush failed, for a topic.
fn failures(broker: &Broker, topic: &str) -> usize {
    let lines = broker.lines_at("ERROR").into_iter();
    let of_topic = lines.filter(|line| line.get("partition").contains(topic));
    of_topic.filter(|line| line.get("message") == "flush failed").count()
}

/// Appends to `doomed` until a flush fails; then nothing is stored there any more, whatever the disk says later.
fn append_until_refused(broker: &Broker, journal: &mut Journal, seed: u64) {
    let doomed = place("doomed");
    let plan = Plan {
        producers: vec![doomed.clone(); 2],
        watched: Vec::new(),
        committed: Vec::new(),
        usual: 30_000,
        // More than the medium has room for, less than its file system believes to have.
        budget: 20 << 20,
    };
    let load = Load::start(broker.addr(), &plan, seed, journal);
    wait_for("the flush to fail", || (failures(broker, "doomed") == 1).then_some(()));
    std::thread::sleep(Duration::from_millis(50));
    load.stop();
    let outcome = load.finish(journal);
    assert!(outcome.stored > 0, "{outcome:?}");
    assert_refused(broker);
}

fn assert_refused(broker: &Broker) {
    let mut client = RawClient::produce(broker.addr(), "doomed", 0);
    client.send(&frame(1, b"", b"too late"));
    assert_eq!(client.read_ack().code, 0xff);
}

/// Both topics can be read, the one as far as it is durable; it takes no records, the other does.
fn assert_read_only(broker: &Broker, data: &Path, journal: &mut Journal, what: &str) {
    let loss = not_durable(data);
    journal.clone().check(broker.addr(), &loss, what);
    for _ in 0..20 {
        assert_refused(broker);
        journal.append(broker.addr(), &place("healthy"));
        std::thread::sleep(Duration::from_millis(5));
    }
    journal.clone().check(broker.addr(), &loss, what);
    assert_eq!((failures(broker, "doomed"), failures(broker, "healthy")), (1, 0), "{what}");
    let errors = broker.lines_at("ERROR");
    assert_eq!(errors.len(), 1, "{what}: {errors:?}");
}

#[test]
fn no_append_after_a_flush_that_failed_once() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    // Of the active segment, of sealed ones, of the directory; and the name of a segment whose predecessor is durable.
    for fault in [
        "fdatasync:error=EIO:when=1",
        "fdatasync:error=EIO:when=2",
        "fdatasync:error=EIO:when=5",
        "fdatasync:error=ENOSPC:when=3",
        "fsync:error=EIO:when=1",
        "/^rename:error=EIO:when=1",
    ] {
        let (_dir, data) = scratch_in_memory();
        let mut journal = Journal::default();
        let broker = start(&data).with_admin().run();
        for topic in ["healthy", "doomed"] {
            journal.append(broker.addr(), &place(topic));
            // Its first flush is over.
            broker.wait_flushed(topic);
        }
        let tracer = Tracer::attach(broker.pid(), fault);
        append_until_refused(&broker, &mut journal, random.next());
        drop(tracer);
        assert_read_only(&broker, &data, &mut journal, fault);
        broker.kill();
        // Nothing was lost here but the flush: everything is there, and takes records.
        let broker = start(&data).run();
        journal.check(broker.addr(), &Loss::Nothing, fault);
        journal.append(broker.addr(), &place("doomed"));
        assert!(broker.terminate().0.success(), "{fault}");
    }
}

#[test]
fn a_medium_that_loses_what_it_cannot_take() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    let mut volume = Volume::thin(96, 24);
    let mut journal = Journal::default();
    let broker = start(&volume.data()).run();
    append_until_refused(&broker, &mut journal, random.next());
    let loss = not_durable(&volume.data());
    let before = drain(broker.addr(), "reader", "doomed", 0);
    assert!(!before.is_empty());
    // The medium takes more again: that is no reason to trust it.
    volume.enlarge_medium(200);
    std::thread::sleep(Duration::from_millis(100));
    assert_refused(&broker);
    // Memory lets go of what could not be written: nobody is sent what the files hold there then.
    let_go(&volume.data().join("doomed_0"));
    journal.clone().check(broker.addr(), &loss, "without what memory held");
    assert_eq!(drain(broker.addr(), "reader", "doomed", 0).len(), before.len());
    assert_eq!(failures(&broker, "doomed"), 1);
    broker.kill();
    volume.remount();
    let broker = start(&volume.data()).run();
    // Anything since the last flush that worked may be gone.
    let lost = journal.check(broker.addr(), &loss, "after the restart");
    println!("{lost} of {} records lost", before.len());
    journal.append(broker.addr(), &place("doomed"));
    assert!(broker.terminate().0.success());
    assert_verifies(&volume.data(), "after the restart");
}

/// At a restart memory still holds the files as they were written: that is not what the medium has.
#[test]
fn what_only_memory_holds_is_not_served_after_a_restart() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let mut random = Random::seeded();
    // Where the medium has lost the journal of the file system as well, nobody can start without a remount: anew.
    let (mut volume, mut journal, loss) = wait_for("a file system that goes on", || {
        let (volume, mut journal) = (Volume::thin(96, 24), Journal::default());
        let broker = start(&volume.data()).run();
        append_until_refused(&broker, &mut journal, random.next());
        let loss = not_durable(&volume.data());
        volume.enlarge_medium(200);
        broker.kill();
        let writable = std::fs::File::create(volume.path().join("probe")).is_ok();
        writable.then_some((volume, journal, loss))
    });
    let broker = start(&volume.data()).run();
    journal.check(broker.addr(), &loss, "after the restart");
    let served = drain(broker.addr(), "reader", "doomed", 0);
    broker.kill();
    volume.remount();
    let broker = start(&volume.data()).run();
    let stored = drain(broker.addr(), "reader", "doomed", 0);
    println!("{} frames were served, {} are there", served.len(), stored.len());
    assert!(served.len() <= stored.len());
    assert!(served.iter().zip(&stored).all(|(served, stored)| served.bytes == stored.bytes));
}

/// What is not durable of the one topic, and nothing of the other.
fn not_durable(data: &Path) -> Loss {
    let mut durable = durable_ends(data, &[place("doomed")]);
    durable.insert(place("healthy"), u64::MAX);
    let known_before = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
    Loss::Suffix { known_before, durable }
}

/// Has the kernel forget what it holds of the files in a directory and has written, or believes to have.
fn let_go(dir: &Path) {
    for file in std::fs::read_dir(dir).unwrap() {
        let file = std::fs::File::open(file.unwrap().path()).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}
