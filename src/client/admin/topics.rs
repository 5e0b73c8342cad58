//! Topics of a broker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AdminClient, AdminError};
use crate::model::{Offset, PartitionId, TopicName};

/// When records count as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once the kernel has them; a flush follows within the flush interval.
    Interval,
    /// Once they are on the disk.
    Always,
}

/// What is set for a topic; `None` is as the configuration of the broker says for all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSettings {
    /// Partitions it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// When its records count as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Age of its last record at which a segment is deleted, in hours; 0 for no limit by age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_hours: Option<u32>,
    /// Of each partition so much is kept at least, in MiB; 0 for no limit by size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_mb: Option<u32>,
    /// Size at which a segment is sealed and the next one begins, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segment_mb: Option<u32>,
    /// Largest payload of a frame, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_payload_mb: Option<u32>,
    /// Settings that this version of the client has no field for, by their names in the configuration.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Changes to the settings of a topic, by their names in the configuration. What is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TopicChange {
    #[serde(flatten)]
    settings: BTreeMap<String, Value>,
}

impl TopicChange {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// A setting is to have this value.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    /// A setting is to be as the configuration says for all topics.
    #[must_use]
    pub fn set_default(self, name: &str) -> Self {
        self.set(name, Value::Null)
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }
}

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicSummary {
    /// Its name.
    pub name: String,
    /// It is one of the broker's own.
    pub reserved: bool,
    /// Partitions it has.
    pub partitions: u32,
    /// Bytes of their logs.
    pub bytes: u64,
}

/// All about a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// It is one of the broker's own.
    pub reserved: bool,
    /// The configuration of the broker declares it, and says at each start how it is kept.
    pub declared: bool,
    /// What is set for it.
    pub settings: TopicSettings,
    /// What holds, set or not.
    pub effective: TopicSettings,
    /// Its partitions, by their numbers.
    pub partitions: Vec<PartitionDescription>,
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub segments: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// A failed flush has made it read-only until a restart.
    pub read_only: bool,
    /// Records that are damaged, as far as is known.
    pub damaged: Vec<DamagedRange>,
}

/// Records that are damaged on the disk and not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRange {
    /// Offset of the first of them.
    pub start_offset: Offset,
    /// Offset after the last of them.
    pub end_offset: Offset,
    /// Bytes that they take.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Topics {
    topics: Vec<TopicSummary>,
}

#[derive(Serialize)]
struct NewTopic<'a> {
    name: &'a str,
    #[serde(flatten)]
    settings: &'a TopicSettings,
}

impl AdminClient {
    /// All topics, by name, the broker's own included.
    pub async fn topics(&self) -> Result<Vec<TopicSummary>, AdminError> {
        let Topics { topics } = self.get("/api/v1/topics").await?;
        Ok(topics)
    }

    /// All about a topic.
    pub async fn describe_topic(&self, topic: &TopicName) -> Result<TopicDescription, AdminError> {
        self.get(&path(topic)).await
    }

    /// Creates a topic.
    pub async fn create_topic(
        &self,
        topic: &TopicName,
        settings: &TopicSettings,
    ) -> Result<TopicDescription, AdminError> {
        let body = NewTopic { name: topic.as_str(), settings };
        self.send("POST", "/api/v1/topics", &body).await?.value()
    }

    /// Changes how a topic is kept, and gives it more partitions.
    pub async fn alter_topic(
        &self,
        topic: &TopicName,
        change: &TopicChange,
    ) -> Result<TopicDescription, AdminError> {
        self.send("PATCH", &path(topic), change).await?.value()
    }

    /// Deletes a topic, with its records and what groups have committed of it.
    pub async fn delete_topic(&self, topic: &TopicName) -> Result<(), AdminError> {
        self.ask("DELETE", &path(topic), None).await?.done().map(drop)
    }
}

/// Names have no characters that mean something in a path.
fn path(topic: &TopicName) -> String {
    format!("/api/v1/topics/{topic}")
}
