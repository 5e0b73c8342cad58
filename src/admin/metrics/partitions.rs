//! What is said of each partition, up to a limit of series.

use std::sync::Arc;

use super::text::{Kind, Text};
use crate::broker::{Broker, Partition};

/// A family with one sample for each partition.
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&Seen<'_>) -> u64,
}

impl Family {
    const fn gauge(name: &'static str, help: &'static str, value: fn(&Seen<'_>) -> u64) -> Self {
        Self { name, kind: Kind::Gauge, help, value }
    }

    const fn counter(name: &'static str, help: &'static str, value: fn(&Seen<'_>) -> u64) -> Self {
        Self { name, kind: Kind::Counter, help, value }
    }
}

/// A partition at the time of asking.
struct Seen<'a> {
    partition: &'a Partition,
    number: String,
    segments: u64,
    bytes: u64,
}

const FAMILIES: &[Family] = &[
    Family::gauge("hermitmq_partition_start_offset", "Offset of the oldest record kept.", |seen| {
        seen.partition.start_offset()
    }),
    Family::gauge(
        "hermitmq_partition_end_offset",
        "Offset after the last record that consumers may see.",
        |seen| seen.partition.end_offset(),
    ),
    Family::gauge(
        "hermitmq_partition_flushed_offset",
        "Offset after the last record that is known to be on the disk.",
        |seen| seen.partition.flushed().until,
    ),
    Family::gauge("hermitmq_partition_segments", "Segments of the log.", |seen| seen.segments),
    Family::gauge("hermitmq_partition_log_bytes", "Bytes of the log on the disk.", |seen| {
        seen.bytes
    }),
    Family::gauge(
        "hermitmq_partition_read_only",
        "1 if a flush failed or the start could not cut the end of the log, and the partition takes no more records, else 0.",
        |seen| seen.partition.is_read_only().into(),
    ),
    Family::gauge(
        "hermitmq_partition_waiting_consumers",
        "Consumers that have all there is and wait for more.",
        |seen| seen.partition.parked() as u64,
    ),
    Family::counter(
        "hermitmq_partition_records_in_total",
        "Records accepted into the log.",
        |seen| seen.partition.traffic().records_in.get(),
    ),
    Family::counter(
        "hermitmq_partition_frames_in_total",
        "Frames accepted into the log.",
        |seen| seen.partition.traffic().frames_in.get(),
    ),
    Family::counter(
        "hermitmq_partition_bytes_in_total",
        "Bytes of frames accepted into the log.",
        |seen| seen.partition.traffic().bytes_in.get(),
    ),
    Family::counter(
        "hermitmq_partition_bytes_out_total",
        "Bytes of the log sent to consumers.",
        |seen| seen.partition.traffic().bytes_out.get(),
    ),
    Family::counter(
        "hermitmq_partition_records_out_total",
        "Records sent to consumers, by their offsets: counted whenever a consumer has all there is.",
        |seen| seen.partition.traffic().records_out.get(),
    ),
];

/// Writes the families of all partitions, the first ones by name as far as `max_series` goes, and how many series there
/// are not.
pub(super) fn write(text: &mut Text, broker: Option<&Broker>, max_series: usize) {
    let mut partitions = broker.map(Broker::partitions).unwrap_or_default();
    partitions.sort_by(|a, b| a.name().cmp(b.name()));
    text.gauge(
        "hermitmq_topics",
        "Topics, without the broker's own.",
        broker.map_or(0, Broker::topic_count),
    );
    text.gauge(
        "hermitmq_partitions",
        "Partitions, with those of the broker's own topics.",
        partitions.len(),
    );
    text.gauge(
        "hermitmq_committed_offsets",
        "Committed offsets, all groups together.",
        broker.map_or(0, Broker::committed_count),
    );
    text.gauge(
        "hermitmq_groups",
        "Groups that have committed offsets.",
        broker.map_or(0, Broker::group_count),
    );
    let given = partitions.len().min(max_series / FAMILIES.len());
    text.gauge(
        "hermitmq_metrics_partitions_left_out",
        "Partitions without series of their own, because of admin.metrics_max_series.",
        partitions.len() - given,
    );
    let seen: Vec<_> = partitions[..given].iter().map(look).collect();
    for family in FAMILIES {
        text.family(family.name, family.kind, family.help);
        for seen in &seen {
            let topic = seen.partition.name().topic.as_str();
            let labels = [("topic", topic), ("partition", &*seen.number)];
            text.sample(&labels, (family.value)(seen));
        }
    }
}

fn look(partition: &Arc<Partition>) -> Seen<'_> {
    let sizes = partition.sizes();
    Seen {
        partition,
        number: partition.name().partition.to_string(),
        segments: sizes.len() as u64,
        bytes: sizes.iter().map(|size| size.bytes).sum(),
    }
}
