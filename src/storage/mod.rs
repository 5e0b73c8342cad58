//! One partition's log.

mod options;

pub use options::Options;
