//! `hermitmq produce` and `hermitmq consume`: bytes in, the same bytes out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use support::{Broker, Random, Running, Start, drain, exe, hermitmq, run_to_end, scratch, sha256};

const LINES: usize = 100_000;

fn run(args: &[&str], input: Vec<u8>) -> Output {
    run_to_end(hermitmq(args), input)
}

/// Runs a command that must succeed, and returns its output.
fn ok(args: &[&str], input: impl Into<Vec<u8>>) -> Vec<u8> {
    let output = run(args, input.into());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}: {said}", output.status);
    output.stdout
}

/// Lines of all kinds: empty, long, with carriage returns, NULs and bytes that are not UTF-8; each with its number.
fn generated_lines() -> Vec<u8> {
    let mut random = Random::from(42);
    let mut out = Vec::new();
    for i in 0..LINES {
        match i % 10 {
            0 => {}
            1 => out.extend_from_slice(format!("{i}\r").as_bytes()),
            2 => {
                let mut bytes = random.bytes(40);
                bytes.retain(|&b| b != b'\n');
                out.extend(bytes);
            }
            3 => out.extend_from_slice(b"\0\xff\xfe\xc3"),
            4 if i % 5000 == 4 => out.extend(std::iter::repeat_n(b'l', 200_000)),
            _ => out.extend_from_slice(format!("{i} a line of a log, as they are").as_bytes()),
        }
        out.push(b'\n');
    }
    assert_eq!(out.split(|&b| b == b'\n').count(), LINES + 1);
    out
}

fn consume_all(addr: &str, topic: &str) -> Vec<u8> {
    let count = LINES.to_string();
    ok(&["consume", topic, "--broker", addr, "--from", "earliest", "--count", &count], "")
}

fn assert_same(got: &[u8], sent: &[u8]) {
    assert_eq!(got.len(), sent.len());
    assert_eq!(sha256(got), sha256(sent));
}

#[test]
fn a_hundred_thousand_lines_come_back_as_they_went() {
    let (_dir, data) = scratch();
    let start = || Start::on(&data).env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1).run();
    let broker = start();
    let sent = generated_lines();
    ok(&["produce", "log", "--broker", &broker.addr().to_string()], sent.clone());
    assert_same(&consume_all(&broker.addr().to_string(), "log"), &sent);
    // All acked when the command ended, so a kill loses nothing.
    broker.kill();
    let broker = start();
    assert_same(&consume_all(&broker.addr().to_string(), "log"), &sent);
}

#[test]
fn batches_come_back_as_their_lines() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let sent = generated_lines();
    ok(&["produce", "log", "--broker", &addr, "--batch", "250"], sent.clone());
    let frames = drain(broker.addr(), "g", "log", 0);
    assert!(frames.len() < LINES / 10, "{} frames are no batches", frames.len());
    assert_same(&consume_all(&addr, "log"), &sent);
}

#[test]
fn a_last_line_without_a_newline_is_a_record() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    ok(&["produce", "t", "--broker", &addr], "one\n\ntwo");
    let frames = drain(broker.addr(), "g", "t", 0);
    let payloads: Vec<_> = frames.iter().map(support::Frame::payload).collect();
    assert_eq!(payloads, [&b"one"[..], b"", b"two"]);
    // No input, no record.
    ok(&["produce", "t", "--broker", &addr], "");
    assert_eq!(drain(broker.addr(), "g", "t", 0).len(), 3);
    let out = ok(&["consume", "t", "--broker", &addr, "--from", "1", "--count", "2"], "");
    assert_eq!(out, b"\ntwo\n");
}

#[test]
fn a_file_as_one_record() {
    let (dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let file = dir.path().join("picture");
    let bytes = Random::from(7).bytes(3_000_000);
    fs::write(&file, &bytes).unwrap();
    let path = file.to_str().unwrap();
    ok(&["produce", "files", "--broker", &addr, "--file", path, "--key", "picture"], "");
    let frames = drain(broker.addr(), "g", "files", 0);
    assert_eq!((frames.len(), frames[0].key()), (1, &b"picture"[..]));
    let consume = ["consume", "files", "--broker", &addr, "--from", "earliest", "--count", "1"];
    assert_same(&ok(&[&consume[..], &["--raw"]].concat(), ""), &bytes);
    assert_same(&ok(&consume, ""), &[&bytes[..], b"\n"].concat());
    let missing = dir.path().join("missing");
    let output = run(
        &["produce", "files", "--broker", &addr, "--file", missing.to_str().unwrap()],
        Vec::new(),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(one_line(&output).contains(missing.to_str().unwrap()));
}

#[test]
fn partitions_and_keys() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2).run();
    let addr = broker.addr().to_string();
    ok(&["produce", "t", "--broker", &addr, "--partition", "1", "--key", "k"], "a\nb\n");
    assert_eq!(drain(broker.addr(), "g", "t", 0), []);
    let frames = drain(broker.addr(), "g", "t", 1);
    assert_eq!(frames.iter().map(support::Frame::key).collect::<Vec<_>>(), [b"k", b"k"]);
    let args = ["consume", "t", "--broker", &addr, "--partition", "1", "--count", "2"];
    assert_eq!(ok(&[&args[..], &["--from", "earliest"]].concat(), ""), b"a\nb\n");
}

/// The lines of an output, in order.
fn sorted(output: &[u8]) -> Vec<&str> {
    let mut lines: Vec<_> = std::str::from_utf8(output).unwrap().lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn all_partitions_are_written_and_read_or_a_members_share() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 3).run();
    let addr = broker.addr().to_string();
    ok(&["produce", "t", "--broker", &addr], "1\n2\n3\n4\n5\n6\n");
    ok(&["produce", "t", "--broker", &addr, "--key-sep", ": "], "k: 7\nk: 8\nno key\n");
    for partition in 0..3 {
        let frames = drain(broker.addr(), "look", "t", partition);
        assert!(frames.iter().filter(|frame| frame.key().is_empty()).count() >= 2, "{partition}");
    }
    let to_end = ["consume", "t", "--broker", &addr, "--until-end"];
    let consume = |args: &[&str]| ok(&[&to_end[..], args].concat(), "");
    let all = consume(&[]);
    assert_eq!(sorted(&all), ["1", "2", "3", "4", "5", "6", "7", "8", "no key"]);
    let members = ["0/2", "1/2"].map(|member| consume(&["--member", member, "--group", "g"]));
    assert!(members.iter().all(|lines| !lines.is_empty()));
    assert_eq!(sorted(&members.concat()), sorted(&all));
    assert_eq!(consume(&["--member", "3/4"]), b"", "without partitions a member is at the end");
    assert_eq!(consume(&["--group", "g"]), b"", "all of it is committed");
    assert_eq!(sorted(&consume(&["--group", "g", "--from", "earliest"])), sorted(&all));
    assert_eq!(consume(&["--from", "@4000000000"]), b"");
    assert_eq!(sorted(&consume(&["--from", "@0"])), sorted(&all));
    let refused = run(&["consume", "t", "--broker", &addr, "--from", "1"], Vec::new());
    assert_eq!(refused.status.code(), Some(2));
    assert!(one_line(&refused).contains("t has 3: choose one with --partition"));
}

#[test]
fn what_is_refused_is_said_at_once_and_why() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_TOPICS__AUTO_CREATE", false).run();
    let addr = broker.addr().to_string();
    for command in ["produce", "consume"] {
        let refused = run(&[command, "nowhere", "--broker", &addr], b"x\n".to_vec());
        assert_eq!(refused.status.code(), Some(1));
        let line = one_line(&refused);
        assert!(line.contains("unknown_topic: there is no topic nowhere"), "{line}");
    }
}

#[test]
fn a_group_resumes_where_it_stood() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let lines: Vec<String> = (0..50).map(|i| format!("{i}\n")).collect();
    ok(&["produce", "t", "--broker", &addr], lines.concat());
    let next = |addr: &str, count: &str| {
        ok(&["consume", "t", "--broker", addr, "--group", "g", "--count", count], "")
    };
    assert_eq!(next(&addr, "10"), lines[..10].concat().as_bytes());
    assert_eq!(next(&addr, "5"), lines[10..15].concat().as_bytes());
    broker.kill();
    let broker = Broker::start(&data);
    assert_eq!(next(&broker.addr().to_string(), "35"), lines[15..].concat().as_bytes());
}

#[test]
fn a_consumer_follows_the_tail() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    ok(&["produce", "t", "--broker", &addr], "old\n");
    let mut command = hermitmq(&["consume", "t", "--broker", &addr, "--from", "earliest"]);
    let mut child = Running::spawn(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "old");
    ok(&["produce", "t", "--broker", &addr], "new\n");
    // Written at once, not when a buffer is full.
    assert_eq!(lines.next().unwrap().unwrap(), "new");
}

#[test]
fn a_record_that_was_not_written_whole_comes_again() {
    let (dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let input = dir.path().join("input");
    std::fs::write(&input, vec![b'x'; 1_000_000]).unwrap();
    ok(&["produce", "t", "--broker", &addr], "first\n");
    ok(&["produce", "t", "--broker", &addr, "--file", input.to_str().unwrap()], "");
    let consume = ["consume", "t", "--broker", &addr, "--group", "g"];
    // Files may have 50 kB: the second record ends in its middle.
    let line = "trap '' XFSZ; ulimit -f 100; exec \"$@\" >\"$0\"";
    let output = dir.path().join("output");
    let mut command = Command::new("sh");
    command.args(["-c", line]).arg(&output).arg(exe()).args(consume);
    let full = run_to_end(command, Vec::new());
    assert_eq!(full.status.code(), Some(1), "{full:?}");
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(said.contains("cannot write to standard output: File too large"), "{said}");
    let begun = std::fs::read(&output).unwrap();
    assert!(begun.starts_with(b"first\nxxx"), "{} bytes", begun.len());
    let rest = ok(&[&consume[..], &["--until-end"]].concat(), "");
    assert!(rest.ends_with(b"xxx\n") && rest.len() > 1_000_000, "{} bytes", rest.len());
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    ok(&["produce", "log", "--broker", &addr], generated_lines());
    let mut command = hermitmq(&["consume", "log", "--broker", &addr, "--from", "earliest"]);
    let mut child = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    drop(stdout);
    let ended = child.output();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]));
}

fn one_line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "one line:\n{text}");
    assert!(text.starts_with("hermitmq: "), "{text}");
    text
}

#[test]
fn a_broker_that_is_not_there() {
    // Bound and let go: nobody listens there.
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for args in [["produce", "t", "--broker", &addr], ["consume", "t", "--broker", &addr]] {
        let output = run(&args, b"x\n".to_vec());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(one_line(&output).contains(&addr));
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn refused_by_the_broker() {
    let (dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    // At once: what refuses may take its time before it gives up.
    std::thread::scope(|scope| {
        for (topic, partition) in [("t", "7"), ("../x", "0"), ("__consumer_offsets", "0")] {
            let addr = &addr;
            scope.spawn(move || {
                let args = ["produce", topic, "--broker", addr, "--partition", partition];
                let output = run(&args, b"x\n".to_vec());
                assert!(!output.status.success(), "{args:?}");
                one_line(&output);
            });
        }
    });
    assert_eq!(support::listing(dir.path()), ["data"]);
}
