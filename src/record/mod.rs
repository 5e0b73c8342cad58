//! The framed message: a 29-byte header, a key and a payload. The bytes on the wire are the bytes on disk.
//!
//! A *frame* is what is sent, stored and given an ack: one record, or a batch of `record_count` records.
//! Specification: `docs/PROTOCOL.md`, section "Frame".
//!
//! * [`Header`]: the fixed part, in and out of bytes.
//! * [`check`]: is there a complete frame at the start of these bytes? Incomplete is not malformed.
//! * [`scan`]: all complete frames of a buffer, as one [`Run`] whose offsets can be patched in place.
//! * [`FrameBuilder`]: writes frames.
//! * [`records`]: the records inside a batch.

mod batch;
mod builder;
mod header;
mod run;
pub mod wire;

pub use batch::{Records, records};
pub use builder::{FrameBuilder, FrameTooLarge};
pub use header::{Check, FrameError, FrameLimits, HEADER_LEN, Header, MAGIC_V1, check};
pub use run::{Frames, Run, Scan, scan};

#[cfg(test)]
mod tests;
