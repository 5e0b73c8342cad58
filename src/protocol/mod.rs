//! The wire protocol, without I/O: bytes in, values out, and back.
//!
//! Version 1.0 is frozen, byte for byte; [`v1_1`] stands beside it. Specification of both: `docs/PROTOCOL.md`.
//!
//! * [`Dialect`]: which of them a connection speaks.
//! * [`Request`]: the handshake of 1.0, which says what a connection is for.
//! * [`Ack`]: the answer of 1.0 to a produced frame.
//! * [`Status`]: what an answer can say, in both.

mod ack;
mod dialect;
mod handshake;
mod status;
pub mod v1_1;

pub use ack::{ACK_LEN, Ack, COMMIT_ACK};
pub use dialect::Dialect;
pub use handshake::{HANDSHAKE_LEN_MAX, HandshakeError, Parsed, Request, parse};
pub use status::Status;

#[cfg(test)]
mod tests;
