//! What an operator can set about topics.

use serde::{Deserialize, Serialize};

use super::as_text;
use crate::model::{TopicName, limits};
use crate::storage::{Cleanup, Durability, Timestamps};

/// Section `topics` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether a topic that a client names is created if it does not exist.
    pub auto_create: bool,
    /// Partitions of a topic created that way, and of a declared one that does not say how many.
    pub default_partitions: u32,
    /// Most partitions the broker holds, all topics together; none is created beyond it.
    pub max_partitions: u32,
    /// Most topics the broker holds, without its own; none is created beyond it.
    pub max_topics: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            auto_create: true,
            default_partitions: 1,
            max_partitions: limits::PARTITIONS_DEFAULT_MAX,
            max_topics: limits::TOPICS_DEFAULT_MAX,
        }
    }
}

/// Section `offsets` of the configuration: what groups have committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OffsetsOptions {
    /// Time without a commit and without a connected consumer after which the offsets of a group are forgotten, in hours;
    /// 0 for never.
    pub retention_hours: u32,
    /// Most groups that have committed offsets; beyond it no other one can commit.
    pub max_groups: u32,
}

impl Default for OffsetsOptions {
    fn default() -> Self {
        Self {
            retention_hours: limits::OFFSETS_RETENTION_HOURS_DEFAULT,
            max_groups: limits::GROUPS_DEFAULT_MAX,
        }
    }
}

/// A topic that the configuration declares: one table `[[topic]]`. What it leaves out is as for any other topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicOptions {
    /// Its name.
    #[serde(with = "as_text")]
    pub name: TopicName,
    /// Partitions it has. A topic with fewer gets more at the next start; with more, the broker does not start.
    #[serde(default)]
    pub partitions: Option<u32>,
    /// When its records count as stored.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Age of its last record at which a segment is deleted, in hours; 0 for no limit by age.
    #[serde(default)]
    pub retention_hours: Option<u32>,
    /// Of each partition so much is kept at least, in MiB; 0 for no limit by size.
    #[serde(default)]
    pub retention_mb: Option<u32>,
    /// Size at which a segment is sealed and the next one begins, in MiB.
    #[serde(default)]
    pub max_segment_mb: Option<u32>,
    /// Largest payload of a frame, in MiB.
    #[serde(default)]
    pub max_payload_mb: Option<u32>,
    /// Whose time its records carry.
    #[serde(default)]
    pub timestamp: Option<Timestamps>,
    /// Whether segments are deleted by age and size, or superseded frames taken out, or both.
    #[serde(default)]
    pub cleanup: Option<Cleanup>,
}

/// A setting outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfRange {
    pub(super) field: &'static str,
    pub(super) value: u32,
    pub(super) min: u32,
    pub(super) max: u32,
}

impl TopicOptions {
    /// The first setting that is outside its range, if one is.
    pub(super) fn out_of_range(&self) -> Option<OutOfRange> {
        let settings = [
            ("partitions", self.partitions, limits::PARTITIONS_PER_TOPIC_MAX),
            ("max_segment_mb", self.max_segment_mb, limits::SEGMENT_MB_MAX),
            ("max_payload_mb", self.max_payload_mb, limits::PAYLOAD_MB_MAX),
        ];
        settings.into_iter().find_map(|(field, value, max)| {
            let value = value.filter(|value| !(1..=max).contains(value))?;
            Some(OutOfRange { field, value, min: 1, max })
        })
    }

    /// A topic about which nothing but its name is said.
    pub fn named(name: TopicName) -> Self {
        Self {
            name,
            partitions: None,
            durability: None,
            retention_hours: None,
            retention_mb: None,
            max_segment_mb: None,
            max_payload_mb: None,
            timestamp: None,
            cleanup: None,
        }
    }
}
