//! Consumer groups of a broker.

use serde::{Deserialize, Serialize};

use super::{AdminClient, AdminError};
use crate::model::{GroupName, Offset, PartitionId, TopicName};

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// Consumers that are connected.
    pub consumers: u64,
    /// Partitions of which it has committed an offset.
    pub partitions: u64,
    /// Records that it has not committed, of these partitions together.
    pub lag: u64,
    /// When it last committed, in ns since the Unix epoch.
    pub last_commit_ns: Option<u64>,
}

/// All about a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// Consumers that are connected.
    pub consumers: u64,
    /// Where it stands, by topic and partition.
    pub offsets: Vec<GroupOffset>,
}

/// Where a group stands in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: PartitionId,
    /// Consumers that are connected to it.
    pub consumers: u64,
    /// The offset at which the group resumes; `None` if it never committed.
    pub committed: Option<Offset>,
    /// When that was committed, in ns since the Unix epoch.
    pub last_commit_ns: Option<u64>,
    /// Offset of the oldest record kept; `None` if there is no such partition.
    pub start_offset: Option<Offset>,
    /// Offset after the last record.
    pub end_offset: Option<Offset>,
    /// Records from where the group resumes to the end.
    pub lag: Option<u64>,
}

/// Where a group is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetTo {
    /// To the oldest record kept.
    Earliest,
    /// To the end of the log.
    Latest,
    /// To this offset.
    Offset(Offset),
    /// To the first record of this time or later, in ns since the Unix epoch.
    #[serde(rename = "timestamp_ns")]
    Timestamp(u64),
}

/// What was done, or would be, to one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A request to put a group somewhere else in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReset {
    /// The topic.
    pub topic: TopicName,
    /// The partitions; all of the topic if there are none.
    pub partitions: Vec<PartitionId>,
    /// Where to.
    pub to: ResetTo,
    /// Nothing is changed: the answer says what would be.
    pub dry_run: bool,
}

#[derive(Serialize)]
struct Reset<'a> {
    topic: &'a str,
    partitions: &'a [PartitionId],
    to: ResetTo,
    dry_run: bool,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<GroupSummary>,
}

#[derive(Deserialize)]
struct Steps {
    steps: Vec<ResetStep>,
}

impl AdminClient {
    /// All groups that have committed something or are connected, by name.
    pub async fn groups(&self) -> Result<Vec<GroupSummary>, AdminError> {
        let Groups { groups } = self.get("/api/v1/groups").await?;
        Ok(groups)
    }

    /// All about a group.
    pub async fn describe_group(&self, group: &GroupName) -> Result<GroupDescription, AdminError> {
        self.get(&path(group)).await
    }

    /// Puts a group somewhere else in a topic; refused while consumers of it are connected there.
    pub async fn reset_group(
        &self,
        group: &GroupName,
        reset: &GroupReset,
    ) -> Result<Vec<ResetStep>, AdminError> {
        let GroupReset { topic, partitions, to, dry_run } = reset;
        let body = Reset { topic: topic.as_str(), partitions, to: *to, dry_run: *dry_run };
        let answer = self.send("POST", &format!("{}/reset", path(group)), &body).await?;
        let Steps { steps } = answer.value()?;
        Ok(steps)
    }

    /// Forgets everything that a group has committed; refused while consumers of it are connected.
    pub async fn delete_group(&self, group: &GroupName) -> Result<(), AdminError> {
        self.ask("DELETE", &path(group), None).await?.done().map(drop)
    }
}

/// Names have no characters that mean something in a path.
fn path(group: &GroupName) -> String {
    format!("/api/v1/groups/{group}")
}
