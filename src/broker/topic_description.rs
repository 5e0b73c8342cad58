//! What is said about topics to those who administer them.

use serde::Serialize;

use super::as_text;
use super::options::TopicOptions;
use crate::model::{Offset, PartitionId, TopicName};
use crate::storage::{Cleanup, Durability, Timestamps};

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopicSummary {
    /// Its name.
    #[serde(with = "as_text")]
    pub name: TopicName,
    /// It is one of the broker's own.
    pub reserved: bool,
    /// Partitions it has.
    pub partitions: usize,
    /// Bytes of their logs.
    pub bytes: u64,
}

/// All about a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopicDescription {
    /// Its name.
    #[serde(with = "as_text")]
    pub name: TopicName,
    /// It is one of the broker's own.
    pub reserved: bool,
    /// The configuration declares it, and says at each start how it is kept.
    pub declared: bool,
    /// What is set for this topic; `None` is as the configuration says for all of them.
    pub settings: TopicOptions,
    /// What holds.
    pub effective: EffectiveSettings,
    /// Its partitions, by their numbers.
    pub partitions: Vec<PartitionDescription>,
}

/// How a topic is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EffectiveSettings {
    /// When its records count as stored.
    pub durability: Durability,
    /// Age of its last record at which a segment is deleted, in hours; 0 is no limit by age.
    pub retention_hours: u32,
    /// Of each partition so much is kept at least, in MiB; 0 is no limit by size.
    pub retention_mb: u32,
    /// Size at which a segment is sealed, in MiB.
    pub max_segment_mb: u32,
    /// Largest payload of a frame, in MiB.
    pub max_payload_mb: u32,
    /// Whose time its records carry.
    pub timestamp: Timestamps,
    /// How records go.
    pub cleanup: Cleanup,
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionDescription {
    /// Its number.
    pub partition: PartitionId,
    /// Offset of the oldest record kept.
    pub start_offset: Offset,
    /// Offset after the last record that consumers see.
    pub end_offset: Offset,
    /// Offset after the last record that is known to be on the disk.
    pub flushed_offset: Offset,
    /// Segments of its log.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// A failed flush has made it read-only until a restart.
    pub read_only: bool,
    /// Records that are damaged, as far as is known.
    pub damaged: Vec<DamagedRange>,
}

/// Records that are damaged on the disk and not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedRange {
    /// Offset of the first of them.
    pub start_offset: Offset,
    /// Offset after the last of them.
    pub end_offset: Offset,
    /// Bytes that they take.
    pub bytes: u64,
}
