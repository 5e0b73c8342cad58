//! A broker that cannot work says so at once: exit code ≠ 0, one readable line on standard error.
//!
//! Log lines (JSON, as standard error is no terminal here) may stand before it, if they are no complaints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use support::{
    Broker, RawClient, Start, exe, frame, hermitmq, listing, privileged, run_to_end, scratch,
};

/// The one line, after `hermitmq: `.
fn only_line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("readable");
    assert!(!output.status.success(), "it failed and says {}: {text}", output.status);
    assert!(output.status.code().is_some(), "an exit, not a crash: {}", output.status);
    let mut readable = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<serde_json::Value>(line) {
            Ok(log) => assert_eq!(log["level"], "INFO", "{text}"),
            Err(_) => readable.push(line),
        }
    }
    assert_eq!(readable.len(), 1, "one readable line:\n{text}");
    assert_eq!(text.lines().last(), Some(readable[0]), "and it is the last:\n{text}");
    let line = readable[0].strip_prefix("hermitmq: ").unwrap_or_else(|| panic!("{text}"));
    assert!(!line.contains("panicked") && line.len() > 20, "{line}");
    line.to_owned()
}

fn fails(start: &Start) -> String {
    only_line(&run_to_end(start.command(), Vec::new()))
}

fn names(line: &str, what: &str) {
    assert!(line.contains(what), "{what:?} is not named: {line}");
}

#[test]
fn data_dir_is_a_file() {
    let (dir, _) = scratch();
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    names(&fails(&Start::on(&file)), file.to_str().unwrap());
    names(&fails(&Start::on(&file.join("below"))), file.to_str().unwrap());
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(listing(dir.path()), ["file"]);
    let line = fails(&Start::on(&file));
    names(&line, "something else has that name");
    assert!(!line.contains("chown"), "that would help nobody: {line}");
}

#[cfg(unix)]
#[test]
fn data_dir_is_something_else() {
    let (dir, _) = scratch();
    names(&fails(&Start::on(Path::new("/dev/null"))), "/dev/null");
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    names(&fails(&Start::on(&circle)), circle.to_str().unwrap());
    names(&fails(&Start::on(&dir.path().join("x".repeat(300)))), "name too long");
}

#[test]
fn what_the_broker_keeps_in_it_is_something_else() {
    for name in [".lock", "catalog.json"] {
        let (_dir, data) = scratch();
        fs::create_dir_all(data.join(name)).unwrap();
        names(&fails(&Start::on(&data)), data.to_str().unwrap());
    }
    let (_dir, data) = scratch();
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("catalog.json"), "{\"topics").unwrap();
    names(&fails(&Start::on(&data)), data.join("catalog.json").to_str().unwrap());
}

#[test]
fn data_dir_cannot_be_created() {
    // Nobody, root included, makes directories in /proc.
    if !Path::new("/proc/self").exists() {
        println!("skipped: there is no /proc here");
        return;
    }
    names(&fails(&Start::on(Path::new("/proc/hermitmq-data"))), "/proc/hermitmq-data");
}

#[test]
fn data_dir_is_read_only() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"before"));
    assert!(broker.terminate().0.success());
    let before = listing(&data);

    // Permission bits do not bind root, so a read-only mount in a namespace of its own, gone with the process.
    let script = "mount --bind \"$2\" \"$2\" && mount -o remount,ro,bind \"$2\" && touch \"$2/x\" 2>/dev/null && exit 99
                  exec \"$1\" serve --port 0 --data-dir \"$2\"";
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--map-root-user", "sh", "-c", "mount --bind /tmp /tmp"]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        assert!(!privileged(&["unshare"]), "no mount namespace can be made here");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh", exe()]).arg(&data);
    let output = run_to_end(command, Vec::new());
    if output.status.code() == Some(99) {
        println!("skipped: a read-only bind mount takes writes here");
        return;
    }
    names(&only_line(&output), data.to_str().unwrap());
    assert_eq!(listing(&data), before);
}

#[test]
fn port_is_taken() {
    let (_dir, data) = scratch();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let args = ["serve", "--data-dir", data.to_str().unwrap(), "--port", &port];
    names(&only_line(&run_to_end(hermitmq(&args), Vec::new())), &port);
}

#[test]
fn address_is_not_ours() {
    let (_dir, data) = scratch();
    // TEST-NET-1 is on no machine.
    names(&fails(&Start::on(&data).env("HERMITMQ_SERVER__HOST", "192.0.2.1")), "192.0.2.1");
}

#[test]
fn configuration_is_wrong() {
    let (dir, data) = scratch();
    let with_file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        let line = fails(&Start::on(&data).arg("--config").arg(&file));
        names(&line, file.to_str().unwrap());
        line
    };
    let line = with_file("unknown.toml", "[server]\nprot = 9092\n");
    names(&line, "prot");
    names(&line, "port");
    names(&with_file("section.json", r#"{"storge": {"data_dir": "x"}}"#), "storge");
    names(&with_file("type.toml", "[storage]\nmax_segment_mb = \"big\"\n"), "max_segment_mb");
    names(&with_file("value.toml", "[storage]\nmax_segment_mb = 99999999\n"), "max_segment_mb");
    with_file("syntax.toml", "[server\n");
    with_file("cut.json", r#"{"server": "#);
    with_file("empty.json", "");
    names(&with_file("name.toml", "[[topic]]\nname = \"a/b\"\n"), "topic[0].name");
    let twice = "[[topic]]\nname = \"a\"\n[[topic]]\nname = \"a\"\n";
    names(&with_file("twice.toml", twice), "topic[1].name");

    let missing = dir.path().join("missing.toml");
    let line = fails(&Start::on(&data).arg("--config").arg(&missing));
    names(&line, missing.to_str().unwrap());

    // What Docker makes of a file to be mounted that is not there.
    let directory = dir.path().join("directory.toml");
    fs::create_dir(&directory).unwrap();
    let line = fails(&Start::on(&data).arg("--config").arg(&directory));
    names(&line, directory.to_str().unwrap());
    let binary = dir.path().join("binary.toml");
    fs::write(&binary, b"\xff\xfe[server]").unwrap();
    let line = fails(&Start::on(&data).arg("--config").arg(&binary));
    names(&line, binary.to_str().unwrap());

    let line = fails(&Start::on(&data).env("HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC", "soon"));
    names(&line.to_lowercase(), "handshake_timeout_sec");
    let line = fails(&Start::on(&data).env("HERMITMQ_SERVER__PROT", "1"));
    names(&line.to_lowercase(), "prot");
    assert!(!data.exists(), "nothing is created with a wrong configuration");
}

#[test]
fn addresses_that_are_none() {
    let (_dir, data) = scratch();
    let with = |name: &str, value: &str| fails(&Start::on(&data).env(name, value));
    for port in ["65536", "-1", "http"] {
        let args = ["serve", "--data-dir", data.to_str().unwrap(), "--port", port];
        names(&only_line(&run_to_end(hermitmq(&args), Vec::new())), "server.port (set by --port)");
        let mut command = hermitmq(&args[..3]);
        command.env("HERMITMQ_SERVER__PORT", port);
        names(&only_line(&run_to_end(command, Vec::new())), "HERMITMQ_SERVER__PORT");
    }
    for (set, said) in [
        (
            "storage.durability=never",
            "(set by --set): must be one of interval, always, not \"never\"",
        ),
        (
            "storage.flush_interval_ms=x",
            "(set by --set): must be a whole number of milliseconds from ",
        ),
        ("server=5", "must be KEY=VALUE"),
    ] {
        names(&fails(&Start::on(&data).arg("--set").arg(set)), said);
    }
    names(&with("HERMITMQ_SERVER__HOST", ""), "server.host");
    for listen in ["nonsense", "127.0.0.1", "127.0.0.1:99999"] {
        names(&with("HERMITMQ_ADMIN__LISTEN", listen), "admin.listen");
    }
    names(&with("HERMITMQ_ADMIN__LISTEN", "0.0.0.0:0"), "admin.insecure");
    assert!(!data.exists(), "nothing is created with a wrong configuration");
}

#[test]
fn a_file_that_is_found_without_being_named_is_wrong() {
    let (dir, data) = scratch();
    for name in ["hermitmq.json", "hermitmq.toml"] {
        fs::write(dir.path().join(name), "nonsense").unwrap();
        let mut command = hermitmq(&["serve", "--port", "0", "--data-dir", data.to_str().unwrap()]);
        command.current_dir(dir.path());
        names(&only_line(&run_to_end(command, Vec::new())), name);
    }
}

#[test]
fn other_variables_do_no_harm() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data)
        .env("HERMITMQ_PORT", "tcp://10.0.0.1:9092")
        .env("HERMITMQ_SERVICE_HOST", "10.0.0.1")
        .env("HERMITMQ_PORT_9092_TCP_ADDR", "10.0.0.1")
        .env("HERMITMQ_SERVICE_PORT", "9092")
        .run();
    assert_eq!(RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"x")), 0);
}

#[test]
fn second_broker_on_the_same_directory() {
    let (_dir, data) = scratch();
    let holder = Broker::start(&data);
    let mut producer = RawClient::produce(holder.addr(), "t", 0);
    producer.append(&frame(1, b"", b"before"));
    let before = listing(&data.join("t_0"));

    let line = fails(&Start::on(&data));
    names(&line, &holder.pid().to_string());
    names(&line, data.to_str().unwrap());

    assert_eq!(listing(&data.join("t_0")), before);
    assert_eq!(producer.append(&frame(2, b"", b"after")), 1, "the first one goes on");
    // A killed holder leaves no lock behind.
    holder.kill();
    Broker::start(&data);
}

#[test]
fn lost_and_found_and_other_things_in_the_directory_are_left_alone() {
    let (_dir, data) = scratch();
    fs::create_dir_all(data.join("lost+found")).unwrap();
    fs::write(data.join("note.txt"), "mine").unwrap();
    let broker = Broker::start(&data);
    assert_eq!(RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"x")), 0);
    broker.kill();
    Broker::start(&data);
    assert_eq!(fs::read(data.join("note.txt")).unwrap(), b"mine");
    assert_eq!(listing(&data.join("lost+found")), Vec::<String>::new());
}
