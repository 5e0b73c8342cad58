//! The wire protocol, without I/O: bytes in, values out, and back.
//!
//! Version 1.0 is frozen, byte for byte. Specification: `docs/PROTOCOL.md`.
//!
//! * [`Request`]: the handshake, which says what a connection is for.
//! * [`Ack`]: the answer to a produced frame.
//! * [`Status`]: what an answer can say.

mod ack;
mod handshake;
mod status;

pub use ack::{ACK_LEN, Ack, COMMIT_ACK};
pub use handshake::{HANDSHAKE_LEN_MAX, HandshakeError, Parsed, Request, parse};
pub use status::Status;

#[cfg(test)]
mod tests;
