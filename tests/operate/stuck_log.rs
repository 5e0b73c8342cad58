//! Standard error that nobody reads: a log driver that blocks, a file on a disk that hangs.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStderr, Stdio};

use hermitmq::model::TopicName;
use hermitmq::protocol::v1_1::{Durability, Handshake, Role};
use rustix::process::Signal;

use super::LogLine;
use super::support::http::{get, metric};
use super::support::v1_1::open;
use super::support::{RawClient, Running, Start, frame, scratch, wait_for};

type Log = Lines<BufReader<ChildStderr>>;

fn next(log: &mut Log) -> LogLine {
    LogLine(serde_json::from_str(&log.next().unwrap().unwrap()).unwrap())
}

/// Reads until a message, and no further; its line.
fn read_to(log: &mut Log, message: &str) -> LogLine {
    let mut lines = std::iter::repeat_with(|| next(log));
    lines.find(|line| line.get("message") == message).unwrap()
}

/// What begins a connection of which the log tells much.
fn long_name() -> Vec<u8> {
    let role = Role::Produce { durability: Durability::Topic };
    let mut handshake = Handshake::new(TopicName::parse("t").unwrap(), 0, role);
    handshake.client.name = Some("x".repeat(8000));
    let mut bytes = Vec::new();
    handshake.write(&mut bytes).unwrap();
    bytes
}

/// A broker that serves, whose log was read until it listened, and has filled everything behind that meanwhile.
fn stuck(data: &std::path::Path) -> (Running, Log) {
    let start = Start::on(data).with_admin().debug();
    let mut running = Running::spawn(start.command().stderr(Stdio::piped()).stdout(Stdio::null()));
    let mut log = BufReader::new(running.stderr.take().unwrap()).lines();
    let addr = |line: &LogLine| line.get("addr").parse().unwrap();
    let admin = addr(&read_to(&mut log, "the admin listener answers"));
    let broker = addr(&read_to(&mut log, "listening"));
    let mut producer = RawClient::produce(broker, "t", 0);
    assert_eq!(producer.append(&frame(0, b"", b"x")), 0);
    wait_for("lines to be dropped", || {
        for _ in 0..20 {
            open(broker, &long_name());
        }
        (metric(admin, "hermitmq_log_lines_dropped_total") > 0).then_some(())
    });
    // All of it goes on, on connections of before and of now.
    assert_eq!(producer.append(&frame(1, b"", b"x")), 1);
    assert_eq!(RawClient::produce(broker, "t", 0).append(&frame(2, b"", b"x")), 2);
    assert_eq!(get(admin, "/livez").status, 200);
    (running, log)
}

#[test]
fn nothing_waits_for_who_does_not_read_the_log_not_even_the_end() {
    let (_dir, data) = scratch();
    let (broker, log) = stuck(&data);
    broker.signal(Signal::TERM);
    assert_eq!(broker.end().code(), Some(0));
    drop(log);
}

#[test]
fn who_reads_again_is_told_what_is_missing_and_gets_the_rest() {
    let (_dir, data) = scratch();
    let (broker, mut log) = stuck(&data);
    let told = read_to(&mut log, "log lines were dropped here: standard error was not read");
    assert_eq!(told.level(), "WARN");
    assert_ne!(told.get("lines"), "0");
    broker.signal(Signal::TERM);
    read_to(&mut log, "stopped; everything accepted is on disk");
    // To the end: a broker that is still to say something would fail to.
    log.for_each(drop);
    assert_eq!(broker.end().code(), Some(0));
}
