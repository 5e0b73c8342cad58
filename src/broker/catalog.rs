//! Which topics and partitions there are, and the directories they live in.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::limits::PARTITIONS_PER_TOPIC_MAX;
use crate::model::{PartitionId, TopicName, TopicPartition};
use crate::storage::Disk;

/// The directory of a partition.
pub(super) fn partition_dir(data_dir: &Path, name: &TopicPartition) -> PathBuf {
    data_dir.join(format!("{}_{}", name.topic, name.partition))
}

/// The partition that a directory name stands for; `None` for a stranger.
pub fn parse_dir_name(name: &str) -> Option<TopicPartition> {
    let (topic, digits) = name.rsplit_once('_')?;
    let topic = TopicName::parse(topic).ok()?;
    let partition: PartitionId = digits.parse().ok()?;
    // One name for each partition: no leading zeros, no sign.
    let canonical = partition.to_string() == digits && partition < PARTITIONS_PER_TOPIC_MAX;
    canonical.then_some(TopicPartition { topic, partition })
}

/// What lies in a data directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Partitions of each topic, ascending.
    pub(super) topics: BTreeMap<TopicName, Vec<PartitionId>>,
    /// Directories that are no partition; they are left alone.
    pub(super) strangers: Vec<String>,
}

/// Looks through a data directory.
pub(super) fn discover(disk: &dyn Disk, data_dir: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in disk.list(data_dir)?.into_iter().filter(|entry| entry.is_dir) {
        match parse_dir_name(&entry.name) {
            Some(name) => found.topics.entry(name.topic).or_default().push(name.partition),
            None => found.strangers.push(entry.name),
        }
    }
    for partitions in found.topics.values_mut() {
        partitions.sort_unstable();
    }
    found.strangers.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names() {
        let parse = |name| parse_dir_name(name).map(|p| (p.topic.to_string(), p.partition));
        assert_eq!(parse("events_0"), Some(("events".into(), 0)));
        assert_eq!(parse("my_topic_12"), Some(("my_topic".into(), 12)));
        assert_eq!(parse("a_1_0"), Some(("a_1".into(), 0)));
        for stranger in [
            "lost+found",
            "events",
            "_0",
            "events_",
            "events_01",
            "events_+1",
            "events_x",
            "events_10000",
        ] {
            assert_eq!(parse(stranger), None, "{stranger}");
        }
    }
}
