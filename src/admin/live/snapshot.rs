//! What the broker does and how it is, in few words however large it is: totals, and the first of each list.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use serde::Serialize;

use crate::admin::health::Report;
use crate::admin::state::State;
use crate::broker::Broker;
use crate::metrics::{ConnectionRole, Counter};

/// Topics and groups that are named: the busiest ones, and those that are behind most.
const NAMED_MAX: usize = 10;

/// So much longer than it took the last time is waited before all partitions and groups are looked at again: a twentieth
/// of one processor at the most, however many there are.
const PAUSE_FACTOR: u32 = 19;

/// One event.
#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    /// In ms since the Unix epoch.
    time_ms: u64,
    /// `starting`, `running` or `stopping`.
    state: &'static str,
    version: &'static str,
    uptime_seconds: u64,
    health: &'a Report,
    connections: Connected,
    disk: Disk,
    /// Of the last second or so; `None` in the first event.
    rates: Option<Traffic>,
    /// Of all partitions and groups; `None` before the log is recovered.
    log: Option<&'a Found>,
}

#[derive(Debug, Serialize)]
struct Connected {
    all: i64,
    producers: i64,
    consumers: i64,
}

#[derive(Debug, Serialize)]
struct Disk {
    free_bytes: i64,
    /// No record is stored until there is more.
    low: bool,
}

/// What has gone in and out, or does in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Traffic {
    bytes_in: u64,
    bytes_out: u64,
    records_in: u64,
}

impl Traffic {
    fn of(bytes_in: &Counter, bytes_out: &Counter, records_in: &Counter) -> Self {
        Self { bytes_in: bytes_in.get(), bytes_out: bytes_out.get(), records_in: records_in.get() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
            records_in: self.records_in + other.records_in,
        }
    }

    /// In a second, since it was `before`. A topic that was deleted and created anew counts from 0 on.
    fn since(self, before: Self, time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = |now: u64, before: u64| now.saturating_sub(before).saturating_mul(1000) / ms;
        Self {
            bytes_in: rate(self.bytes_in, before.bytes_in),
            bytes_out: rate(self.bytes_out, before.bytes_out),
            records_in: rate(self.records_in, before.records_in),
        }
    }

    /// What lists are sorted by.
    fn bytes(self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

/// What a look at all partitions and groups finds.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Without the broker's own.
    topics: usize,
    /// Without those of the broker's own topics.
    partitions: usize,
    groups: usize,
    /// Of all logs.
    bytes: u64,
    busiest_topics: Vec<TopicRate>,
    slowest_groups: Vec<GroupLag>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct TopicRate {
    name: String,
    #[serde(flatten)]
    rate: Traffic,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct GroupLag {
    name: String,
    lag: u64,
    consumers: usize,
}

/// Takes snapshots, and remembers what the next one is compared with.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    before: Option<(Instant, Traffic)>,
    look: Option<Look>,
}

/// The last look at all partitions and groups.
#[derive(Debug)]
struct Look {
    begun: Instant,
    took: Duration,
    topics: HashMap<String, Traffic>,
    found: Found,
}

impl Sampler {
    /// The event of now. Looks at every partition, now and then.
    pub(super) fn event(&mut self, state: &State, health: &Report) -> Bytes {
        let metrics = &state.about.metrics;
        let now = Instant::now();
        let traffic = Traffic::of(&metrics.bytes_in, &metrics.bytes_out, &metrics.records_in);
        let rates = self.before.map(|(then, before)| traffic.since(before, now - then));
        self.before = Some((now, traffic));
        if let Some(running) = state.running() {
            self.look_again(&running.broker, now);
        }
        let role = |role| metrics.roles.of(role).get();
        let snapshot = Snapshot {
            time_ms: now_ms(),
            state: state.stage(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: state.uptime().as_secs(),
            health,
            connections: Connected {
                all: metrics.connections.get(),
                producers: role(ConnectionRole::Producer),
                consumers: role(ConnectionRole::Consumer),
            },
            disk: Disk {
                free_bytes: metrics.disk_free_bytes.get(),
                low: metrics.disk_space_low.get() != 0,
            },
            rates,
            log: self.look.as_ref().map(|look| &look.found),
        };
        // Text and numbers: it is always JSON, and has no line break.
        let json = serde_json::to_string(&snapshot).unwrap_or_default();
        format!("event: snapshot\ndata: {json}\n\n").into()
    }

    fn look_again(&mut self, broker: &Broker, now: Instant) {
        let is_due = |look: &Look| now - look.begun >= look.took * PAUSE_FACTOR;
        if self.look.as_ref().is_none_or(is_due) {
            self.look = Some(Look::at(broker, self.look.as_ref()));
        }
    }
}

impl Look {
    fn at(broker: &Broker, before: Option<&Self>) -> Self {
        let begun = Instant::now();
        let mut found = Found { topics: broker.topic_count(), ..Found::default() };
        let mut topics: HashMap<String, Traffic> = HashMap::new();
        for partition in broker.partitions() {
            found.bytes += partition.sizes().iter().map(|size| size.bytes).sum::<u64>();
            let topic = &partition.name().topic;
            if !topic.is_reserved() {
                found.partitions += 1;
                let sum = topics.entry(topic.as_str().to_owned()).or_default();
                let traffic = partition.traffic();
                *sum = sum.plus(Traffic::of(
                    &traffic.bytes_in,
                    &traffic.bytes_out,
                    &traffic.records_in,
                ));
            }
        }
        if let Some(before) = before {
            found.busiest_topics = busiest(&topics, &before.topics, begun - before.begun);
        }
        let groups = broker.groups();
        found.groups = groups.len();
        let behind = groups.iter().filter(|group| group.lag > 0).collect();
        let slowest = first(behind, |group| group.lag).into_iter().map(|group| GroupLag {
            name: group.name.as_str().to_owned(),
            lag: group.lag,
            consumers: group.consumers,
        });
        found.slowest_groups = slowest.collect();
        Self { begun, took: begun.elapsed(), topics, found }
    }
}

fn busiest(
    now: &HashMap<String, Traffic>,
    before: &HashMap<String, Traffic>,
    time: Duration,
) -> Vec<TopicRate> {
    let rates = now.iter().map(|(name, traffic)| {
        let before = before.get(name).copied().unwrap_or_default();
        (name, traffic.since(before, time))
    });
    let mut busy: Vec<_> = rates.filter(|(_, rate)| rate.bytes() > 0).collect();
    busy.sort_unstable_by_key(|(name, _)| *name);
    let named = first(busy, |(_, rate)| rate.bytes()).into_iter();
    named.map(|(name, rate)| TopicRate { name: name.clone(), rate }).collect()
}

/// Those with the highest value, in that order; equals stay as they are.
fn first<T>(mut all: Vec<T>, value: impl Fn(&T) -> u64) -> Vec<T> {
    all.sort_by_key(|one| std::cmp::Reverse(value(one)));
    all.truncate(NAMED_MAX);
    all
}

fn now_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(bytes_in: u64) -> Traffic {
        Traffic { bytes_in, bytes_out: 0, records_in: 1 }
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let rate = traffic(5000).since(traffic(1000), Duration::from_secs(2));
        assert_eq!(rate, Traffic { bytes_in: 2000, bytes_out: 0, records_in: 0 });
        assert_eq!(traffic(1).since(traffic(2), Duration::ZERO).bytes_in, 0);
    }

    #[test]
    fn few_are_named_however_many_there_are() {
        let now: HashMap<_, _> =
            (0..1000).map(|n| (format!("t{n:04}"), traffic(n * 1000))).collect();
        let busy = busiest(&now, &HashMap::new(), Duration::from_secs(1));
        assert_eq!(busy.len(), NAMED_MAX);
        assert_eq!((busy[0].name.as_str(), busy[0].rate.bytes_in), ("t0999", 999_000));
        assert_eq!(busiest(&now, &now, Duration::from_secs(1)), []);
    }
}
