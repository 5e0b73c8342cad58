//! The unit file: accepted by systemd, and as closed as it says. Left out where there is no `systemd-analyze`.

use std::process::{Command, Output};

use super::support::{exe, scratch};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/hermitmq.service");

/// Exposure that is allowed, in tenths; what systemd calls 10 is a service that may do anything.
const THRESHOLD: &str = "--threshold=15";

fn analyze(args: &[&str]) -> Option<Output> {
    match Command::new("systemd-analyze").args(args).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped, systemd-analyze cannot be run: {error}");
            None
        }
    }
}

/// The unit with this build as its program: one that does not exist is an error.
fn unit(dir: &std::path::Path) -> String {
    let text = std::fs::read_to_string(UNIT).unwrap();
    let text = text.replace("/usr/bin/hermitmq", exe());
    let path = dir.join("hermitmq.service");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn assert_accepted(output: &Output) {
    let said = [output.stdout.clone(), output.stderr.clone()].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn systemd_accepts_it() {
    let (dir, _) = scratch();
    let unit = unit(dir.path());
    let Some(output) = analyze(&["verify", "--man=no", "--recursive-errors=no", &unit]) else {
        return;
    };
    assert_accepted(&output);
    // Unknown settings are warnings, on standard error.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn it_is_closed() {
    let (dir, _) = scratch();
    let unit = unit(dir.path());
    let Some(output) = analyze(&["security", "--offline=true", THRESHOLD, &unit]) else { return };
    assert_accepted(&output);
}

#[test]
fn an_open_one_is_found() {
    let (dir, _) = scratch();
    let path = dir.path().join("hermitmq.service");
    std::fs::write(&path, format!("[Service]\nExecStart={}\n", exe())).unwrap();
    let args = ["security", "--offline=true", THRESHOLD, path.to_str().unwrap()];
    let Some(output) = analyze(&args) else { return };
    assert!(!output.status.success());
}
