//! What an operator can set about topics.

use serde::{Deserialize, Serialize};

use crate::model::{TopicName, limits};
use crate::storage::{Cleanup, Durability};

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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            auto_create: true,
            default_partitions: 1,
            max_partitions: limits::PARTITIONS_DEFAULT_MAX,
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
    /// Whether segments are deleted by age and size, or superseded frames taken out, or both.
    #[serde(default)]
    pub cleanup: Option<Cleanup>,
}

impl TopicOptions {
    /// A topic about which nothing but its name is said.
    pub fn named(name: TopicName) -> Self {
        Self {
            name,
            partitions: None,
            durability: None,
            retention_hours: None,
            retention_mb: None,
            cleanup: None,
        }
    }
}

/// A topic's name as the text that it is in a file.
mod as_text {
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    use crate::model::TopicName;

    pub(super) fn serialize<S: Serializer>(name: &TopicName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TopicName, D::Error> {
        TopicName::parse(String::deserialize(from)?).map_err(D::Error::custom)
    }
}
