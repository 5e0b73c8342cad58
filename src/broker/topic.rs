//! One topic: its partitions, and how they are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::options::TopicOptions;
use super::partition::Partition;
use crate::model::{PartitionId, TopicName};

pub(super) type Partitions = BTreeMap<PartitionId, Arc<Partition>>;

pub(super) type Topics = HashMap<TopicName, Topic>;

/// A topic that is served.
#[derive(Debug)]
pub(super) struct Topic {
    /// What is set for it, whoever has set it.
    pub(super) options: TopicOptions,
    /// The configuration declares it.
    pub(super) declared: bool,
    pub(super) partitions: Partitions,
}

impl Topic {
    /// The numbers that are missing among its partitions.
    pub(super) fn missing(&self) -> Vec<PartitionId> {
        let until = self.next_id();
        (0..until).filter(|id| !self.partitions.contains_key(id)).collect()
    }

    /// The number of the next partition.
    pub(super) fn next_id(&self) -> PartitionId {
        self.partitions.last_key_value().map_or(0, |(last, _)| last + 1)
    }
}

/// All partitions of all topics.
pub(super) fn all_partitions(topics: &Topics) -> impl Iterator<Item = &Arc<Partition>> {
    topics.values().flat_map(|topic| topic.partitions.values())
}
