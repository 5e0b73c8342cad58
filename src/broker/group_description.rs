//! What is said about consumer groups to those who administer them, what can be asked for, and why it is not done.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::as_text;
use super::error::CommitError;
use crate::model::{GroupName, Offset, PartitionId, TopicName, TopicPartition};
use crate::storage::LocateError;

/// A group in a list: one that has committed offsets or connected consumers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupSummary {
    /// Its name.
    #[serde(with = "as_text")]
    pub name: GroupName,
    /// Consumers that are connected.
    pub consumers: usize,
    /// Partitions of which it has committed an offset.
    pub partitions: usize,
    /// Records that it has not committed, of these partitions together.
    pub lag: u64,
    /// When it last committed, in the broker's time, in ns since the Unix epoch.
    pub last_commit_ns: Option<u64>,
}

/// All about a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupDescription {
    /// Its name.
    #[serde(with = "as_text")]
    pub name: GroupName,
    /// Consumers that are connected.
    pub consumers: usize,
    /// Where it stands, by topic and partition.
    pub offsets: Vec<GroupOffset>,
}

/// Where a group stands in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupOffset {
    /// The topic.
    #[serde(with = "as_text")]
    pub topic: TopicName,
    /// The partition's number.
    pub partition: PartitionId,
    /// Consumers that are connected to it.
    pub consumers: usize,
    /// The offset at which the group resumes; `None` if it never committed.
    pub committed: Option<Offset>,
    /// When that was committed, in the broker's time, in ns since the Unix epoch.
    pub last_commit_ns: Option<u64>,
    /// Offset of the oldest record kept; `None` if there is no such partition.
    pub start_offset: Option<Offset>,
    /// Offset after the last record.
    pub end_offset: Option<Offset>,
    /// Records from where the group resumes to the end; `None` where one of the two is not known.
    pub lag: Option<u64>,
}

/// How far a group is behind in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLag {
    /// The offset at which the group resumes.
    pub committed: Offset,
    /// Records from there to the end.
    pub lag: u64,
}

/// Where a group is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetTo {
    /// To the oldest record kept.
    Earliest,
    /// To the end of the log.
    Latest,
    /// To this offset.
    Offset(Offset),
    /// To the first record of this time or later, in ns since the Unix epoch; to the end if there is none.
    #[serde(rename = "timestamp_ns")]
    Timestamp(u64),
}

impl fmt::Display for ResetTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Timestamp(ns) => write!(f, "timestamp {ns} ns"),
        }
    }
}

/// A request to put a group somewhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupReset {
    /// The topic.
    #[serde(with = "as_text")]
    pub topic: TopicName,
    /// The partitions; all of the topic if there are none.
    #[serde(default)]
    pub partitions: Vec<PartitionId>,
    /// Where to.
    pub to: ResetTo,
    /// Nothing is changed: the answer says what would be.
    #[serde(default)]
    pub dry_run: bool,
}

/// What was done, or would be, to one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResetStep {
    /// The partition's number.
    pub partition: PartitionId,
    /// Where the group stood; `None` if it had not committed.
    pub from: Option<Offset>,
    /// Where it is put.
    pub to: Offset,
    /// Offset of the oldest record kept.
    pub start_offset: Offset,
    /// Offset after the last record.
    pub end_offset: Offset,
}

/// Something about a group was not done. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// It has neither committed offsets nor connected consumers.
    #[error("there is no group {0}")]
    Unknown(GroupName),
    /// There is no such topic.
    #[error("there is no topic {0}")]
    UnknownTopic(TopicName),
    /// No group stands anywhere in it.
    #[error("{0} is the broker's own topic: no group reads it")]
    Reserved(TopicName),
    /// The topic does not have this partition.
    #[error("topic {topic} has no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: TopicName,
        /// The partition asked for.
        partition: PartitionId,
    },
    /// Its consumers would not notice, and their next commits would undo it.
    #[error(
        "{consumers} {} connected with group {group}; stop {} first",
        if *consumers == 1 { "consumer is" } else { "consumers are" },
        if *consumers == 1 { "it" } else { "them" }
    )]
    InUse {
        /// The group.
        group: GroupName,
        /// Consumers that are in the way.
        consumers: usize,
    },
    /// There is nothing to resume at there.
    #[error("offset {offset} is outside partition {partition}, which goes from {start} to {end}")]
    OutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The offset asked for.
        offset: Offset,
        /// Offset of the oldest record kept.
        start: Offset,
        /// Offset after the last record.
        end: Offset,
    },
    /// The place could not be found.
    #[error("partition {partition}: {source}")]
    Locate {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        source: LocateError,
    },
    /// An offset was not committed or forgotten. Those of the partitions before it were.
    #[error("partition {partition}: {source}")]
    Commit {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        source: CommitError,
    },
}
