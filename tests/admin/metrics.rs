//! `/metrics`: the format, the values, and the documentation.

use std::collections::{BTreeMap, BTreeSet};

use super::support::http::get;
use super::support::{RawClient, drain, frame, scratch, wait_for};
use super::{broker, start};

/// A family of the text format.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    help: String,
    /// Names of labels that a sample has.
    labels: BTreeSet<String>,
}

/// The families of a text, and its samples: name and labels as they stand there, and the value.
fn parse(text: &str) -> (BTreeMap<String, Family>, BTreeMap<String, f64>) {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            let family = Family { help: help.to_owned(), ..Family::default() };
            assert_eq!(families.insert(name.to_owned(), family), None, "{name} stands twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            kind.clone_into(&mut families.get_mut(name).unwrap().kind);
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = key.split_once('{').unwrap_or((key, ""));
            let family = ["", "_bucket", "_sum", "_count"].iter().find_map(|suffix| {
                name.strip_suffix(suffix).filter(|name| families.contains_key(*name))
            });
            let family = families.get_mut(family.unwrap_or_else(|| panic!("{line}"))).unwrap();
            for label in labels.trim_end_matches('}').split("\",") {
                let name = label.split('=').next().unwrap();
                if !name.is_empty() && name != "le" {
                    family.labels.insert(name.to_owned());
                }
            }
            let before = samples.insert(key.to_owned(), value.parse().unwrap());
            assert_eq!(before, None, "{key} stands twice");
        }
    }
    (families, samples)
}

/// The names of the families.
pub(crate) fn families(text: &str) -> BTreeSet<String> {
    parse(text).0.into_keys().collect()
}

/// The tables of the documentation: name, type, unit, labels, meaning.
fn documented() -> BTreeMap<String, Vec<String>> {
    let text = include_str!("../../docs/METRICS.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| -> Vec<String> {
        row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows: Vec<_> = rows.map(cells).collect();
    let count = rows.len();
    let documented: BTreeMap<_, _> = rows.into_iter().map(|row| (row[0].clone(), row)).collect();
    assert_eq!(documented.len(), count, "each stands once");
    documented
}

/// A broker that has done a little of everything.
pub(crate) fn busy() -> (tempfile::TempDir, super::Broker) {
    let (dir, data) = scratch();
    let broker = broker(&data);
    let mut producer = RawClient::produce(broker.addr(), "orders", 0);
    for i in 0..10 {
        producer.append(&frame(i, b"", b"0123456789"));
    }
    super::support::commit(broker.addr(), "billing", "orders", 0, 4);
    drain(broker.addr(), "reader", "orders", 0);
    (dir, broker)
}

#[test]
fn the_documentation_lists_what_there_is() {
    let (_dir, broker) = busy();
    let answer = get(broker.admin(), "/metrics");
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let (families, _) = parse(&answer.body);
    let documented = documented();
    let names = |of: Vec<&String>| -> BTreeSet<String> { of.into_iter().cloned().collect() };
    assert_eq!(names(families.keys().collect()), names(documented.keys().collect()));
    for (name, family) in &families {
        let row = &documented[name];
        let labels: BTreeSet<String> =
            row[3].split(", ").filter(|label| *label != "–").map(ToOwned::to_owned).collect();
        assert_eq!((&row[1], &labels), (&family.kind, &family.labels), "{name}");
        assert_eq!(row[4], family.help, "{name}");
        let suffix = match (row[2].as_str(), family.kind.as_str()) {
            ("bytes", "counter") => "bytes",
            ("bytes", _) => "_bytes",
            ("seconds", "counter") => "_seconds_total",
            ("seconds", _) => "_seconds",
            (_, "counter") => "_total",
            _ => "",
        };
        assert!(name.contains(suffix), "{name} has the unit {}", row[2]);
        assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name}");
        assert!(name.starts_with("hermitmq_") || name.starts_with("process_"), "{name}");
    }
}

#[test]
fn the_values_are_what_was_done() {
    let (_dir, broker) = busy();
    let admin = broker.admin();
    let orders =
        |name: &str| format!("hermitmq_partition_{name}{{topic=\"orders\",partition=\"0\"}}");
    let bytes = 10.0 * (29.0 + 10.0);
    let samples = wait_for("the consumer to be counted", || {
        let (_, samples) = parse(&get(admin, "/metrics").body);
        let is_counted = |name, all| samples[&orders(name)] >= all;
        (is_counted("records_out_total", 10.0) && is_counted("bytes_out_total", bytes))
            .then_some(samples)
    });
    for (name, value) in [
        ("start_offset", 0.0),
        ("end_offset", 10.0),
        ("segments", 1.0),
        ("log_bytes", bytes),
        ("records_in_total", 10.0),
        ("frames_in_total", 10.0),
        ("bytes_in_total", bytes),
        ("records_out_total", 10.0),
        ("bytes_out_total", bytes),
        ("read_only", 0.0),
    ] {
        assert!((samples[&orders(name)] - value).abs() < 0.5, "{name}: {}", samples[&orders(name)]);
    }
    assert!(samples["hermitmq_append_duration_seconds_count"] >= 10.0);
    assert!(samples["hermitmq_commits_total"] >= 1.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] > 5.0 && samples["process_threads"] > 5.0);
    assert!(samples["process_start_time_seconds"] > 1.7e9);
    assert!((samples["hermitmq_ready"] - 1.0).abs() < 0.1);

    let parked = RawClient::consume(broker.addr(), "g", "orders", 0);
    let role = "hermitmq_connections_by_role{role=\"consumer\"}";
    let consumers = || parse(&get(admin, "/metrics").body).1[role];
    wait_for("the consumer to be counted", || (consumers() > 0.5).then_some(()));
    drop(parked);
    wait_for("the consumer to be gone", || (consumers() < 0.5).then_some(()));
}

#[test]
fn more_partitions_than_there_may_be_series_are_left_out() {
    let (_dir, data) = scratch();
    let broker = start(&data)
        .env("HERMITMQ_ADMIN__METRICS_MAX_SERIES", 40)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 30)
        .run();
    RawClient::produce(broker.addr(), "many", 0).append(&frame(1, b"", b"x"));
    let text = get(broker.admin(), "/metrics").body;
    let (_, samples) = parse(&text);
    let of_partitions = samples.keys().filter(|key| key.contains("partition=\"")).count();
    assert!((1..=40).contains(&of_partitions), "{of_partitions}");
    let left_out = samples["hermitmq_metrics_partitions_left_out"];
    let given =
        samples.keys().filter(|key| key.starts_with("hermitmq_partition_end_offset{")).count();
    assert!((left_out - (31.0 - u32::try_from(given).map(f64::from).unwrap())).abs() < 0.1);
}
