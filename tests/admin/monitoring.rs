//! The alerts and the dashboard name metrics that exist, and `promtool` finds nothing wrong with any of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::metrics::{busy, families};
use super::support::http::get;
use super::support::run_to_end;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/monitoring").join(name)
}

/// Words that look like our metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("hermitmq_") || word.starts_with("process_"));
    ours.map(ToOwned::to_owned).collect()
}

#[test]
fn every_metric_that_is_named_exists() {
    let (_dir, broker) = busy();
    let families = families(&get(broker.admin(), "/metrics").body);
    for name in ["hermitmq-alerts.yaml", "hermitmq-alerts-test.yaml", "hermitmq-dashboard.json"] {
        let named = metrics_in(&std::fs::read_to_string(file(name)).unwrap());
        assert!(named.len() > 4, "{name}: {named:?}");
        for metric in named {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|s| metric.strip_suffix(s));
            let known = families.contains(&metric) || family.is_some_and(|f| families.contains(f));
            assert!(known, "{name}: there is no {metric}");
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_for_something() {
    let text = std::fs::read_to_string(file("hermitmq-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asking: Vec<_> = panels.iter().filter(|panel| panel["type"] != "row").collect();
    assert!(asking.len() > 10);
    let mut ids = BTreeSet::new();
    for panel in asking {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert_eq!(metrics_in(expression).len(), 1, "{expression}");
            assert!(expression.contains("{instance=~\"$instance\"}"), "{expression}");
        }
    }
}

#[test]
fn every_alert_has_a_test_in_which_it_fires() {
    let rules = std::fs::read_to_string(file("hermitmq-alerts.yaml")).unwrap();
    let tests = std::fs::read_to_string(file("hermitmq-alerts-test.yaml")).unwrap();
    let fires = tests.split("alertname: ").skip(1).filter_map(|case| {
        let (name, expected) = case.split_once('\n')?;
        expected.trim_start().starts_with("exp_alerts:\n").then_some(name)
    });
    let fires: BTreeSet<_> = fires.collect();
    let alerts: BTreeSet<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(alerts, fires);
}

#[test]
fn promtool_finds_nothing() {
    let mut version = Command::new("promtool");
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        println!("skipped: promtool is not installed (Debian: apt-get install prometheus)");
        return;
    }
    let (_dir, broker) = busy();
    let metrics = get(broker.admin(), "/metrics").body;
    let rules = file("hermitmq-alerts.yaml");
    let tests = file("hermitmq-alerts-test.yaml");
    for (args, input) in [
        (["check", "metrics", ""], metrics),
        (["check", "rules", rules.to_str().unwrap()], String::new()),
        (["test", "rules", tests.to_str().unwrap()], String::new()),
    ] {
        let mut command = Command::new("promtool");
        command.args(args.iter().filter(|arg| !arg.is_empty()));
        let output = run_to_end(command, input.into_bytes());
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "promtool {args:?}: {said}");
    }
}
