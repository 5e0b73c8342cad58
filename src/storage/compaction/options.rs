//! What an operator can set about compaction.

use serde::{Deserialize, Serialize};

use crate::model::limits::MIB;

const HOUR_NS: u64 = 3600 * 1_000_000_000;

/// How records that are not kept any longer go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cleanup {
    /// Whole segments are deleted, by age and by size.
    #[default]
    Delete,
    /// Only the newest frame of each key is kept, whatever its age.
    Compact,
    /// Both: the newest frame of each key is kept, and goes by age and by size.
    Both,
}

impl Cleanup {
    /// Whether superseded frames are taken out.
    pub fn compacts(self) -> bool {
        self != Self::Delete
    }

    /// Whether segments are deleted by age and by size.
    pub fn deletes(self) -> bool {
        self != Self::Compact
    }
}

/// Section `compaction` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionOptions {
    /// Time between two looks for something to compact, in seconds; 0 turns compaction off.
    pub interval_sec: u32,
    /// Share of a log's sealed bytes, in percent, that must have come since it was compacted last before it is compacted
    /// again.
    pub min_dirty_percent: u32,
    /// Longest time that a superseded frame stays, in hours, whatever that share is.
    pub max_lag_hours: u32,
    /// Time that a tombstone stays once all that it supersedes is gone, in hours.
    pub tombstone_retention_hours: u32,
    /// Memory for the keys of one pass, in MiB.
    pub memory_mb: u32,
    /// How fast compaction reads and writes the disk, in MiB a second.
    pub mb_per_s: u32,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            interval_sec: 60,
            min_dirty_percent: 50,
            max_lag_hours: 168,
            tombstone_retention_hours: 24,
            memory_mb: 32,
            mb_per_s: 20,
        }
    }
}

/// What one look at a log goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Share of the sealed bytes that must be dirty, in percent.
    pub min_dirty_percent: u32,
    /// Longest time that a superseded frame stays, in ns.
    pub max_lag_ns: u64,
    /// Time that a tombstone stays, in ns.
    pub tombstone_retention_ns: u64,
    /// Bytes for the keys of one pass.
    pub memory_bytes: u64,
}

impl From<&CompactionOptions> for Rules {
    fn from(options: &CompactionOptions) -> Self {
        let ns = |hours: u32| u64::from(hours).saturating_mul(HOUR_NS);
        Self {
            min_dirty_percent: options.min_dirty_percent,
            max_lag_ns: ns(options.max_lag_hours),
            tombstone_retention_ns: ns(options.tombstone_retention_hours),
            memory_bytes: u64::from(options.memory_mb) * MIB,
        }
    }
}
