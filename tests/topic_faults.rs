//! SIGKILL between any two system calls of a topic's creation, alteration and deletion: all of it, or nothing.
//!
//! The broker is in a process of its own: this test, started again as [`child`].
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use hermitmq::broker::{Change, TopicChange, TopicError, TopicOptions};
use hermitmq::config::Config;
use hermitmq::model::TopicName;
use hermitmq::server::{Server, StartError};
use hermitmq::storage::DataDirError;
use support::{
    INJECT_TOOLS, RawClient, assert_verifies, commit, copy_dir, drain, frame, inject, listing,
    privileged, run_to_end, scratch_in_memory, wait_for,
};

const DATA: &str = "HERMITMQ_TEST_CHILD_DATA";
const WORK: &str = "HERMITMQ_TEST_CHILD_WORK";

/// System calls that change what is on the disk.
const CALLS: [&str; 7] =
    ["pwrite64", "ftruncate", "/^rename", "fdatasync", "fsync", "/^mkdir", "/^(unlink|rmdir)"];

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn start(data: &Path) -> Server {
    let mut config = Config::default();
    config.admin.listen.clear();
    config.server.port = 0;
    config.server.reactors = 1;
    data.clone_into(&mut config.storage.data_dir);
    // Whoever was killed may hold the directory for a moment.
    wait_for("the directory to be free", || match Server::start(&config) {
        Ok(server) => Some(server),
        Err(StartError::DataDir(DataDirError::Held { .. })) => None,
        Err(error) => panic!("no start: {error}"),
    })
}

fn leftovers(data: &Path) -> Vec<String> {
    listing(data).into_iter().filter(|name| name.starts_with(".deleted")).collect()
}

/// What the other process does, when this test is it.
#[test]
fn child() {
    let (Ok(data), Ok(work)) = (std::env::var(DATA), std::env::var(WORK)) else { return };
    let data = PathBuf::from(data);
    let server = start(&data);
    let broker = server.broker();
    match work.as_str() {
        "delete" => {
            broker.delete_topic(&topic("t")).unwrap();
            wait_for("the directories to be removed", || leftovers(&data).is_empty().then_some(()));
        }
        "create" => {
            let new = TopicOptions { partitions: Some(3), ..TopicOptions::named(topic("new")) };
            broker.create_topic(new).unwrap();
        }
        _ => {
            let change = TopicChange {
                partitions: Some(4),
                retention_hours: Change::Set(3),
                ..TopicChange::default()
            };
            broker.alter_topic(&topic("t"), change).unwrap();
        }
    }
    // Not a clean end.
    std::process::exit(0);
}

/// Runs [`child`] on a data directory until it ends or is killed.
fn run(data: &Path, work: &str, what: &str) -> ExitStatus {
    let command: Vec<OsString> = inject(what);
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).arg(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    child.envs([(DATA, data.as_os_str()), (WORK, work.as_ref())]);
    let output = run_to_end(child, Vec::new());
    let killed = output.status.signal() == Some(9);
    assert!(
        killed || output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.status
}

/// A data directory with topics `t` and `other` of two partitions and three records each, all of them committed by a group.
fn prepared(data: &Path) {
    let server = start(data);
    for name in ["t", "other"] {
        let options = TopicOptions { partitions: Some(2), ..TopicOptions::named(topic(name)) };
        server.broker().create_topic(options).unwrap();
        for partition in 0..2 {
            let mut client = RawClient::produce(server.addr(), name, partition);
            (0..3).for_each(|number| _ = client.append(&frame(number, b"", b"record")));
            commit(server.addr(), "g", name, partition, 2);
        }
    }
    server.stop().unwrap();
}

fn ends(server: &Server, name: &str) -> Option<Vec<u64>> {
    match server.broker().describe_topic(&topic(name)) {
        Ok(found) => Some(found.partitions.iter().map(|partition| partition.end_offset).collect()),
        Err(TopicError::Unknown(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Offsets that the group gets.
fn resumes(server: &Server, name: &str) -> Vec<u64> {
    let frames = drain(server.addr(), "g", name, 0);
    frames.iter().map(|frame| frame.header.offset).collect()
}

/// Does `work` again and again on copies of one directory, killed at each call of each kind, until it is not killed any
/// more; `check` looks at what is there after each restart.
fn sweep(work: &str, check: impl Fn(&Server, &str) -> bool) {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (dir, origin) = scratch_in_memory();
    prepared(&origin);
    let mut outcomes = [0, 0];
    for call in CALLS {
        for count in 1.. {
            let data = dir.path().join("round");
            copy_dir(&origin, &data);
            let what = format!("{call}:signal=KILL:when={count}");
            let status = run(&data, work, &what);
            let server = start(&data);
            let done = check(&server, &what);
            assert!(done || !status.success(), "{what}: it was done, and is not");
            outcomes[usize::from(done)] += 1;
            assert_eq!(ends(&server, "other"), Some(vec![3, 3]), "{what}");
            assert_eq!(resumes(&server, "other"), [2], "{what}");
            wait_for("the directories to be removed", || leftovers(&data).is_empty().then_some(()));
            server.stop().unwrap();
            assert_verifies(&data, &what);
            std::fs::remove_dir_all(&data).unwrap();
            if status.success() {
                break;
            }
        }
    }
    println!("{work}: {outcomes:?} not done and done");
    assert!(outcomes.iter().all(|count| *count > 3), "{outcomes:?}");
}

#[test]
fn killed_while_deleting() {
    sweep("delete", |server, what| {
        let there = ends(server, "t");
        if there.is_some() {
            assert_eq!((there, resumes(server, "t")), (Some(vec![3, 3]), vec![2]), "{what}");
            return false;
        }
        // Anew, and nothing of the old one in it.
        let mut client = RawClient::produce(server.addr(), "t", 0);
        assert_eq!(client.append(&frame(9, b"", b"new")), 0, "{what}");
        assert_eq!(resumes(server, "t"), [0], "{what}");
        true
    });
}

#[test]
fn killed_while_creating() {
    sweep("create", |server, what| {
        let there = ends(server, "new");
        assert!(there.as_ref().is_none_or(|ends| *ends == [0; 3]), "{what}: {there:?}");
        there.is_some()
    });
}

#[test]
fn killed_while_altering() {
    sweep("alter", |server, what| {
        let found = server.broker().describe_topic(&topic("t")).unwrap();
        let altered = found.settings.retention_hours.is_some();
        let wanted = if altered { vec![3, 3, 0, 0] } else { vec![3, 3] };
        assert_eq!(ends(server, "t"), Some(wanted), "{what}");
        assert_eq!(resumes(server, "t"), [2], "{what}");
        altered
    });
}
