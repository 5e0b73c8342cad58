//! Topics, partitions and consumer offsets: what the broker knows, without sockets and without the wire protocol.
//!
//! * [`Broker`]: finds and creates partitions, commits offsets.
//! * [`Partition`]: appends runs, gives readers their next bytes, wakes those who wait.
//! * [`Wake`]: how a waiting reader is told; implemented by the network layer.

#[expect(clippy::module_inception, reason = "the broker is the module's main type")]
mod broker;
mod catalog;
mod error;
mod flusher;
mod offsets;
mod options;
mod partition;
mod restore;
#[cfg(test)]
mod tests;
mod wake;

pub use broker::{Broker, Parts};
pub use catalog::parse_dir_name;
pub use error::{BrokerError, CloseError, CommitError, PartitionError, RestoreError};
pub use offsets::OffsetKey;
pub use options::Options;
pub use partition::{Moved, Partition};
pub use wake::{WaiterId, Wake};

pub use crate::storage::{AppendError, Appended, Cursor, Fetch, LocateError};
