//! How far each group is behind, up to a limit of series.

use super::text::{Kind, Text};
use crate::broker::Broker;

/// Families with one sample for each group and partition.
const FAMILIES: usize = 2;

/// Writes what is known of the groups' places, by their names, as far as `max_series` goes.
pub(super) fn write(text: &mut Text, broker: Option<&Broker>, max_series: usize) {
    let offsets = broker.map(Broker::group_offsets).unwrap_or_default();
    let given = offsets.len().min(max_series / FAMILIES);
    text.gauge(
        "hermitmq_metrics_group_partitions_left_out",
        "Places of groups in partitions without series of their own, because of admin.metrics_max_series.",
        offsets.len() - given,
    );
    let labelled: Vec<_> = offsets[..given]
        .iter()
        .map(|(key, of)| (key, key.partition.partition.to_string(), of))
        .collect();
    text.family(
        "hermitmq_group_committed_offset",
        Kind::Gauge,
        "Offset at which the group resumes in the partition.",
    );
    for (key, partition, of) in &labelled {
        let topic = key.partition.topic.as_str();
        let labels = [("group", key.group.as_str()), ("topic", topic), ("partition", partition)];
        text.sample(&labels, of.committed);
    }
    text.family(
        "hermitmq_group_lag_records",
        Kind::Gauge,
        "Records of the partition, by their offsets, that the group has not committed.",
    );
    for (key, partition, of) in &labelled {
        let topic = key.partition.topic.as_str();
        let labels = [("group", key.group.as_str()), ("topic", topic), ("partition", partition)];
        text.sample(&labels, of.lag);
    }
}
