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

/// How the name of a directory begins that is to be removed.
const DELETED: &str = ".deleted-";

/// Bytes of a topic's name in that of a deleted directory: the rest must fit, too. The name is there for people alone.
const DELETED_TOPIC_MAX: usize = 200;

/// The name of a partition's directory once its topic is deleted; `number` makes it different from all others.
pub(super) fn deleted_dir_name(name: &TopicPartition, number: u64) -> String {
    // Names are ASCII: any cut is between characters.
    let topic = name.topic.as_str();
    let topic = topic.get(..DELETED_TOPIC_MAX).unwrap_or(topic);
    format!("{DELETED}{topic}_{}-{number}", name.partition)
}

/// The number in the name of a deleted directory; `None` for any other name. No partition's directory has such a name:
/// behind its last `_` there are digits alone.
pub fn parse_deleted_dir_name(name: &str) -> Option<u64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (name, number) = name.strip_prefix(DELETED)?.rsplit_once('-')?;
    let (topic, partition) = name.rsplit_once('_')?;
    let ours = !topic.is_empty() && digits(partition) && digits(number);
    if ours { number.parse().ok() } else { None }
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
    /// Directories of deleted topics, to be removed.
    pub(super) deleted: Vec<String>,
    /// Directories that are no partition; they are left alone.
    pub(super) strangers: Vec<String>,
}

/// Looks through a data directory.
pub(super) fn discover(disk: &dyn Disk, data_dir: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in disk.list(data_dir)?.into_iter().filter(|entry| entry.is_dir) {
        match parse_dir_name(&entry.name) {
            Some(name) => found.topics.entry(name.topic).or_default().push(name.partition),
            None if parse_deleted_dir_name(&entry.name).is_some() => found.deleted.push(entry.name),
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
    fn names_of_deleted_directories_are_nothing_else() {
        for topic in ["orders", "a_1", ".deleted-a_1", &"x".repeat(249)] {
            let topic = TopicName::parse(topic).unwrap();
            let name = TopicPartition { topic, partition: 9999 };
            let deleted = deleted_dir_name(&name, u64::MAX);
            assert!(deleted.len() <= 255, "{deleted}");
            assert_eq!(parse_deleted_dir_name(&deleted), Some(u64::MAX), "{deleted}");
            assert_eq!(parse_dir_name(&deleted), None, "{deleted}");
            let live = partition_dir(Path::new(""), &name);
            assert_eq!(parse_deleted_dir_name(live.to_str().unwrap()), None);
        }
        for other in
            [".deleted-", ".deleted-a_0", ".deleted-a-1", ".deleted-_0-1", ".deleted-a_0-", "a_0-1"]
        {
            assert_eq!(parse_deleted_dir_name(other), None, "{other}");
        }
    }

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
