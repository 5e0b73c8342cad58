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
use support::http::{Answer, metric_of, try_request};
use support::{Broker, LogLine, RULES, Start, scratch, wait_for};

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
        metric_of(&self.ask("ops", "GET", "/metrics", "").body, name)
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
