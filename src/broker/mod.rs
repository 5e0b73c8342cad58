//! Topics, partitions and consumer offsets: what the broker knows, without sockets and without the wire protocol.
//!
//! * [`Broker`]: finds and creates partitions, commits offsets.
//! * [`Partition`]: appends runs, gives readers their next bytes, wakes those who wait.
//! * [`Wake`]: how those who wait are told; implemented by the network layer.
//! * [`Health`]: what is wrong now. [`OpenProgress`]: how far a start is. [`Reconfiguration`]: what can change while it runs.
//! * [`TopicDescription`], [`TopicChange`], [`GroupDescription`], [`GroupReset`] and their like: administration.
//!
//! For people and their tools: `peek` and `store`, one record at a time.
//!
//! Inside: `opener` (from the data directory, `catalog_file` and the declared topics to partitions), `dirt` and `flusher` (when what was
//! appended becomes durable), `space` (when nothing is appended), `retention` (what is deleted), `compaction` (what
//! is superseded), `offsets` and `restore` (committed offsets), `connected` and `expiry` (how long they are kept), `topics`,
//! `deletion` and `groups` (administration).

mod as_text;
#[expect(clippy::module_inception, reason = "the broker is the module's main type")]
mod broker;
mod catalog;
mod catalog_file;
mod compaction;
mod connected;
mod deletion;
mod dirt;
mod error;
mod expiry;
mod flusher;
mod group_description;
mod groups;
mod health;
mod offsets;
mod opener;
mod options;
mod partition;
mod peek;
mod progress;
mod reconfigure;
mod restore;
mod retention;
mod space;
mod store;
#[cfg(test)]
mod tests;
mod topic;
mod topic_change;
mod topic_description;
mod topics;
mod wake;

pub use broker::{Broker, Parts};
pub use catalog::{parse_deleted_dir_name, parse_dir_name};
pub use catalog_file::{FILE as CATALOG, check_catalog, dirs_in_catalog};
pub use connected::Member;
pub use error::{
    AppendError, BrokerError, CloseError, CommitError, CompactionStopped, PartitionError,
    RestoreError, ScrubStopped,
};
pub use group_description::{
    GroupDescription, GroupError, GroupLag, GroupOffset, GroupReset, GroupSummary, ResetStep,
    ResetTo,
};
pub use health::{Health, Problem};
pub use offsets::OffsetKey;
pub use options::{OffsetsOptions, Options, TopicOptions};
pub use partition::{Partition, Settled};
pub use peek::{Peek, PeekError, PeekFrom, Peeked, PeekedFrame};
pub use progress::OpenProgress;
pub use reconfigure::Reconfiguration;
pub use store::StoreError;
pub use topic_change::{Change, TopicChange, TopicError};
pub use topic_description::{
    DamagedRange, EffectiveSettings, PartitionDescription, TopicDescription, TopicSummary,
};
pub use wake::{WaiterId, Wake};

pub use crate::storage::{
    Appended, Compacted, Cursor, Deleted, Fetch, LocateError, Moved, SegmentSize,
    is_out_of_descriptors,
};
