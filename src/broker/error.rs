//! Errors of the broker, one type for each operation.

use crate::model::{Offset, PartitionId, TopicName};
use crate::storage::{self, FlushError, LocateError, OpenError};

/// The broker could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The data directory could not be read.
    #[error("cannot read the data directory {}: {source}", path.display())]
    DataDir {
        /// The directory.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The catalog is not one.
    #[error(
        "{} cannot be used: {why}. It says which topics there are and how each is kept; if it is moved away, every \
         directory is taken for a topic that is kept as the configuration says",
        path.display()
    )]
    Catalog {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A partition could not be opened.
    #[error("cannot open a partition: {0}")]
    Partition(#[from] OpenError),
    /// A declared topic could not be created, or not with all its partitions.
    #[error("cannot create the declared topic {topic}: {source}")]
    Declared {
        /// The topic.
        topic: TopicName,
        /// Why.
        source: PartitionError,
    },
    /// A topic has more partitions than are declared.
    #[error(
        "topic {topic} has {there} partitions, and {declared} are declared for it; \
         partitions are never removed: declare at least {there}"
    )]
    FewerPartitions {
        /// The topic.
        topic: TopicName,
        /// Partitions it has.
        there: u32,
        /// Partitions it is declared with.
        declared: u32,
    },
    /// A flusher's thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The offsets topic could not be read.
    #[error("cannot read the committed offsets: {0}")]
    Offsets(#[from] RestoreError),
}

/// The committed offsets could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LocateError),
    /// The disk could not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// There is no such partition, and it was not created.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The topic does not exist and topics are not created on demand.
    #[error("unknown topic {0}")]
    UnknownTopic(TopicName),
    /// The topic exists without this partition.
    #[error("topic {topic} has no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: TopicName,
        /// The partition asked for.
        partition: PartitionId,
        /// One more than the highest that it has, or would have.
        partitions: u32,
    },
    /// Clients do not create the broker's own topics.
    #[error("{0} is reserved")]
    Reserved(TopicName),
    /// The broker holds as many partitions as it may.
    #[error("topics.max_partitions is {max}: {partitions} more do not fit")]
    LimitReached {
        /// Partitions the topic would have had.
        partitions: u32,
        /// The limit, `topics.max_partitions`.
        max: u32,
    },
    /// The broker holds as many topics as it may.
    #[error("topics.max_topics is {max}, and as many are there: {there}")]
    TooManyTopics {
        /// Topics there are.
        there: usize,
        /// The limit, `topics.max_topics`.
        max: u32,
    },
    /// A topic of this name was deleted, and not all that belonged to it is removed.
    #[error("topic {topic} was deleted, and not all of it is removed yet: {why}")]
    Unfinished {
        /// The topic.
        topic: TopicName,
        /// What stands in the way.
        why: String,
    },
    /// The disk did not take it.
    #[error("cannot create the topic: {0}")]
    Create(#[from] OpenError),
}

/// A run was not stored; a producer may try again later.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// So little disk space is left that it is kept for committed offsets.
    #[error("less disk space is left than storage.min_free_mb")]
    LowSpace,
    /// The topic was deleted.
    #[error("the topic was deleted")]
    Deleted,
    /// The log did not take it.
    #[error(transparent)]
    Log(#[from] storage::AppendError),
}

impl AppendError {
    /// Whether no later append can succeed until a restart.
    pub fn is_permanent(&self) -> bool {
        use storage::AppendError::{Io, OffsetsExhausted, ReadOnly};
        match self {
            Self::LowSpace | Self::Log(Io(_)) => false,
            Self::Deleted | Self::Log(ReadOnly | OffsetsExhausted(_)) => true,
        }
    }
}

/// An offset was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The offsets topic did not take it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The table holds as many offsets as it may.
    #[error("no room for one more group and partition")]
    TableFull,
    /// The topic was deleted.
    #[error("the topic was deleted")]
    Deleted,
    /// There is nothing to resume at there. [`Broker::commit`](super::Broker::commit) takes it for the end instead.
    #[error("offset {offset} is beyond the log end, which is {end}")]
    BeyondEnd {
        /// The offset.
        offset: Offset,
        /// Offset after the last record.
        end: Offset,
    },
}

/// Some partition could not be flushed at the end.
#[derive(Debug, thiserror::Error)]
#[error("{failed} partitions could not be flushed, the first with: {first}")]
pub struct CloseError {
    /// How many.
    pub failed: usize,
    /// Why the first of them failed.
    pub first: FlushError,
}

/// A look through the log was ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct ScrubStopped;

/// Compaction was ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct CompactionStopped;
