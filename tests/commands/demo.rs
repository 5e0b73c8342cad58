//! `hermitmq demo`: shows what it is, ends when it is told to, and leaves nothing.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::pty::Pty;
use super::support::{Running, hermitmq, listing, run_to_end, scratch};

/// The demo in a directory of the test's own, and that directory.
fn demo(dir: &Path, args: &[&str]) -> Command {
    hermitmq(&[&["demo", "--dir", dir.to_str().unwrap()], args].concat())
}

/// The lag of a group in a line such as `in 200/s (…), out …; quick: 200/s, lag 3`.
fn lag(line: &str, group: &str) -> Option<u64> {
    let of = line.split("; ").find(|part| part.starts_with(&format!("{group}: ")))?;
    of.rsplit_once("lag ")?.1.parse().ok()
}

#[test]
fn without_a_terminal_a_line_a_second() {
    let (dir, _) = scratch();
    let mut child = Running::spawn(demo(dir.path(), &[]).stdout(Stdio::piped()));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The slow group falls behind for as long as it goes on.
    let mut lags = lines.filter_map(|line| lag(&line, "slow"));
    let first = lags.find(|lag| *lag > 0).unwrap();
    assert!(lags.any(|lag| lag > first));
    assert_eq!(listing(dir.path()).len(), 1, "one directory for all of it");
    child.signal(Signal::INT);
    assert_eq!(child.end().code(), Some(0));
    assert_eq!(listing(dir.path()), [""; 0], "nothing is left");
}

/// A demo with a line of output, and the signals that come then: all at once, for they wait until it goes on.
fn signalled(signals: &[Signal]) {
    let (dir, _) = scratch();
    let demo = demo(dir.path(), &[]);
    // Whatever runs the tests may have been started to outlive its terminal.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(demo.get_program()).args(demo.get_args());
    let mut child = Running::spawn(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    assert_eq!(listing(dir.path()).len(), 1);
    child.signal(Signal::STOP);
    for each in signals {
        child.signal(*each);
    }
    child.signal(Signal::CONT);
    child.end();
    assert_eq!(listing(dir.path()), [""; 0], "nothing is left after {signals:?}");
}

#[test]
fn nothing_is_left_when_its_terminal_closes() {
    signalled(&[Signal::HUP]);
}

#[test]
fn nothing_is_left_by_the_second_signal_either() {
    signalled(&[Signal::INT, Signal::TERM]);
}

#[test]
fn it_may_end_by_itself() {
    let (dir, _) = scratch();
    let output = run_to_end(demo(dir.path(), &["--seconds", "2"]), Vec::new());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.starts_with("in ")) && !text.is_empty(), "{text}");
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn a_terminal_gets_the_live_view() {
    let (dir, _) = scratch();
    let mut pty = Pty::start(demo(dir.path(), &[]), 110, 30);
    let words = |line: &String, group: &str| line.trim_start().starts_with(group);
    let screen = pty.see("both groups", |screen| {
        ["quick", "slow", "demo"].iter().all(|name| screen.iter().any(|line| words(line, name)))
    });
    assert!(screen[29].contains("hermitmq consume demo --broker 127.0.0.1:"), "{screen:?}");
    pty.press("q");
    assert!(pty.wait().success());
    assert!(pty.is_cooked());
    assert_eq!(listing(dir.path()), [""; 0]);
}
