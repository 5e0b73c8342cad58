//! Names, ids, offsets and limits: the vocabulary that every layer shares.
//!
//! Nothing here knows bytes on a wire or on a disk.

pub mod limits;
mod names;

pub use names::{GroupName, InvalidName, TopicName, TopicPartition};

/// The position of a record in its partition: 0 for the first one, growing by one for each record.
///
/// A frame with `record_count` n takes n offsets and carries the first of them.
pub type Offset = u64;

/// The number of a partition within its topic, counted from 0.
pub type PartitionId = u32;
