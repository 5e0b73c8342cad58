//! What can be changed about a topic while the broker runs, and why it is not.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::PartitionError;
use super::options::TopicOptions;
use crate::model::{PartitionId, TopicName, TopicPartition};
use crate::storage::{Cleanup, Durability, FlushError, OpenError, Timestamps};

/// What becomes of one setting. In JSON a field that is left out is left as it is, and `null` puts back the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// It stays.
    #[default]
    Leave,
    /// It is as the configuration says for all topics.
    Default,
    /// It is this.
    Set(T),
}

impl<T> Change<T> {
    /// Whether the setting stays.
    pub fn is_leave(&self) -> bool {
        matches!(self, Self::Leave)
    }

    fn apply(self, setting: &mut Option<T>) {
        match self {
            Self::Leave => {}
            Self::Default => *setting = None,
            Self::Set(value) => *setting = Some(value),
        }
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leave | Self::Default => to.serialize_none(),
            Self::Set(value) => to.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(from)?.map_or(Self::Default, Self::Set))
    }
}

/// Changes to the settings of a topic. What is not named stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicChange {
    /// Partitions it is to have: not fewer than it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// When its records count as stored.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub durability: Change<Durability>,
    /// Age of its last record at which a segment is deleted, in hours; 0 for no limit by age.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub retention_hours: Change<u32>,
    /// Of each partition so much is kept at least, in MiB; 0 for no limit by size.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub retention_mb: Change<u32>,
    /// Size at which a segment is sealed, in MiB. Holds for the segments that begin from now on.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub max_segment_mb: Change<u32>,
    /// Largest payload of a frame, in MiB. Holds for the producers that connect from now on.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub max_payload_mb: Change<u32>,
    /// Whose time its records carry. Holds for the records that come from now on.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub timestamp: Change<Timestamps>,
    /// How records go: by retention, or because they are superseded, or both.
    #[serde(skip_serializing_if = "Change::is_leave")]
    pub cleanup: Change<Cleanup>,
}

impl TopicChange {
    /// The settings after the change; partitions are none of them.
    pub(super) fn applied_to(&self, options: &TopicOptions) -> TopicOptions {
        let mut options = options.clone();
        self.durability.apply(&mut options.durability);
        self.retention_hours.apply(&mut options.retention_hours);
        self.retention_mb.apply(&mut options.retention_mb);
        self.max_segment_mb.apply(&mut options.max_segment_mb);
        self.max_payload_mb.apply(&mut options.max_payload_mb);
        self.timestamp.apply(&mut options.timestamp);
        self.cleanup.apply(&mut options.cleanup);
        options
    }
}

/// Something about a topic was not done. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// There is no such topic.
    #[error("there is no topic {0}")]
    Unknown(TopicName),
    /// There is one already.
    #[error("topic {0} exists already")]
    Exists(TopicName),
    /// It is one of the broker's own.
    #[error(
        "{0} is a name that the broker keeps for itself: it is not created, altered or deleted"
    )]
    Reserved(TopicName),
    /// The configuration says how it is kept.
    #[error(
        "topic {0} is declared in the configuration, which would undo this at the next start: change its [[topic]] \
         there"
    )]
    Declared(TopicName),
    /// A setting outside its range.
    #[error("{field} of topic {topic} must be from {min} to {max}, not {value}")]
    OutOfRange {
        /// The topic.
        topic: TopicName,
        /// The setting, as it is called in [`TopicOptions`].
        field: &'static str,
        /// The value given.
        value: u64,
        /// Least that is allowed.
        min: u64,
        /// Most that is allowed.
        max: u64,
    },
    /// Partitions are never removed.
    #[error(
        "topic {topic} has {there} partitions and cannot have only {wanted}: they are never removed"
    )]
    FewerPartitions {
        /// The topic.
        topic: TopicName,
        /// Partitions it has.
        there: u32,
        /// Partitions it was to have.
        wanted: u32,
    },
    /// Directories of some of its partitions are missing: what is not known whole is not altered.
    #[error(
        "partitions {missing:?} of topic {topic} are missing on the disk; it is served as it is, and not altered"
    )]
    Incomplete {
        /// The topic.
        topic: TopicName,
        /// The numbers that are missing.
        missing: Vec<PartitionId>,
    },
    /// The broker holds as many topics as it may.
    #[error("topics.max_topics is {max}, and as many are there: {there}")]
    TooManyTopics {
        /// Topics there are.
        there: usize,
        /// The limit.
        max: u32,
    },
    /// The broker holds as many partitions as it may.
    #[error("topics.max_partitions is {max}, and {there} are there: {wanted} more do not fit")]
    TooManyPartitions {
        /// Partitions that were to be added.
        wanted: u32,
        /// Partitions there are, the broker's own included.
        there: usize,
        /// The limit.
        max: u32,
    },
    /// After a failed flush nobody knows what is on the disk: when records count as stored is not changed then.
    #[error(
        "durability of topic {} cannot be changed: a flush of partition {} failed, and it is read-only until a restart",
        .0.topic, .0.partition
    )]
    ReadOnly(TopicPartition),
    /// The new settings are in force, and what was appended before is not durable: the partition is read-only now.
    #[error("the settings are changed, but partition {partition} is read-only now: {source}")]
    Flush {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        source: FlushError,
    },
    /// The disk did not take it.
    #[error("topic {topic}: {source}")]
    Storage {
        /// The topic.
        topic: TopicName,
        /// Why.
        source: OpenError,
    },
    /// The topic is gone, but not all that belongs to it. The broker tries again in the background and at its next start; until
    /// then no topic of this name is created.
    #[error(
        "topic {topic} is deleted, and not all of it is removed yet ({why}); its name can be used again after that"
    )]
    Unfinished {
        /// The topic.
        topic: TopicName,
        /// What stands in the way.
        why: String,
    },
    /// The broker is going down.
    #[error("the broker is going down")]
    Closed,
}

impl TopicError {
    /// Why a topic, or more partitions of one, was not created.
    pub(super) fn of_creation(topic: &TopicName, there: usize, error: PartitionError) -> Self {
        let topic = topic.clone();
        match error {
            PartitionError::UnknownTopic(topic)
            | PartitionError::UnknownPartition { topic, .. } => Self::Unknown(topic),
            PartitionError::Reserved(topic) => Self::Reserved(topic),
            PartitionError::LimitReached { partitions: wanted, max } => {
                Self::TooManyPartitions { wanted, there, max }
            }
            PartitionError::TooManyTopics { there, max } => Self::TooManyTopics { there, max },
            PartitionError::Unfinished { topic, why } => Self::Unfinished { topic, why },
            PartitionError::Create(source) => Self::Storage { topic, source },
        }
    }
}
