//! What a broker said of itself at one time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cli::health::reasons;
use crate::client::admin::{GroupSummary, Health};

/// Counters and gauges, by what they are of.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Sample {
    pub(super) at: Instant,
    pub(super) version: String,
    /// Why the broker is not ready, if it is not.
    pub(super) not_ready: Option<String>,
    pub(super) uptime: Duration,
    pub(super) connections: f64,
    pub(super) disk_free: f64,
    pub(super) disk_low: bool,
    /// All topics together.
    pub(super) total: Traffic,
    /// Without the broker's own.
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) groups: BTreeMap<String, Group>,
    /// Partitions and places of groups that have no series of their own.
    pub(super) left_out: f64,
}

/// What has moved since the broker started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    pub(super) records_in: f64,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Topic {
    pub(super) traffic: Traffic,
    pub(super) partitions: u32,
    pub(super) log_bytes: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    pub(super) consumers: u64,
    pub(super) lag: u64,
    /// The sum of what it has committed: it grows by the records that it handles.
    pub(super) committed: f64,
}

impl Sample {
    /// Out of the text of `/metrics`, the list of groups and the answer of `/readyz`.
    pub(super) fn of(metrics: &str, groups: &[GroupSummary], health: &Health, at: Instant) -> Self {
        let mut sample = Self::empty(at);
        sample.not_ready = (!health.ok).then(|| reasons(health));
        for group in groups {
            let GroupSummary { name, consumers, lag, .. } = group;
            let of = Group { consumers: *consumers, lag: *lag, committed: 0.0 };
            sample.groups.insert(name.clone(), of);
        }
        for series in metrics.lines().filter_map(Series::parse) {
            sample.add(&series);
        }
        sample
    }

    fn empty(at: Instant) -> Self {
        Self {
            at,
            version: String::new(),
            not_ready: None,
            uptime: Duration::ZERO,
            connections: 0.0,
            disk_free: 0.0,
            disk_low: false,
            total: Traffic::default(),
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            left_out: 0.0,
        }
    }

    fn add(&mut self, series: &Series<'_>) {
        let value = series.value;
        match series.name {
            "build_info" => {
                series.label("version").unwrap_or_default().clone_into(&mut self.version);
            }
            "uptime_seconds" => {
                self.uptime = Duration::try_from_secs_f64(value).unwrap_or_default();
            }
            "connections" => self.connections = value,
            "disk_free_bytes" => self.disk_free = value,
            "disk_space_low" => self.disk_low = value > 0.0,
            "records_in_total" => self.total.records_in = value,
            "bytes_in_total" => self.total.bytes_in = value,
            "bytes_out_total" => self.total.bytes_out = value,
            "metrics_partitions_left_out" | "metrics_group_partitions_left_out" => {
                self.left_out += value;
            }
            "group_committed_offset" => {
                let group = series.label("group").and_then(|name| self.groups.get_mut(name));
                if let Some(group) = group {
                    group.committed += value;
                }
            }
            name => {
                if let Some(name) = name.strip_prefix("partition_") {
                    self.add_to_topic(name, series);
                }
            }
        }
    }

    fn add_to_topic(&mut self, name: &str, series: &Series<'_>) {
        let Some(topic) = series.label("topic").filter(|topic| !topic.starts_with("__")) else {
            return;
        };
        let topic = self.topics.entry(topic.to_owned()).or_default();
        match name {
            "end_offset" => topic.partitions += 1,
            "log_bytes" => topic.log_bytes += series.value,
            "records_in_total" => topic.traffic.records_in += series.value,
            "bytes_in_total" => topic.traffic.bytes_in += series.value,
            "bytes_out_total" => topic.traffic.bytes_out += series.value,
            _ => {}
        }
    }
}

/// One line of the text format of Prometheus.
#[derive(Debug, PartialEq)]
struct Series<'a> {
    /// Without `hermitmq_`.
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> Series<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (series, value) = line.strip_prefix("hermitmq_")?.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Self { name, labels: labels.trim_end_matches('}'), value: value.parse().ok()? })
    }

    /// Names of topics and groups hold nothing that would have to be escaped.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut labels = self.labels.split(',').filter_map(|label| label.split_once('='));
        let (_, value) = labels.find(|(label, _)| *label == name)?;
        Some(value.trim_matches('"'))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers, which were parsed")]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::top) const METRICS: &str = "\
# HELP hermitmq_build_info Always 1.
hermitmq_build_info{version=\"1.2.3\"} 1
hermitmq_uptime_seconds 303.5
hermitmq_connections 4
hermitmq_disk_free_bytes 12000000000
hermitmq_records_in_total 1000
hermitmq_bytes_in_total 90000
hermitmq_bytes_out_total 45000
hermitmq_partition_end_offset{topic=\"orders\",partition=\"0\"} 600
hermitmq_partition_end_offset{topic=\"orders\",partition=\"1\"} 400
hermitmq_partition_log_bytes{topic=\"orders\",partition=\"0\"} 50000
hermitmq_partition_log_bytes{topic=\"orders\",partition=\"1\"} 40000
hermitmq_partition_records_in_total{topic=\"orders\",partition=\"0\"} 600
hermitmq_partition_records_in_total{topic=\"orders\",partition=\"1\"} 400
hermitmq_partition_end_offset{topic=\"__consumer_offsets\",partition=\"0\"} 9
hermitmq_group_committed_offset{group=\"billing\",topic=\"orders\",partition=\"0\"} 300
hermitmq_group_committed_offset{group=\"billing\",topic=\"orders\",partition=\"1\"} 100
process_open_fds 7
";

    /// Those above, with a group that lags.
    pub(in crate::cli::top) fn sample(metrics: &str, lag: u64, at: Instant) -> Sample {
        let billing = GroupSummary {
            name: "billing".to_owned(),
            consumers: 2,
            partitions: 2,
            lag,
            last_commit_ns: None,
        };
        let health = Health { ok: true, checks: Vec::new() };
        Sample::of(metrics, &[billing], &health, at)
    }

    #[test]
    fn series_become_topics_and_groups() {
        let sample = sample(METRICS, 600, Instant::now());
        assert_eq!((sample.version.as_str(), sample.not_ready), ("1.2.3", None));
        assert_eq!(sample.uptime.as_secs(), 303);
        let orders = sample.topics["orders"];
        assert_eq!((orders.partitions, orders.traffic.records_in), (2, 1000.0));
        assert_eq!(orders.log_bytes, 90_000.0);
        assert_eq!(sample.topics.len(), 1, "the broker's own are left out");
        let billing = sample.groups["billing"];
        assert_eq!((billing.consumers, billing.lag, billing.committed), (2, 600, 400.0));
        assert_eq!(Series::parse("hermitmq_x NaNx"), None);
    }
}
