//! Version 1.1: the frames of 1.0 behind a handshake that can be extended, with answers that say why.
//!
//! Specification: `docs/PROTOCOL.md`, part "Version 1.1". All integers are big-endian.
//!
//! | message | from | type |
//! |---|---|---|
//! | handshake | client | [`Handshake`] |
//! | reply, answers to frames and to commits | broker | [`Answer`] |
//! | commits | client | [`commits`], [`write_commit`] |
//! | record frames and control frames | broker | [`Incoming`], [`ControlFrame`] |
//!
//! Nothing here keeps state: each reader takes what has arrived so far and says what stands at its start. Incomplete is
//! not malformed, and says how many bytes it takes to go on. That number is bounded for each message, so a reader that
//! makes room for it makes room for no claim of the peer.

mod answer;
mod commit;
mod control;
mod error;
mod handshake;
mod parse;
mod tag;
mod token;
mod traceparent;
mod write;

pub use answer::{ANSWER_LEN_MAX, Answer, AnswerTo};
pub use commit::{COMMIT_LEN, Commits, NO_COMMIT, commits, write_commit};
pub use control::{CONTROL_LEN_MAX, ControlFrame, Incoming, IncomingError, MAGIC_CONTROL};
pub use error::{HandshakeError, HandshakeTooLong};
pub use handshake::{Client, Durability, Fallback, HANDSHAKE_LEN_MAX, Handshake, Role, Start};
pub use tag::Tag;
pub use token::{Token, TokenTooLong};
pub use traceparent::TraceParent;

/// What a reader found at the start of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<T> {
    /// A whole message, and how many bytes it takes.
    Complete(T, usize),
    /// The start of one; it takes at least `needed` bytes in all to go on.
    Incomplete {
        /// Bytes from the start of the message. Bounded by the message's `…_LEN_MAX`.
        needed: usize,
    },
}

#[cfg(test)]
mod tests;
