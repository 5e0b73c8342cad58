//! Tests that mount, trace or limit: whether that can be done here.

use std::process::{Command, Stdio};

/// What some programs need beside being there: a command that tries it, and its name.
const PROBES: [(&[&str], &str, &str); 3] = [
    (&["mount", "ip", "unshare"], "unshare --mount true", "the right to mount"),
    (&["mkfs.ext4"], "test -b \"$(losetup --find)\"", "a loop device"),
    (&["strace"], "strace -qq -o /dev/null true", "the right to trace"),
];

/// Whether tests that mount and trace can run here. If not, the test fails and says what is missing. With
/// `HERMITMQ_SKIP_PRIVILEGED=1` none of them runs, and each says so.
pub fn privileged(tools: &[&str]) -> bool {
    if std::env::var_os("HERMITMQ_SKIP_PRIVILEGED").is_some_and(|value| value == "1") {
        eprintln!("skipped, as HERMITMQ_SKIP_PRIVILEGED=1 is set");
        return false;
    }
    let works = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().is_ok_and(|status| status.success())
    };
    let found = |tool: &str| works(&format!("command -v {tool}"));
    let root = (!rustix::process::geteuid().is_root()).then_some("root");
    let mut missing: Vec<&str> = root.into_iter().collect();
    missing.extend(tools.iter().copied().filter(|tool| !found(tool)));
    if missing.is_empty() {
        let needed = PROBES.iter().filter(|(by, ..)| tools.iter().any(|tool| by.contains(tool)));
        missing.extend(needed.filter(|(_, probe, _)| !works(probe)).map(|(_, _, what)| what));
    }
    assert!(missing.is_empty(), "{}", lacking(&missing.join(", ")));
    true
}

/// What a test says that cannot run here.
pub fn lacking(what: &str) -> String {
    format!(
        "this test needs {what} (Debian: apt-get install e2fsprogs iproute2 mount perl strace, and be root who may mount and \
         trace, with loop devices and a control group of memory); HERMITMQ_SKIP_PRIVILEGED=1 leaves such tests out"
    )
}
