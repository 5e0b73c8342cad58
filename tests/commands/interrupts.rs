//! Ctrl-C: what was printed is committed, and the next run goes on behind it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use rustix::process::Signal;

use super::ok;
use super::support::{Broker, Running, hermitmq, scratch};

#[test]
fn at_the_tail() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    ok(&["produce", "t", "--broker", &addr], "a\nb\n");
    for ending in [Signal::INT, Signal::TERM] {
        let mut command =
            hermitmq(&["consume", "t", "--broker", &addr, "--group", "g", "--follow"]);
        let mut child = Running::spawn(command.stdout(Stdio::piped()));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        stdout.read_line(&mut line).unwrap();
        assert!(line == "a\nb\n" || line == "c\nd\n", "{line}");
        child.signal(ending);
        assert_eq!(child.end().code(), Some(0));
        // Nothing of before comes again, and what is new comes.
        ok(&["produce", "t", "--broker", &addr], "c\nd\n");
    }
    let rest = ok(&["consume", "t", "--broker", &addr, "--group", "g", "--until-end"], "");
    assert_eq!(rest, b"c\nd\n");
}

#[test]
fn in_the_middle() {
    const LINES: usize = 200_000;
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let lines = (0..LINES).flat_map(|number| format!("line {number}\n").into_bytes());
    let input: Vec<u8> = lines.collect();
    // Records of their own: a batch would come whole again.
    ok(&["produce", "t", "--broker", &addr], input.clone());
    let mut printed = Vec::new();
    let mut interrupted = 0;
    // Some runs may come to the end before the signal does.
    for _ in 0..5 {
        let mut command = hermitmq(&["consume", "t", "--broker", &addr, "--group", "g"]);
        let mut child = Running::spawn(command.args(["-f", "%s\\n"]).stdout(Stdio::piped()));
        let mut stdout = child.stdout.take().unwrap();
        let mut some = vec![0; 1000];
        let read = stdout.read(&mut some).unwrap();
        printed.extend_from_slice(&some[..read]);
        child.signal(Signal::INT);
        stdout.read_to_end(&mut printed).unwrap();
        assert_eq!(child.end().code(), Some(0));
        assert!(printed.ends_with(b"\n"), "whole records");
        if printed.len() == input.len() {
            break;
        }
        interrupted += 1;
    }
    let rest = ["consume", "t", "--broker", &addr, "--group", "g", "--until-end"];
    printed.extend(ok(&rest, ""));
    assert!(printed == input, "{} bytes of {}", printed.len(), input.len());
    println!("{interrupted} runs ended in the middle");
}
