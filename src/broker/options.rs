//! What an operator can set about topics.

use serde::{Deserialize, Serialize};

use crate::model::limits;

/// Section `topics` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether a topic that a client names is created if it does not exist.
    pub auto_create: bool,
    /// Partitions of a topic created that way.
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
