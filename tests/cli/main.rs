//! The command line as a process, over protocol 1.0 to a scripted broker: bytes in, bytes out, exit codes.
#![cfg(feature = "server")]
// Helpers of a test fail as tests do.
#![allow(clippy::unwrap_used)]

mod broker;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use broker::Broker;
use support::{Running, hermitmq, run_to_end};

fn run(args: &[&str], input: &[u8]) -> Output {
    run_to_end(hermitmq(args), input.to_vec())
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn produce(broker: &Broker, args: &[&str], input: &[u8]) -> Output {
    run(&[&["produce", "t", "--protocol", "1.0", "--broker", &broker.addr()], args].concat(), input)
}

fn consume(broker: &Broker, args: &[&str]) -> Vec<u8> {
    let output = run(
        &[&["consume", "t", "--protocol", "1.0", "--broker", &broker.addr()], args].concat(),
        b"",
    );
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

/// A consumer that goes on until it is told to stop.
fn follow(broker: &Broker, args: &[&str]) -> Running {
    let addr = broker.addr();
    let args = [&["consume", "t", "--protocol", "1.0", "--broker", &addr], args].concat();
    Running::spawn(hermitmq(&args).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn lines_come_back_byte_for_byte() {
    let broker = Broker::start();
    let stored = produce(&broker, &[], b"one\n\ntwo\r\n\xff\0\nlast");
    assert!(stored.status.success(), "{}", stderr(&stored));
    assert_eq!(stderr(&stored), "", "a summary is for terminals");
    assert_eq!(consume(&broker, &["--count", "5"]), b"one\n\ntwo\r\n\xff\0\nlast\n");
    assert_eq!(consume(&broker, &["--count", "2", "--raw", "--from", "2"]), b"two\r\xff\0");
    assert_eq!(broker.groups(), 1, "only the start was committed");
}

#[test]
fn a_file_is_one_record() {
    let broker = Broker::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blob");
    let blob: Vec<u8> = (0..3_000_000u32).map(|i| i.to_le_bytes()[i as usize % 3]).collect();
    std::fs::write(&path, &blob).unwrap();
    let stored = produce(&broker, &["--file", path.to_str().unwrap(), "--key", "k"], b"");
    assert!(stored.status.success(), "{}", stderr(&stored));
    assert_eq!(broker.frames(), 1);
    assert_eq!(consume(&broker, &["--count", "1", "--raw"]), blob);
}

#[test]
fn a_batch_packs_lines_and_gives_them_back_single() {
    let broker = Broker::start();
    let input: Vec<u8> = (0..10_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    let stored = produce(&broker, &["--batch", "1000"], &input);
    assert!(stored.status.success(), "{}", stderr(&stored));
    assert!(broker.frames() < 1000, "{} frames", broker.frames());
    assert_eq!(consume(&broker, &["--count", "10000"]), input);
}

#[test]
fn a_group_resumes_after_what_was_printed() {
    let broker = Broker::start();
    produce(&broker, &[], b"a\nb\nc\nd\n");
    assert_eq!(consume(&broker, &["--group", "g", "--count", "3"]), b"a\nb\nc\n");
    assert_eq!(broker.committed("g"), Some(3));
    assert_eq!(consume(&broker, &["--group", "g", "--count", "1"]), b"d\n");
    let again = consume(&broker, &["--group", "g", "--from", "earliest", "--count", "1"]);
    assert_eq!(again, b"a\n");
    assert_eq!(broker.committed("g"), Some(1));
    assert_eq!(consume(&broker, &["--group", "g", "--from", "latest", "--count", "0"]), b"");
    assert_eq!(broker.committed("g"), Some(4));
}

#[test]
fn a_follower_commits_while_it_waits_and_ends_well_when_interrupted() {
    let broker = Broker::start();
    produce(&broker, &[], b"a\nb\n");
    let mut child = follow(&broker, &["--group", "g"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "a\nb\n");
    wait_until("a commit while idle", || broker.committed("g") == Some(2));
    produce(&broker, &[], b"c\n");
    line.clear();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "c\n", "records are shown as they come");
    child.signal(rustix::process::Signal::INT);
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(broker.committed("g"), Some(3), "committed at the end");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let broker = Broker::start();
    let input = "x".repeat(99) + "\n";
    produce(&broker, &["--batch", "1000"], input.repeat(20_000).as_bytes());
    let mut child = follow(&broker, &[]);
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.output();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn the_first_record_that_is_not_stored_is_named() {
    let broker = Broker::start();
    broker.refuse_from(2);
    let output = produce(&broker, &[], b"a\nb\nc\nd\n");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.starts_with("hermitmq: record 3 was not stored: "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_broker_that_is_not_there() {
    let output = run(&["produce", "t", "--broker", "127.0.0.1:1"], b"x\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "hermitmq: cannot connect to 127.0.0.1:1: connection refused; is the broker running? \
         Start one with `hermitmq serve`\n"
    );
    let mut from_env = hermitmq(&["consume", "t"]);
    from_env.env("HERMITMQ_BROKER", "127.0.0.1:2");
    assert!(stderr(&run_to_end(from_env, Vec::new())).contains("127.0.0.1:2: connection refused"));
}

#[test]
fn exit_codes_of_usage_and_configuration() {
    let usage = run(&["consume"], b"");
    assert_eq!(usage.status.code(), Some(2));
    assert_eq!(stderr(&usage).lines().count(), 1);
    let help = run(&["--help"], b"");
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Exit codes:"));

    let wrong = run(&["serve", "--port", "x", "--set", "server.hots=y"], b"");
    assert_eq!(wrong.status.code(), Some(2));
    let lines = stderr(&wrong);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.lines().all(|line| line.starts_with("hermitmq: server.")), "{lines}");

    let mut show = hermitmq(&["config", "show"]);
    show.env("HERMITMQ_SERVER__PORT", "1");
    let text = String::from_utf8(run_to_end(show, Vec::new()).stdout).unwrap();
    assert!(text.contains("server.port = 1  # HERMITMQ_SERVER__PORT\n"), "{text}");
    let check = run(&["config", "check", "config/hermitmq.toml"], b"");
    assert_eq!(check.stdout, b"config/hermitmq.toml: ok\n");
}
