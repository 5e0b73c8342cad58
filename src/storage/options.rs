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
    /// Age of its last record at which a segment is deleted, in hours, unless its topic says otherwise.
    pub retention_hours: u32,
    /// Of each partition so much is kept at least, in MiB: older segments are deleted, unless its topic says otherwise. 0 is
    /// no limit by size.
    pub retention_mb: u32,
    /// What all partitions together may take, in MiB: beyond it the oldest sealed segments of all are deleted. 0 is no limit.
    pub max_total_mb: u32,
    /// Time between two looks for segments to delete, in minutes.
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
            retention_mb: 0,
            max_total_mb: 0,
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
