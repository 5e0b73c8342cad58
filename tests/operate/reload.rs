//! SIGHUP: what changes while the broker runs, what does not, and what is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::said;
use super::support::http::get;
use super::support::{AGAIN, Broker, KEPT, RawClient, Start, drain, frame, scratch};

/// A broker with a configuration file.
struct Configured {
    _dir: tempfile::TempDir,
    file: PathBuf,
    broker: Broker,
}

impl Configured {
    fn start(text: &str) -> Self {
        let (dir, data) = scratch();
        let file = dir.path().join("hermitmq.toml");
        fs::write(&file, text).unwrap();
        let start = Start::on(&data).with_admin().arg("--config").arg(&file);
        Self { _dir: dir, file, broker: start.run() }
    }

    fn count(&self, message: &str) -> usize {
        self.broker.said(message).len()
    }

    /// Writes the file, sends the signal, and waits for the line that tells the outcome.
    fn reload(&self, text: &str, outcome: &str) -> Value {
        fs::write(&self.file, text).unwrap();
        self.broker.reload(outcome).0
    }

    fn setting(&self, key: &str) -> (String, String) {
        let answer = get(self.broker.admin(), "/api/v1/config").json();
        let found = answer["settings"].as_array().unwrap().iter().find(|s| s["key"] == key);
        let found = found.unwrap_or_else(|| panic!("{key}: {answer}"));
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("value"), text("layer"))
    }

    fn topic(&self, name: &str) -> Value {
        get(self.broker.admin(), &format!("/api/v1/topics/{name}")).json()
    }
}

fn base(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn what_can_change_does() {
    let text = "[storage]\nretention_hours = 5\n[[topic]]\nname = 'orders'\npartitions = 1\n";
    let configured = Configured::start(text);
    let admin = configured.broker.admin();
    RawClient::produce(configured.broker.addr(), "other", 0).append(&frame(1, b"", b"x"));
    assert_eq!(configured.topic("other")["effective"]["retention_hours"], 5);
    assert_eq!(configured.topic("orders")["partitions"].as_array().unwrap().len(), 1);

    let text = "[storage]\nretention_hours = 7\nmin_free_mb = 1\n[telemetry]\nlog_level = 'debug'\n\
        [topics]\nauto_create = false\n\
        [[topic]]\nname = 'orders'\npartitions = 3\nretention_hours = 9\ndurability = 'always'\n\
        [[topic]]\nname = 'new'\n";
    let line = configured.reload(text, AGAIN);
    let changed = line["changed"].as_str().unwrap();
    assert_eq!(
        changed,
        "storage.min_free_mb, storage.retention_hours, telemetry.log_level, topic, topics.auto_create"
    );
    assert_eq!(configured.topic("other")["effective"]["retention_hours"], 7);
    let orders = configured.topic("orders");
    assert_eq!(orders["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(orders["effective"]["retention_hours"], 9);
    assert_eq!(orders["effective"]["durability"], "always");
    assert_eq!(configured.topic("new")["declared"], true);
    assert_eq!(configured.topic("other")["declared"], false);
    assert_eq!(get(admin, "/api/v1/log-level").json(), json!({"log_level": "debug"}));
    let file = base(&configured.file);
    assert_eq!(configured.setting("storage.retention_hours"), ("7".to_owned(), file));
    // Topics are no longer created on demand, and those that are there are served.
    let mut refused = RawClient::produce(configured.broker.addr(), "unheard-of", 0);
    refused.send(&frame(1, b"", b"x"));
    refused.assert_closed_without_a_byte();
    for partition in 0..3 {
        let mut producer = RawClient::produce(configured.broker.addr(), "orders", partition);
        assert_eq!(producer.append(&frame(1, b"", b"y")), 0);
        assert_eq!(drain(configured.broker.addr(), "g", "orders", partition).len(), 1);
    }

    // What is left out is the default again, and a topic that is no longer declared is kept as it was.
    configured.reload("", AGAIN);
    assert_eq!(configured.setting("storage.retention_hours").1, "default");
    assert_eq!(configured.topic("other")["effective"]["retention_hours"], 168);
    let orders = configured.topic("orders");
    assert_eq!(
        (&orders["declared"], &orders["effective"]["retention_hours"]),
        (&json!(false), &json!(9))
    );
    assert!(configured.broker.terminate().0.success());
}

#[test]
fn what_needs_a_restart_is_named() {
    let configured = Configured::start("server.reactors = 4\n");
    let restart = "these settings have changed and need a restart";
    let text = "server.reactors = 6\nserver.drain_delay_ms = 1\n";
    configured.reload(text, AGAIN);
    let line = said(&configured.broker, restart);
    assert_eq!(line.get("keys"), "server.reactors");
    assert_eq!(line.level(), "WARN");
    assert_eq!(configured.setting("server.reactors").0, "4", "what holds is shown");
    assert_eq!(configured.setting("server.drain_delay_ms").0, "1");
    // It is said again as long as it is so.
    configured.reload(text, AGAIN);
    assert_eq!(configured.count(restart), 2);
    let line = configured.reload("server.reactors = 4\n", AGAIN);
    assert_eq!(configured.count(restart), 2, "and no longer");
    assert_eq!(line["changed"], "server.drain_delay_ms");
}

#[test]
fn a_wrong_file_changes_nothing() {
    let right = "[storage]\nretention_hours = 5\n[[topic]]\nname = 'orders'\npartitions = 3\n";
    let configured = Configured::start(right);
    for (text, problem) in [
        ("[storage]\nretention_hours = 6\nretention_huors = 7\n", "did you mean"),
        ("[storage\n", "not valid TOML"),
        (
            "[storage]\nretention_hours = 6\n[[topic]]\nname = 'orders'\npartitions = 2\n",
            "partitions are never removed",
        ),
    ] {
        let line = configured.reload(text, KEPT);
        assert_eq!(line["level"], "ERROR");
        assert!(line.to_string().contains(problem), "{line}");
        assert_eq!(configured.setting("storage.retention_hours").0, "5");
        assert_eq!(configured.topic("orders")["effective"]["retention_hours"], 5);
        assert_eq!(configured.topic("orders")["partitions"].as_array().unwrap().len(), 3);
    }
    fs::remove_file(&configured.file).unwrap();
    let line = configured.broker.reload(KEPT).0;
    assert!(line.to_string().contains("cannot read it"), "{line}");
    configured.reload(right, AGAIN);
    assert!(configured.broker.terminate().0.success());
}

#[test]
fn what_was_set_over_http_stays_unless_the_file_says_otherwise() {
    let configured = Configured::start("[telemetry]\nlog_level = 'info'\n");
    let admin = configured.broker.admin();
    let level = || get(admin, "/api/v1/log-level").json()["log_level"].clone();
    super::support::http::send(admin, "PUT", "/api/v1/log-level", &json!({"log_level": "debug"}));
    configured.reload("[telemetry]\nlog_level = 'info'\n", AGAIN);
    assert_eq!(level(), "debug");
    configured.reload("[telemetry]\nlog_level = 'warn,hermitmq::server=info'\n", AGAIN);
    assert_eq!(level(), "hermitmq::server=info,warn");
}

#[test]
fn the_file_that_was_found_stays_the_file() {
    let (dir, data) = scratch();
    let at = |name: &str| dir.path().join(name);
    let broker = Start::on(&data).run();
    // It has none: one that is there by now is read.
    fs::write(at("hermitmq.json"), r#"{"storage": {"retention_hours": 500}}"#).unwrap();
    assert_eq!(broker.reload(AGAIN).0["changed"], "storage.retention_hours");
    // Another does not take its place, though it would be found before it.
    fs::write(at("hermitmq.toml"), "[storage]\nretention_hours = 1\n").unwrap();
    assert_eq!(broker.reload(AGAIN).0["changed"], "");
    for name in ["hermitmq.json", "hermitmq.toml"] {
        fs::remove_file(at(name)).unwrap();
        let line = broker.reload(KEPT).0;
        assert!(line.to_string().contains("hermitmq.json: cannot read it"), "{line}");
    }
    assert!(broker.terminate().0.success());
}

#[test]
fn the_last_rule_is_not_taken_away_in_silence() {
    let open = "[server]\nhost = '0.0.0.0'\n";
    let rule =
        "[[access.rule]]\nprincipals = ['anonymous']\noperations = ['produce']\ntopics = ['*']\n";
    let configured = Configured::start(&format!("{open}{rule}"));
    let warning = "whoever can connect may do everything: there are no rules (section access), and this is no loopback address";
    assert_eq!(configured.count(warning), 0);
    configured.reload(open, AGAIN);
    assert_eq!(configured.count(warning), 1);
}
