//! What is to be seen: rates out of two samples, the busiest topics, the slowest groups.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::sample::{Group, Sample, Topic, Traffic};

/// Samples of which the rate is kept.
const HISTORY: usize = 400;

/// All that is drawn.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli) struct View {
    pub(super) broker: String,
    /// What to try next, for the demo.
    #[serde(skip)]
    pub(super) hint: Option<String>,
    pub(super) version: String,
    pub(super) ready: bool,
    /// Why it is not ready, if it is not.
    pub(super) reason: Option<String>,
    pub(super) uptime_seconds: u64,
    pub(super) connections: f64,
    pub(super) disk_free_bytes: f64,
    pub(super) disk_space_low: bool,
    #[serde(flatten)]
    pub(super) rates: Rates,
    /// The busiest first.
    pub(super) topics: Vec<TopicRow>,
    /// The one that is farthest behind first.
    pub(super) groups: Vec<GroupRow>,
    /// Partitions and places of groups of which the broker tells nothing.
    pub(super) left_out: f64,
    /// Records stored per second, the newest last.
    #[serde(skip)]
    pub(super) history: VecDeque<f64>,
    /// Why there was no answer, if there was none, and for how long.
    #[serde(skip)]
    pub(super) lost: Option<(String, Duration)>,
    #[serde(skip)]
    last: Option<Sample>,
}

/// Per second.
#[expect(clippy::struct_field_names, reason = "they are the names in the JSON")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) records_in_per_sec: f64,
    pub(super) bytes_in_per_sec: f64,
    pub(super) bytes_out_per_sec: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TopicRow {
    pub(super) topic: String,
    pub(super) partitions: u32,
    #[serde(flatten)]
    pub(super) rates: Rates,
    pub(super) log_bytes: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct GroupRow {
    pub(super) group: String,
    pub(super) consumers: u64,
    pub(super) lag: u64,
    /// Records committed per second.
    pub(super) records_per_sec: f64,
    /// By how much the lag grows per second.
    pub(super) lag_per_sec: f64,
}

impl View {
    /// Of a broker that has not answered yet.
    pub(in crate::cli) fn new(broker: &str, hint: Option<String>) -> Self {
        let broker = broker.strip_prefix("http://").unwrap_or(broker).to_owned();
        Self {
            broker,
            hint,
            version: String::new(),
            ready: false,
            reason: None,
            uptime_seconds: 0,
            connections: 0.0,
            disk_free_bytes: 0.0,
            disk_space_low: false,
            rates: Rates::default(),
            topics: Vec::new(),
            groups: Vec::new(),
            left_out: 0.0,
            history: VecDeque::new(),
            lost: None,
            last: None,
        }
    }

    /// Whether there was an answer yet.
    pub(super) fn is_new(&self) -> bool {
        self.last.is_none()
    }

    /// Takes an answer over. Rates are of the time since the one before it.
    pub(in crate::cli) fn take(&mut self, sample: Sample) {
        // A broker that was started again begins to count anew.
        let last = self.last.take().filter(|last| last.uptime <= sample.uptime);
        let last = last.as_ref();
        let seconds = last.map(|last| (sample.at - last.at).as_secs_f64());
        self.rates = Rates::of(&sample.total, last.map(|last| &last.total), seconds);
        if seconds.is_some() {
            self.history.push_back(self.rates.records_in_per_sec);
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.topics = topics(&sample, last, seconds);
        self.groups = groups(&sample, last, seconds);
        self.version.clone_from(&sample.version);
        self.ready = sample.not_ready.is_none();
        self.reason.clone_from(&sample.not_ready);
        self.uptime_seconds = sample.uptime.as_secs();
        self.connections = sample.connections;
        self.disk_free_bytes = sample.disk_free;
        self.disk_space_low = sample.disk_low;
        self.left_out = sample.left_out;
        self.lost = None;
        self.last = Some(sample);
    }

    /// There was no answer.
    pub(in crate::cli) fn lost(&mut self, why: String) {
        self.lost = Some((why, self.silence()));
    }

    /// Time goes on.
    pub(super) fn tick(&mut self) {
        let silence = self.silence();
        if let Some((_, since)) = &mut self.lost {
            *since = silence;
        }
    }

    /// Since the last answer.
    fn silence(&self) -> Duration {
        self.last.as_ref().map_or(Duration::ZERO, |last| last.at.elapsed())
    }

    /// Records that all groups together have not handled.
    pub(super) fn lag(&self) -> u64 {
        self.groups.iter().map(|group| group.lag).sum()
    }
}

impl Rates {
    fn of(now: &Traffic, before: Option<&Traffic>, seconds: Option<f64>) -> Self {
        // What is new since the last sample counted from 0.
        let before = before.copied().unwrap_or_default();
        Self {
            records_in_per_sec: per_second(now.records_in - before.records_in, seconds).max(0.0),
            bytes_in_per_sec: per_second(now.bytes_in - before.bytes_in, seconds).max(0.0),
            bytes_out_per_sec: per_second(now.bytes_out - before.bytes_out, seconds).max(0.0),
        }
    }
}

/// Nothing is known with the first sample.
fn per_second(amount: f64, seconds: Option<f64>) -> f64 {
    seconds.map_or(0.0, |seconds| amount / seconds.max(1e-3))
}

fn topics(sample: &Sample, last: Option<&Sample>, seconds: Option<f64>) -> Vec<TopicRow> {
    let rows = sample.topics.iter().map(|(name, topic)| {
        let Topic { traffic, partitions, log_bytes } = topic;
        let before = last.and_then(|last| last.topics.get(name)).map(|topic| &topic.traffic);
        TopicRow {
            topic: name.clone(),
            partitions: *partitions,
            rates: Rates::of(traffic, before, seconds),
            log_bytes: *log_bytes,
        }
    });
    let mut rows: Vec<_> = rows.collect();
    let busy = |row: &TopicRow| row.rates.bytes_in_per_sec + row.rates.bytes_out_per_sec;
    // By name where they are alike: a stable sort.
    rows.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then(b.log_bytes.total_cmp(&a.log_bytes)));
    rows
}

fn groups(sample: &Sample, last: Option<&Sample>, seconds: Option<f64>) -> Vec<GroupRow> {
    let rows = sample.groups.iter().map(|(name, group)| {
        let Group { consumers, lag, committed } = *group;
        // A group that is new has committed at some time, not in this second.
        let before = last.and_then(|last| last.groups.get(name)).unwrap_or(group);
        GroupRow {
            group: name.clone(),
            consumers,
            lag,
            records_per_sec: per_second(committed - before.committed, seconds).max(0.0),
            lag_per_sec: per_second(difference(lag, before.lag), seconds),
        }
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.lag));
    rows
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded to two digits")]
fn difference(now: u64, before: u64) -> f64 {
    now as f64 - before as f64
}
