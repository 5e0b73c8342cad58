//! The command line for people against a real broker: formats, rates, signals, terminals, exit codes.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod demo;
mod formats;
mod generated;
mod interrupts;
mod pty;
mod sending;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod wording;

use std::process::{Child, Output};

use rustix::process::{Pid, Signal, kill_process};

use support::{hermitmq, run_to_end};

fn run(args: &[&str], input: impl Into<Vec<u8>>) -> Output {
    run_to_end(hermitmq(args), input.into())
}

/// Runs a command that must succeed, and returns its output.
fn ok(args: &[&str], input: impl Into<Vec<u8>>) -> Vec<u8> {
    let output = run(args, input);
    assert!(output.status.success(), "{args:?}: {}: {}", output.status, said(&output));
    output.stdout
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one line of a command that failed with this code.
fn complaint(code: i32, args: &[&str]) -> String {
    let output = run(args, "");
    let line = said(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
    assert!(line.starts_with("hermitmq: ") && line.lines().count() == 1, "{args:?}: {line}");
    line
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}
