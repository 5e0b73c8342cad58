//! What an operator can set about storage.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::durability::{Durability, OnCorruption};
use crate::model::limits;

/// Section `storage` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Directory of the log, created if missing.
    pub data_dir: PathBuf,
    /// Size at which a segment is sealed and the next one begins, in MiB.
    pub max_segment_mb: u32,
    /// Age at which a sealed segment may be deleted, in hours. Read, not enforced yet.
    pub retention_hours: u32,
    /// Time between two looks for segments to delete, in minutes. Read, not enforced yet.
    pub cleanup_interval_min: u32,
    /// When a record counts as stored, unless its topic says otherwise.
    pub durability: Durability,
    /// Time from accepting a record to flushing it to the disk, in milliseconds. A disk that takes more than twice as
    /// long holds up its producers.
    pub flush_interval_ms: u32,
    /// What a consumer meets where the bytes on disk are damaged.
    pub on_corruption: OnCorruption,
    /// Free space below which no record is appended, in MiB; 0 turns that off. Committed offsets may use it.
    pub min_free_mb: u32,
    /// Time between two comparisons of the whole log with its checksums, in hours; the first begins with the start. 0 turns
    /// them off.
    pub scrub_interval_hours: u32,
    /// How fast these read the disk, in MiB a second.
    pub scrub_mb_per_s: u32,
    /// A key of the Go original without a meaning here: accepted and ignored.
    pub buffer_pool_size_kb: Option<u32>,
    /// A key of the Go original without a meaning here: accepted and ignored.
    pub max_buffer_return_kb: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./hermitmq-data"),
            max_segment_mb: limits::SEGMENT_MB_DEFAULT,
            retention_hours: 168,
            cleanup_interval_min: 5,
            durability: Durability::Interval,
            flush_interval_ms: 500,
            on_corruption: OnCorruption::Disconnect,
            min_free_mb: limits::MIN_FREE_MB_DEFAULT,
            scrub_interval_hours: 168,
            scrub_mb_per_s: 20,
            buffer_pool_size_kb: None,
            max_buffer_return_kb: None,
        }
    }
}
