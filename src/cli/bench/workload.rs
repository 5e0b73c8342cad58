//! The workloads of `hermitmq bench compare`: what a broker does, and what that is measured against.

use super::args::Durability;
use super::shape::Shape;
use super::target::partitions_setting;

pub(super) const ONE_KIB: Shape = Shape { record_size: 1024, batch: 1 };
pub(super) const SMALL: Shape = Shape { record_size: 100, batch: 1 };
/// What the Go original's stress test sends.
const BATCH: Shape = Shape { record_size: 28, batch: 100 };

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Consumers read all of one partition, against as many `sendfile` loops.
    Consume,
    /// Pipelined producers share out the bytes to one partition, against as many loops of `recv` and `pwrite` to one
    /// file.
    Produce,
    /// Consumers, each of a partition of its own, share out the bytes, against one that reads all of them.
    ConsumeSpread,
    /// Pipelined producers, each to a partition of its own, share out the bytes, against one that sends all of them.
    ProduceSpread,
    /// A fixed rate from a producer to a consumer, against the same rate through a relay.
    E2e,
    /// A fixed rate from a producer to a consumer, against one message at a time through a relay: at the same rate, or
    /// as fast as they return.
    PingPong { paced: bool },
    /// Producers that wait for each ack while a consumer on the same reactor catches up from the disk, against the same
    /// without it.
    ColdReader,
    /// The same against producers beside a consumer of the bare loop, which catches up from the disk without the broker:
    /// what the machine makes of that load.
    ColdReaderShared,
    /// Producers that wait for each ack, which comes after a flush, against one of them.
    GroupCommit,
    /// A producer that waits for each ack, which comes after a flush, against flushes alone.
    Commit,
}

/// What is measured of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    BytesPerSec,
    AcksPerSec,
    P50Us,
    P99Us,
}

/// A line of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Producers or consumers that are measured at once.
    pub(super) connections: u32,
    pub(super) shape: Shape,
}

const fn workload(name: &'static str, kind: Kind, connections: u32, shape: Shape) -> Workload {
    Workload { name, kind, connections, shape }
}

pub(super) const WORKLOADS: [Workload; 18] = [
    workload("consume-1k", Kind::Consume, 1, ONE_KIB),
    workload("consume-batch", Kind::Consume, 1, BATCH),
    workload("consume-100b", Kind::Consume, 1, SMALL),
    workload("consume-1k-4conn", Kind::Consume, 4, ONE_KIB),
    workload("consume-1k-100part", Kind::ConsumeSpread, 100, ONE_KIB),
    workload("produce-1k", Kind::Produce, 1, ONE_KIB),
    workload("produce-1k-4conn", Kind::Produce, 4, ONE_KIB),
    workload("produce-batch", Kind::Produce, 1, BATCH),
    workload("produce-1k-100part", Kind::ProduceSpread, 100, ONE_KIB),
    workload("e2e", Kind::E2e, 1, SMALL),
    workload("pingpong-paced", Kind::PingPong { paced: true }, 1, SMALL),
    workload("pingpong-closed", Kind::PingPong { paced: false }, 1, SMALL),
    workload("cold-reader", Kind::ColdReader, 1, SMALL),
    workload("cold-reader-4conn", Kind::ColdReader, 4, SMALL),
    workload("cold-shared", Kind::ColdReaderShared, 1, SMALL),
    workload("cold-shared-4conn", Kind::ColdReaderShared, 4, SMALL),
    workload("commit-64conn", Kind::GroupCommit, 64, SMALL),
    workload("commit-1conn", Kind::Commit, 1, SMALL),
];

impl Workload {
    /// What the two sides are called: the broker's, and the one it is measured against.
    pub(super) fn sides(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Consume | Kind::Produce => ("broker", "bare loop"),
            Kind::ConsumeSpread | Kind::ProduceSpread => ("100 connections", "1 connection"),
            Kind::E2e => ("broker", "relay"),
            Kind::PingPong { .. } => ("broker", "ping-pong"),
            Kind::ColdReader => ("cold reader", "no reader"),
            Kind::ColdReaderShared => ("cold reader", "reader elsewhere"),
            Kind::GroupCommit => ("64 producers", "1 producer"),
            Kind::Commit => ("1 producer", "fdatasync"),
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self.kind {
            Kind::Consume | Kind::Produce | Kind::ConsumeSpread | Kind::ProduceSpread => {
                Unit::BytesPerSec
            }
            Kind::E2e | Kind::PingPong { .. } => Unit::P50Us,
            Kind::ColdReader | Kind::ColdReaderShared => Unit::P99Us,
            Kind::GroupCommit | Kind::Commit => Unit::AcksPerSec,
        }
    }

    /// Partitions of its topics.
    pub(super) fn partitions(&self) -> u32 {
        match self.kind {
            Kind::ConsumeSpread | Kind::ProduceSpread => self.connections,
            _ => 1,
        }
    }

    /// Settings of its broker that it cannot do without.
    pub(super) fn settings(&self) -> Vec<String> {
        let mut settings = vec![partitions_setting(self.partitions())];
        match self.kind {
            Kind::ColdReader | Kind::ColdReaderShared => {
                settings.push("server.reactors=1".to_owned());
            }
            Kind::GroupCommit | Kind::Commit => {
                settings.push(Durability::Always.setting().to_owned());
            }
            _ => {}
        }
        settings
    }

    /// Whether it says nothing about files in memory.
    pub(super) fn needs_disk(&self) -> bool {
        match self.kind {
            Kind::ColdReader | Kind::ColdReaderShared | Kind::GroupCommit | Kind::Commit => true,
            Kind::Consume
            | Kind::Produce
            | Kind::ConsumeSpread
            | Kind::ProduceSpread
            | Kind::E2e
            | Kind::PingPong { .. } => false,
        }
    }

    /// The frames that move: the producers', or those that are read from the disk meanwhile.
    pub(super) fn moves(&self) -> Shape {
        match self.kind {
            Kind::ColdReader | Kind::ColdReaderShared => ONE_KIB,
            _ => self.shape,
        }
    }

    /// Whether a round begins with empty files, and leaves none behind.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.kind, Kind::Produce | Kind::ProduceSpread)
    }
}

impl Unit {
    /// As it stands in the results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BytesPerSec => "bytes_per_sec",
            Self::AcksPerSec => "acks_per_sec",
            Self::P50Us => "p50_us",
            Self::P99Us => "p99_us",
        }
    }

    /// As it stands in the table.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::BytesPerSec => "MB/s",
            Self::AcksPerSec => "acks/s",
            Self::P50Us => "p50 us",
            Self::P99Us => "p99 us",
        }
    }

    /// A value for the table.
    pub(super) fn shown(self, value: f64) -> String {
        match self {
            Self::BytesPerSec => super::report::mb(value),
            Self::AcksPerSec => format!("{value:.0}"),
            Self::P50Us | Self::P99Us => format!("{value:.1}"),
        }
    }

    /// How `one` compares with `other`: 1 if they are alike, more if `one` is better.
    pub(super) fn ratio(self, one: f64, other: f64) -> f64 {
        // Of latencies less is better.
        let (part, whole) = match self {
            Self::BytesPerSec | Self::AcksPerSec => (one, other),
            Self::P50Us | Self::P99Us => (other, one),
        };
        part / whole.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_latencies_less_is_better() {
        for (unit, want) in [(Unit::BytesPerSec, 2.0), (Unit::AcksPerSec, 2.0), (Unit::P50Us, 0.5)]
        {
            assert!((unit.ratio(50.0, 25.0) - want).abs() < 1e-9, "{unit:?}");
        }
        assert!(
            Unit::P99Us.ratio(1.0, 0.0).abs() < 1e-9
                && Unit::AcksPerSec.ratio(1.0, 0.0).is_finite()
        );
    }

    #[test]
    fn every_name_stands_once_and_in_the_help() {
        let split = |c: char| !c.is_alphanumeric() && c != '-';
        let help: Vec<_> = super::super::args::COMPARE_HELP.split(split).collect();
        for (number, workload) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..number].iter().all(|other| other.name != workload.name));
            assert!(help.contains(&workload.name), "{workload:?}");
        }
    }

    #[test]
    fn the_names_of_the_sides_say_how_many() {
        for workload in WORKLOADS.iter().filter(|workload| workload.connections > 4) {
            let (side, _) = workload.sides();
            assert!(side.starts_with(&workload.connections.to_string()), "{workload:?}");
        }
    }
}
