//! Topics, partitions and consumer offsets.

mod options;

pub use options::Options;
