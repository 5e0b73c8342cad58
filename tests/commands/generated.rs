//! Completions, manual pages, exit codes, colours.

use std::process::Command;

use super::pty::Pty;
use super::support::{Broker, hermitmq, scratch};
use super::{complaint, ok, run, said};

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn bash_loads_the_completions() {
    if !has("bash") {
        return;
    }
    let (dir, _) = scratch();
    let script = dir.path().join("completions");
    std::fs::write(&script, ok(&["completions", "bash"], "")).unwrap();
    // As bash calls it: the words, and the one to be completed.
    let complete = |words: &str| {
        let count = words.split(' ').count() - 1;
        let test = format!(
            "source '{}' && complete -p hermitmq >/dev/null && COMP_WORDS=({words}) COMP_CWORD={count} && \
             _hermitmq hermitmq \"${{COMP_WORDS[{count}]}}\" && echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &test]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("hermitmq cons"), "consume\n");
    assert_eq!(complete("hermitmq consume --until"), "--until-end\n");
    assert!(complete("hermitmq topic l").contains("list"));
    for shell in ["zsh", "fish"] {
        let script = String::from_utf8(ok(&["completions", shell], "")).unwrap();
        assert!(script.contains("until-end"), "{shell}");
    }
    assert!(complaint(2, &["completions", "cmd"]).contains("bash"));
}

#[test]
fn every_command_has_a_manual_page() {
    let (dir, _) = scratch();
    let pages = dir.path().join("new").join("man1");
    ok(&["man", pages.to_str().unwrap()], "");
    for name in ["hermitmq", "hermitmq-consume", "hermitmq-topic-create", "hermitmq-log-verify"] {
        let page = pages.join(format!("{name}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".TH"), "{name}");
        if has("groff") {
            let output = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&page).output();
            let output = output.unwrap();
            assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
            let shown = String::from_utf8(output.stdout).unwrap();
            assert!(shown.contains("Exit") || name == "hermitmq", "{name}: {shown}");
        }
    }
    assert!(!pages.join("hermitmq-bench-limit-server.1").exists(), "nobody types that");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(complaint(1, &["man", file.to_str().unwrap()]).contains("cannot write to"));
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let damaged = data.join("t_0");
    ok(&["produce", "t", "--broker", &addr], "a\n");
    broker.kill();
    let mut log = std::fs::read_dir(&damaged).unwrap().map(|entry| entry.unwrap().path());
    let log = log.find(|path| path.extension().is_some_and(|end| end == "wal")).unwrap();
    std::fs::write(&log, "no frames at all, but long enough for one header").unwrap();
    let (damaged, gone) = (damaged.to_str().unwrap(), "127.0.0.1:1");
    let documented = std::fs::read_to_string("docs/TOOLS.md").unwrap();
    for (code, args) in [
        (0, &["--help"][..]),
        (0, &["--version"]),
        (0, &["config", "check", "config/hermitmq.toml"]),
        (1, &["produce", "t", "--broker", gone]),
        (1, &["consume", "t", "--broker", gone]),
        (1, &["health", "--admin", gone]),
        (1, &["topic", "list", "--admin", gone]),
        (1, &["top", "--once", "--admin", gone]),
        (1, &["log", "verify", "/nonexistent"]),
        (2, &["consume"]),
        (2, &["nonsense"]),
        (2, &["top", "--admin", gone]),
        (2, &["demo", "--seconds", "x"]),
        (2, &["config", "check", "/nonexistent"]),
        (3, &["log", "verify", damaged]),
    ] {
        let output = run(args, "");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(documented.contains(&format!("| {code} | ")), "{code}");
        if code != 0 {
            assert!(said(&output).lines().all(|line| line.starts_with("hermitmq: ")), "{args:?}");
        }
    }
    let help = String::from_utf8(ok(&["--help"], "")).unwrap();
    for code in 0..=3 {
        assert!(help.contains(&format!("\n  {code}  ")), "{help}");
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let help = |no_color: &str| {
        let mut command = hermitmq(&["--help"]);
        command.env("NO_COLOR", no_color).env("TERM", "xterm");
        let mut pty = Pty::start(command, 100, 24);
        assert!(pty.wait().success());
        pty.everything()
    };
    assert!(help("").contains("\x1b[1m"));
    let plain = help("1");
    assert!(plain.contains("consume") && !plain.contains("\x1b["), "{plain}");
    assert!(!String::from_utf8(ok(&["--help"], "")).unwrap().contains('\x1b'));
}
