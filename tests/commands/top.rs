//! `hermitmq top` on a terminal, and without one.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::pty::Pty;
use super::support::{Broker, Running, Start, commit, hermitmq, scratch};
use super::{complaint, ok, signal};

fn broker(data: &Path) -> Broker {
    let broker = Start::on(data).with_admin().run();
    let addr = broker.addr().to_string();
    ok(&["produce", "orders", "--broker", &addr], "a\nb\nc\n");
    commit(broker.addr(), "billing", "orders", 0, 1);
    broker
}

fn top(admin: &str) -> Command {
    hermitmq(&["top", "--admin", admin, "--interval", "0.1"])
}

fn shows(screen: &[String], words: &str) -> bool {
    screen.iter().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(words))
}

#[test]
fn it_fits_every_terminal_and_leaves_it_as_it_was() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let mut pty = Pty::start(top(&broker.admin().to_string()), 110, 30);
    let wide = pty.see("a table", |screen| shows(screen, "orders 1 0"));
    assert!(shows(&wide, "GROUP consumers lag read/s trend"), "{wide:?}");
    assert!(shows(&wide, "billing 0 2 0 steady"), "{wide:?}");
    assert!(wide[0].contains("ready") && wide[0].contains(&broker.admin().to_string()));
    assert!(!pty.is_cooked(), "keys come one by one");
    pty.resize(40, 12);
    let narrow = pty.see("fewer columns", |screen| shows(screen, "TOPIC rec/s kept"));
    assert!(narrow[11].contains("q quits"), "{narrow:?}");
    pty.resize(110, 30);
    pty.see("all columns", |screen| shows(screen, "GROUP consumers lag"));
    pty.press("x");
    pty.press("q");
    assert!(pty.wait().success());
    assert!(pty.is_cooked(), "the terminal is as before");
    let text = pty.everything();
    assert!(text.starts_with("\x1b[?1049h") && text.ends_with("\x1b[?1049l"), "{text:?}");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    for ending in [Signal::INT, Signal::TERM] {
        let mut pty = Pty::start(top(&broker.admin().to_string()), 80, 24);
        pty.see("the title", |screen| screen[0].contains("ready"));
        signal(pty.child(), ending);
        assert_eq!(pty.wait().code(), Some(0));
        assert!(pty.is_cooked() && pty.everything().ends_with("\x1b[?1049l"));
    }
}

#[test]
fn a_broker_that_is_gone_is_waited_for() {
    let (_dir, data) = scratch();
    let first = broker(&data);
    let admin = first.admin().to_string();
    let mut pty = Pty::start(top(&admin), 110, 30);
    pty.see("the title", |screen| screen[0].contains("ready"));
    first.kill();
    let gone = pty.see("the loss", |screen| screen[0].contains("NO ANSWER"));
    assert!(shows(&gone, "trying again"), "{gone:?}");
    assert!(shows(&gone, "orders 1"), "what was known stays: {gone:?}");
    let _again = Start::on(&data).env("HERMITMQ_ADMIN__LISTEN", &admin).run();
    let back = pty.see("the return", |screen| screen[0].contains("ready"));
    assert!(!shows(&back, "trying again"), "{back:?}");
    pty.press("q");
    assert!(pty.wait().success());
}

#[test]
fn no_color_means_none() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let coloured = |no_color: &str| {
        let mut command = top(&broker.admin().to_string());
        command.env("NO_COLOR", no_color).env("TERM", "xterm");
        let mut pty = Pty::start(command, 110, 30);
        pty.see("the summary", |screen| shows(screen, "lag 2"));
        pty.press("q");
        assert!(pty.wait().success());
        pty.everything().contains(";32m")
    };
    assert!(coloured(""));
    assert!(!coloured("1"));
}

#[test]
fn without_a_terminal_one_frame() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin().to_string();
    let once = ["top", "--once", "--interval", "0.1", "--admin", &admin];
    let text = String::from_utf8(ok(&once, "")).unwrap();
    let lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    assert!(lines[0].contains("ready") && shows(&lines, "billing 0 2 0 steady"), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("q quits"), "{text}");
    let json = ok(&[&once[..], &["--output", "json"]].concat(), "");
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["groups"][0]["lag"], &json["topics"][0]["topic"]),
        (&2.into(), &"orders".into())
    );
    let line = complaint(2, &["top", "--admin", &admin]);
    assert!(line.contains("--once"), "{line}");
    let line = complaint(2, &["top", "--once", "--interval", "0"]);
    assert!(line.contains("0.1 to 3600"), "{line}");
    drop(broker);
    let gone = ["top", "--once", "--admin", &admin];
    assert!(complaint(1, &gone).contains("cannot connect"));
}

/// Answers one request.
fn answer(mut socket: &TcpStream, status: &str, body: &str) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    let len = body.len();
    write!(socket, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{body}").unwrap();
}

#[test]
fn groups_that_are_not_told_are_no_empty_list() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    let broker = std::thread::spawn(move || {
        answer(&listener.accept().unwrap().0, "200 OK", "");
        let problem = r#"{"type":"urn:hermitmq:problem:internal","title":"x","status":500,"detail":"no way"}"#;
        answer(&listener.accept().unwrap().0, "500 Internal Server Error", problem);
    });
    let line = complaint(1, &["top", "--once", "--admin", &admin]);
    assert!(line.contains("no way"), "{line}");
    broker.join().unwrap();
}

#[test]
fn one_frame_is_not_waited_for_after_an_interrupt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    let child = Running::spawn(&mut hermitmq(&["top", "--once", "--admin", &admin]));
    let _asked = listener.accept().unwrap();
    // Not SIGINT: whoever runs the tests in the background may ignore that.
    child.signal(Signal::TERM);
    assert_eq!(child.end().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn who_is_not_ready_is_shown_with_the_reason() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().env("HERMITMQ_STORAGE__MIN_FREE_MB", u32::MAX).run();
    let admin = broker.admin().to_string();
    let once = ["top", "--once", "--interval", "0.1", "--admin", &admin];
    let text = String::from_utf8(ok(&once, "")).unwrap();
    assert!(text.contains("  NOT READY: disk_space: "), "{text}");
    let json = ok(&[&once[..], &["--output", "json"]].concat(), "");
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["ready"], false);
    assert!(json["reason"].as_str().unwrap().starts_with("disk_space: "), "{json}");
}
