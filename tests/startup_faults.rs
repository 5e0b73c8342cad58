//! Volumes that a broker cannot use, or must not: somebody else's, read-only ones, one that another broker holds.
//!
//! What can be tried without root is in `startup_errors.rs`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use support::{
    Broker, RawClient, Start, VOLUME_TOOLS, Volume, drain, exe, frame, lacking, listing,
    privileged, run_to_end, scratch, scratch_in_memory,
};

/// Some user without privileges.
const NOBODY: u32 = 65_534;

/// The last line of standard error of a start that fails.
fn refused(command: Command) -> String {
    let output = run_to_end(command, Vec::new());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1..)), "{}: {text}", output.status);
    assert!(!text.contains("panicked"), "{text}");
    text.lines().last().unwrap().to_owned()
}

fn assert_names(line: &str, whats: &[&str]) {
    for what in whats {
        assert!(line.contains(what), "{what:?} is not named: {line}");
    }
}

/// The program as a user that owns nothing here.
fn run_by_nobody(exe: &Path) -> Command {
    let mut command = Command::new(exe);
    command.env_clear().current_dir("/").uid(NOBODY).gid(NOBODY);
    command
}

/// The broker as that user.
fn as_nobody(exe: &Path, data: &Path) -> Command {
    let mut command = run_by_nobody(exe);
    command.args(["serve", "--port", "0", "--data-dir"]).arg(data);
    command.env("HERMITMQ_ADMIN__LISTEN", "");
    command
}

/// A scratch directory that others may enter, the data directory in it, and a copy of the program that they can run: the
/// build's own may be closed to them, and nothing can be run where memory is a file system of a container.
fn for_others() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let places = [scratch_in_memory, scratch].into_iter().map(|place| place());
    let mut open = places.map(|(dir, data)| {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let binary = dir.path().join("hermitmq");
        fs::copy(exe(), &binary).unwrap();
        (dir, data, binary)
    });
    let can_run = |binary: &Path| {
        let version = run_by_nobody(binary).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = open.find(|(_, _, binary)| can_run(binary));
    found.unwrap_or_else(|| panic!("{}", lacking("a directory where others may run programs")))
}

#[test]
fn a_volume_of_another_user() {
    if !privileged(&[]) {
        return;
    }
    let (_dir, data, binary) = for_others();
    fs::create_dir(&data).unwrap();
    let path = data.to_str().unwrap();
    let uid = NOBODY.to_string();

    let line = refused(as_nobody(&binary, &data));
    assert_names(&line, &[path, &uid, &format!("chown -R {uid}"), "Permission denied"]);
    assert_eq!(listing(&data), Vec::<String>::new());
    let line = refused(as_nobody(&binary, &data.join("below")));
    assert_names(&line, &[path, &uid, "Permission denied"]);

    // The volume is right, a file in it is not.
    let broker = Broker::start(&data);
    RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"mine"));
    assert!(broker.terminate().0.success());
    chown(&data, Some(NOBODY), None).unwrap();
    for name in listing(&data) {
        chown(data.join(name), Some(NOBODY), None).unwrap();
    }
    let line = refused(as_nobody(&binary, &data));
    assert_names(&line, &[path, "_0/0000", "Permission denied"]);
    // And as it was for its owner.
    let broker = Broker::start(&data);
    assert_eq!(drain(broker.addr(), "g", "t", 0).len(), 1);
}

#[test]
fn a_configuration_of_another_user() {
    if !privileged(&[]) {
        return;
    }
    let (dir, data, binary) = for_others();
    let file = dir.path().join("hermitmq.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = as_nobody(&binary, &data);
    command.arg("--config").arg(&file);
    assert_names(&refused(command), &[file.to_str().unwrap(), "Permission denied"]);

    // It can be read, what it names cannot: that is said by the check as by a start.
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, "").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, format!("access.tokens_file = '{}'\n", tokens.display())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(&data).unwrap();
    chown(&data, Some(NOBODY), None).unwrap();
    let mut check = run_by_nobody(&binary);
    check.args(["config", "check"]).arg(&file);
    let mut start = as_nobody(&binary, &data);
    start.arg("--config").arg(&file);
    for command in [check, start] {
        let line = refused(command);
        assert_names(&line, &["access.tokens_file", tokens.to_str().unwrap(), "Permission denied"]);
    }
}

#[test]
fn a_volume_that_is_read_only_and_one_with_lost_and_found() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let volume = Volume::new(16);
    // The root of the file system is the data directory: `lost+found` is in it.
    let start = || Start::on(volume.path()).env("HERMITMQ_STORAGE__MIN_FREE_MB", 0);
    let broker = start().run();
    RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"here"));
    assert!(broker.terminate().0.success());
    let broker = start().run();
    assert_eq!(drain(broker.addr(), "g", "t", 0).len(), 1);
    assert_eq!(broker.lines_at("WARN").len(), 0, "{}", broker.log_text());
    assert!(broker.terminate().0.success());
    assert_eq!(listing(&volume.path().join("lost+found")), Vec::<String>::new());

    volume.set_read_only(true);
    let line = refused(start().command());
    assert_names(&line, &[volume.path().to_str().unwrap(), "Read-only file system", "mount it"]);
    assert!(!line.contains("chown"), "that would not help: {line}");
    volume.set_read_only(false);
    assert_eq!(drain(start().run().addr(), "g", "t", 0).len(), 1);
}

/// Every file below a directory: when it was changed, and what is in it.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for path in listing(dir).into_iter().map(|name| dir.join(name)) {
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            all.insert(path.clone(), (changed, fs::read(&path).unwrap()));
        }
    }
    all
}

#[test]
fn a_second_broker_touches_nothing() {
    let (dir, data) = scratch_in_memory();
    let holder = Broker::start(&data);
    let mut producer = RawClient::produce(holder.addr(), "t", 0);
    for round in 0..3 {
        assert_eq!(producer.append(&frame(1, b"", b"before")), 2 * round);
        // What changes a file now is not the holder.
        holder.stand_still();
        let before = contents(&data);
        // By another name, and on another port, as always here.
        let alias = dir.path().join(format!("alias-{round}"));
        symlink(&data, &alias).unwrap();
        for path in [&data, &alias] {
            let line = refused(Start::on(path).command());
            assert_names(&line, &[&holder.pid().to_string(), path.to_str().unwrap()]);
        }
        assert!(contents(&data) == before, "a file was changed");
        holder.go_on();
        assert_eq!(producer.append(&frame(1, b"", b"after")), 2 * round + 1);
    }
}
