//! What is wrong with a broker that runs.

use std::fmt;

use crate::model::TopicPartition;
use crate::model::limits::MIB;

/// Everything that is wrong now. Each kind of problem stands there once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The problems; none if all is well.
    pub problems: Vec<Problem>,
}

/// Something that an operator should see to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// So little disk space is left that no record is appended. It ends by itself once there is more.
    LowSpace {
        /// Bytes that must be free: `storage.min_free_mb`.
        min_bytes: u64,
    },
    /// A flush failed, or a start could not cut the end of a log: these take no more records until a restart.
    ReadOnly {
        /// Their names, sorted.
        partitions: Vec<TopicPartition>,
    },
    /// The last attempt to compact these has failed. It is tried again.
    Compaction {
        /// Their names, sorted.
        partitions: Vec<TopicPartition>,
    },
    /// Damage was found in the log, at the start or later. It ends when retention or somebody deletes what is damaged.
    Damaged {
        /// Segments in which it was found.
        segments: u64,
    },
}

/// Partitions that a text names before it only counts the rest.
const NAMED_MAX: usize = 8;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowSpace { min_bytes } => write!(
                f,
                "less than {} MiB of disk space are left; producers are told to retry",
                min_bytes / MIB
            ),
            Self::ReadOnly { partitions } => {
                f.write_str(
                    "a flush failed, or the start could not cut the end of a log; read-only until a restart:",
                )?;
                name_some(f, partitions)
            }
            Self::Compaction { partitions } => {
                write!(f, "compaction fails, and is tried again:")?;
                name_some(f, partitions)
            }
            Self::Damaged { segments: 1 } => f.write_str("damage was found in one segment"),
            Self::Damaged { segments } => write!(f, "damage was found in {segments} segments"),
        }
    }
}

fn name_some(f: &mut fmt::Formatter<'_>, partitions: &[TopicPartition]) -> fmt::Result {
    for partition in partitions.iter().take(NAMED_MAX) {
        write!(f, " {partition}")?;
    }
    match partitions.len().saturating_sub(NAMED_MAX) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
