//! The data plane.

mod options;

pub use options::{Options, SecurityOptions};
