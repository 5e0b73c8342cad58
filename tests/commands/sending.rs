//! `produce`: files, rates, and what is said about it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::pty::Pty;
use super::support::http::{get, metric_of};
use super::support::{Broker, Running, Start, drain, hermitmq, scratch, wait_for};
use super::{complaint, ok, run, said};

fn payloads(broker: &Broker, topic: &str) -> Vec<Vec<u8>> {
    let frames = drain(broker.addr(), "look", topic, 0);
    frames.iter().map(|frame| frame.payload().to_vec()).collect()
}

#[test]
fn files_as_lines_and_as_records() {
    let (dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two) = (file("one", b"a\n\n\xff"), file("two", b"k: b\n"));
    ok(&["produce", "lines", "--broker", &addr, "--lines", &one, "-l", &two], "not read");
    assert_eq!(payloads(&broker, "lines"), [&b"a"[..], b"", b"\xff", b"k: b"]);
    ok(&["produce", "keys", "--broker", &addr, "-l", &two, "--key-sep", ": "], "");
    assert_eq!(drain(broker.addr(), "look", "keys", 0)[0].key(), b"k");
    let args =
        ["produce", "whole", "--broker", &addr, "--file", &one, "--file", &two, "--key", "f"];
    ok(&args, "not read");
    assert_eq!(payloads(&broker, "whole"), [&b"a\n\n\xff"[..], b"k: b\n"]);

    // A wrong path needs no broker, and nothing of the right one is sent.
    let missing = dir.path().join("missing");
    let missing = missing.to_str().unwrap();
    for flag in ["--lines", "--file"] {
        let args = ["produce", "t", "--broker", "127.0.0.1:1", flag, &one, flag, missing];
        let line = complaint(1, &args);
        assert!(line.contains(missing), "{line}");
    }
    complaint(2, &["produce", "t", "--lines", &one, "--file", &two]);
}

/// Records that the broker has taken.
fn stored(broker: &Broker) -> u64 {
    metric_of(&get(broker.admin(), "/metrics").body, "hermitmq_records_in_total")
}

#[test]
fn a_rate_is_kept_by_the_brokers_own_count() {
    const RATE: u32 = 200;
    let (dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let addr = broker.addr().to_string();
    let path = dir.path().join("lines");
    std::fs::write(&path, "x\n".repeat(300)).unwrap();
    let started = Instant::now();
    let mut command = hermitmq(&["produce", "t", "--broker", &addr, "--rate", "200", "--lines"]);
    let child = Running::spawn(command.arg(&path));
    let mut seen = Vec::new();
    let status = loop {
        let count = stored(&broker);
        // The time was taken later than the count, so this bound holds on any machine.
        let most = 1 + (u128::from(RATE) * started.elapsed().as_micros()).div_ceil(1_000_000);
        assert!(u128::from(count) <= most, "{count} of at most {most}");
        seen.push(count);
        if let Some(status) = child.try_end() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success());
    assert_eq!(stored(&broker), 300);
    assert!(seen.iter().any(|&count| count > 0 && count < 300), "evenly, not at once: {seen:?}");
    assert!(complaint(2, &["produce", "t", "--rate", "0"]).contains("--rate"));
}

#[test]
fn an_interrupt_ends_it_in_order() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let addr = broker.addr().to_string();
    // Once while it waits for the time of the next record, once for input.
    for rate in [&["--rate", "20"][..], &[]] {
        let before = stored(&broker);
        let mut command = hermitmq(&[&["produce", "t", "--broker", &addr], rate].concat());
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::spawn(&mut command);
        let mut stdin = child.stdin.take().unwrap();
        let lines = if rate.is_empty() { 3 } else { 1_000 };
        stdin.write_all("line\n".repeat(lines).as_bytes()).unwrap();
        wait_for("a few records", || (stored(&broker) >= before + 3).then_some(()));
        child.signal(Signal::INT);
        let output = child.output();
        let now = stored(&broker) - before;
        assert_eq!(output.status.code(), Some(1));
        let line = said(&output);
        assert!(line.contains(&format!("interrupted: {now} records are stored")), "{line} {now}");
        drop(stdin);
    }
}

#[test]
fn a_terminal_is_told_what_was_stored() {
    let (dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let path = dir.path().join("lines");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let args = ["produce", "t", "--broker", &addr, "--lines", path.to_str().unwrap()];
    let mut pty = Pty::start(hermitmq(&args), 80, 24);
    let status = pty.wait();
    let text = pty.everything();
    assert!(status.success(), "{text}");
    assert!(text.contains("2 records, 6 bytes, offsets 0 to 1 in "), "{text}");
    // Elsewhere the exit code says it.
    let output = run(&args, "");
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
}
