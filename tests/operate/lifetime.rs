//! The end: as process 1, while the log is recovered, and by force.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::said;
use super::support::http::get;
use super::support::{
    Broker, INJECT_TOOLS, RawClient, Start, assert_offsets_follow, drain, frame, inject,
    privileged, scratch, scratch_in_memory, wait_for,
};

/// The broker's process behind `unshare`, which forks.
fn child_of(parent: u32) -> Pid {
    let children = format!("/proc/{parent}/task/{parent}/children");
    wait_for("the broker's process", || {
        let list = fs::read_to_string(&children).ok()?;
        Pid::from_raw(list.split_whitespace().next()?.parse().ok()?)
    })
}

#[test]
fn process_1_of_a_container_ends_under_load() {
    if !privileged(&["unshare"]) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let unshare = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc"];
    let mut broker = Start::on(&data).run_under(&unshare);
    assert_eq!(said(&broker, "HermitMQ starts").get("pid"), "1");
    let process = child_of(broker.pid());
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let record = |i: u64| frame(i, b"", format!("record {i}").as_bytes());
    let mut sender = producer.split();
    let sending = std::thread::spawn(move || {
        let mut sent = 0;
        while sender.try_send(&record(sent)) {
            sent += 1;
        }
    });
    let mut acked = Vec::new();
    while let Some(ack) = producer.try_read_ack() {
        assert_eq!(ack.code, 0, "{ack:?}");
        acked.push(ack.offset);
        if acked.len() == 500 {
            kill_process(process, Signal::TERM).unwrap();
        }
    }
    drop(producer);
    sending.join().unwrap();
    let (status, log) = broker.wait();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(log.iter().all(|line| line.level() == "INFO"), "{log:?}");
    assert!(acked.len() >= 500);

    let broker = Broker::start(&data);
    let stored = drain(broker.addr(), "g", "t", 0);
    assert_offsets_follow(&stored, 0);
    for (number, offset) in (0..).zip(acked) {
        let got = stored.get(usize::try_from(offset).unwrap()).expect("what was acked is there");
        assert!(got.as_sent() == record(number), "offset {offset}");
    }
}

#[test]
fn a_second_signal_forces() {
    for second in [Signal::TERM, Signal::INT] {
        let (_dir, data) = scratch();
        let mut broker = Start::on(&data).env("HERMITMQ_SERVER__DRAIN_DELAY_MS", 3_600_000).run();
        broker.signal(Signal::TERM);
        said(&broker, "shutting down");
        assert!(broker.is_running());
        // This one changes nothing any more.
        broker.signal(Signal::HUP);
        broker.signal(second);
        let (status, log) = broker.wait();
        assert_eq!(status.code(), Some(1));
        assert_eq!(log.last().unwrap().get("message"), "second signal: ending at once");
    }
}

#[test]
fn a_recovery_ends_at_a_signal_and_says_how_far_it_is() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let before = Broker::start(&data);
    for topic in 0..4 {
        RawClient::produce(before.addr(), &format!("t{topic}"), 0).append(&frame(1, b"", b"x"));
    }
    before.kill();
    // Each partition waits for the disk.
    let mut slow = inject("openat:delay_enter=4000000");
    for topic in 0..4 {
        let log = data.join(format!("t{topic}_0")).join(format!("{:020}.wal", 0));
        slow.extend(["-P".into(), log.into_os_string()]);
    }
    let mut broker = Start::on(&data).with_admin().by(slow).spawn();
    let progress = said(&broker, "recovering the log, partition by partition");
    assert_eq!(progress.get("all"), "5", "{progress:?}");
    for path in ["/startupz", "/readyz"] {
        let answer = get(broker.admin(), path);
        assert_eq!(answer.status, 503);
        let check = answer.json()["checks"][0].clone();
        assert_eq!(check["name"], "recovery");
        assert!(check["reason"].as_str().unwrap().ends_with(" of 5 partitions"), "{check}");
    }
    broker.signal(Signal::TERM);
    let (status, log) = broker.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    let ended = "ended while the log was being recovered; the next start begins anew";
    assert!(log.iter().any(|line| line.get("message") == ended), "{log:?}");

    let broker = Broker::start(&data);
    for topic in 0..4 {
        let stored = drain(broker.addr(), "g", &format!("t{topic}"), 0);
        assert_eq!(stored.len(), 1);
    }
}
