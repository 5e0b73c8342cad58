//! One partition's log: segments, offset index, recovery, and slices of files to send.
//!
//! Layout: `{data_dir}/{topic}_{partition}/{base_offset:020}.wal` holds frames back to back, exactly as on the wire;
//! `.idx` beside it is the offset index, derived from it. Specification: `docs/STORAGE.md`.
//!
//! Reading order: [`Disk`] and [`Clock`] (what is asked of the system), `index`, `segment`, [`Log`] (reading), `writer`
//! (appending), `flush` (making it durable), `alter` (keeping it in another way), `retention` (deleting what is old),
//! `compaction` (taking out what is superseded), `time` (what is old), `walk` (reading frames from a file), `recovery` (every start goes through
//! it), [`DirLock`].

mod alter;
pub mod backup;
mod checksums;
mod clock;
mod compaction;
mod compare;
mod crc;
mod damage;
mod dir_lock;
mod disk;
mod durability;
mod error;
pub mod file_slice;
mod flush;
mod forgiving;
mod index;
pub mod inspect;
mod log;
mod mmap;
mod options;
mod os_disk;
mod place;
mod recovery;
pub mod repair;
mod replace;
mod retention;
mod scrub;
mod segment;
#[cfg(test)]
pub(crate) mod sim_disk;
#[cfg(test)]
mod tests;
mod time;
mod walk;
mod whole_file;
mod writer;

pub use alter::AlterError;
pub use clock::{Clock, ManualClock, SystemClock};
pub use compaction::{Cleanup, Compacted, CompactionOptions, Rules as CompactionRules};
pub use damage::BadRange;
pub use dir_lock::{DataDirError, DirLock};
pub use disk::{Disk, Entry, File, Map, Open};
pub use durability::{Durability, OnCorruption, Timestamps};
pub use error::{AppendError, FlushError, LocateError, OpenError, is_full, is_out_of_descriptors};
pub use file_slice::FileSlice;
pub use log::{Cursor, Environment, Fetch, Log, LogOptions, Moved};
pub use options::Options;
pub use os_disk::OsDisk;
pub use retention::{Deleted, Retention, SegmentSize};
pub use scrub::Scrubbed;
pub use time::{GradualClock, load_time, save_time};
pub use whole_file::{read_file, replace_file};
pub use writer::Appended;
