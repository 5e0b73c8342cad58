//! Names, ids, offsets and limits: the vocabulary that every layer shares; which name was meant; the small files that settings name.
//!
//! Nothing here knows bytes on a wire or in the log.

#[cfg(feature = "server")]
mod likeness;
pub mod limits;
#[cfg(feature = "tls")]
mod named_file;
mod names;

#[cfg(feature = "server")]
pub use likeness::{likeness, nearest, nearest_by};
#[cfg(feature = "tls")]
pub use named_file::read_named_file;
pub use names::{GroupName, InvalidName, TopicName, TopicPartition};

/// The position of a record in its partition: 0 for the first one, growing by one for each record.
///
/// A frame with `record_count` n takes n offsets and carries the first of them.
pub type Offset = u64;

/// The number of a partition within its topic, counted from 0.
pub type PartitionId = u32;
