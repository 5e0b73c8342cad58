//! Looking at a partition's directory from outside, without changing a byte of it.
//!
//! It is the code of the broker that looks: checksums, marks, the walk from frame to frame, the search behind damage; on a
//! disk that refuses to be written (`read_only`).
//!
//! Reading order: `layout` (which files there are), `view` (one segment: how far it goes), `pieces` (its frames and
//! its damage), `listed` (its index), `verify`, `dump`, and `report`, which is what they find.

mod dump;
mod layout;
mod listed;
mod pieces;
mod read_only;
mod report;
mod verify;
mod view;

pub use dump::{Dumped, DumpedFrame, dump_partition};
pub use report::{
    Finding, InspectError, Kind, PartitionReport, SegmentReport, Severity, Span, State,
};
pub use verify::{is_partition, partition_bytes, verify_partition};

pub(super) use layout::{Files, Layout};
pub(super) use listed::Listed;
pub(super) use read_only::ReadOnlyDisk;
pub(super) use verify::{Examined, examine_all};
pub(super) use view::{Behind, View};
