//! When a record counts as stored, whose time it carries, and what happens where the disk has lost some.

use serde::{Deserialize, Serialize};

/// When a producer is told that its record is stored, and when consumers see it.
///
/// The trade-off is latency against what a power cut may take. Neither mode loses an acked record when the process
/// dies: by then the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once the kernel has taken it. A flush follows within `storage.flush_interval_ms`; a power cut may take what was
    /// appended since.
    #[default]
    Interval,
    /// Once it is on the disk. Appends that arrive while one flush runs share the next one.
    Always,
}

/// Whose time the records of a log carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timestamps {
    /// The sender's: any, in any order.
    #[default]
    Create,
    /// The broker's at the append, whatever the sender said: they never go back within a partition.
    Append,
}

/// What a consumer meets where the bytes on disk are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnCorruption {
    /// It is disconnected there, each time it comes, until an operator has looked.
    #[default]
    Disconnect,
    /// It goes on behind the damage: those records are lost to it, and a log line and a metric say so.
    Skip,
}
