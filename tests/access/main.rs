//! Who may do what, at a real broker: each way of being known, each verb, both listeners, and what is told of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod admin;
mod commands;
mod native;
mod reload;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use hermitmq::access::{NewToken, generate};
use support::http::{Answer, try_request};
use support::{Broker, LogLine, Start, scratch, wait_for};

/// The rules that most tests go by.
const RULES: &str = r#"
[[access.network]]
cidr = "127.0.0.2/32"
principal = "legacy"

[[access.rule]]
principals = ["alice"]
operations = ["produce"]
topics = ["orders"]

[[access.rule]]
principals = ["bob"]
operations = ["consume", "commit"]
topics = ["orders"]
groups = ["bob-*"]

[[access.rule]]
principals = ["carol"]
operations = ["consume"]
topics = ["orders"]
groups = ["carol"]

[[access.rule]]
principals = ["anonymous"]
operations = ["produce"]
topics = ["inbox"]

[[access.rule]]
principals = ["legacy"]
operations = ["produce", "consume", "commit"]
topics = ["legacy-*"]
groups = ["legacy"]

[[access.rule]]
principals = ["ops"]
operations = ["admin"]

[[access.rule]]
principals = ["team"]
operations = ["admin"]
topics = ["team-*"]
groups = ["team"]
"#;

/// A broker that asks who somebody is.
struct Guarded {
    dir: tempfile::TempDir,
    broker: Broker,
    tokens: BTreeMap<&'static str, NewToken>,
}

const PRINCIPALS: &[&str] = &["alice", "bob", "carol", "ops", "team"];

impl Guarded {
    fn start() -> Self {
        Self::start_with(RULES)
    }

    fn start_with(text: &str) -> Self {
        Self::start_in(scratch(), text)
    }

    fn start_in((dir, data): (tempfile::TempDir, PathBuf), text: &str) -> Self {
        let make = |name: &&'static str| (*name, generate().unwrap());
        let tokens: BTreeMap<_, _> = PRINCIPALS.iter().map(make).collect();
        fs::write(dir.path().join("tokens"), lines(&tokens, PRINCIPALS)).unwrap();
        let config = dir.path().join("broker.toml");
        fs::write(&config, whole(&dir, text)).unwrap();
        let broker = Start::on(&data).with_admin().debug().arg("--config").arg(config).run();
        Self { dir, broker, tokens }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("broker.toml")
    }

    fn token(&self, principal: &str) -> &str {
        &self.tokens[principal].token
    }

    /// Asks the admin listener as somebody; as nobody for an empty name.
    fn ask(&self, principal: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = if principal.is_empty() {
            String::new()
        } else {
            format!("Bearer {}", self.token(principal))
        };
        let mut headers = vec![("content-type", "application/json")];
        if !bearer.is_empty() {
            headers.push(("authorization", &bearer));
        }
        try_request(self.broker.admin(), method, path, &headers, body.as_bytes()).unwrap()
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.ask("ops", "GET", "/metrics", "").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    fn audit(&self, what: impl Fn(&LogLine) -> bool) -> LogLine {
        wait_for("a line of the audit log", || {
            let ours = |line: &LogLine| line.get("target") == "hermitmq::audit" && what(line);
            self.broker.log().into_iter().find(ours)
        })
    }
}

/// The file of tokens, with those of some.
fn lines(tokens: &BTreeMap<&str, NewToken>, principals: &[&str]) -> String {
    principals.iter().fold("# tokens\n".to_owned(), |mut text, principal| {
        let _ = writeln!(text, "{principal}:{}", tokens[principal].hash);
        text
    })
}

fn whole(dir: &tempfile::TempDir, text: &str) -> String {
    format!("access.tokens_file = '{}'\n{text}", dir.path().join("tokens").display())
}
