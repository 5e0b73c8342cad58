//! What the broker answers: to the handshake, to each frame, to each commit.

use super::Parsed;
use crate::model::limits::MESSAGE_BYTES_MAX;
use crate::protocol::Status;
use crate::record::wire;

/// Status and value.
const FIXED_LEN: usize = 9;

/// Bytes of the longest answer: status, value, length and message.
pub const ANSWER_LEN_MAX: usize = FIXED_LEN + 2 + u16::MAX as usize;

/// What an answer answers: it decides whether a message follows the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerTo {
    /// The handshake. A message follows every status but `ok`, then the broker closes.
    Handshake,
    /// A produced frame. A message follows a permanent error, then the broker closes; after a transient one the frame
    /// was not stored and the connection goes on.
    Frame,
    /// A commit on a connection of role commit. No message follows.
    Commit,
}

impl AnswerTo {
    /// Whether a message follows an answer with this code, known or not.
    pub const fn has_message(self, code: u8) -> bool {
        let error = code != Status::Ok.code();
        match self {
            Self::Handshake => error,
            Self::Frame => error && !Status::is_transient_code(code),
            Self::Commit => false,
        }
    }
}

/// An answer: status `u8`, value `u64`, and where [`AnswerTo::has_message`] says so length `u16` and message
/// (`docs/PROTOCOL.md`, section "Answers").
///
/// Without a message it has the bytes of an [`Ack`](crate::protocol::Ack), so frames that were stored are answered as
/// in version 1.0.
///
/// ```
/// use hermitmq::protocol::Status;
/// use hermitmq::protocol::v1_1::{Answer, AnswerTo, Parsed};
///
/// let answer = Answer::error(Status::UnknownTopic, 0, "no such topic");
/// let mut bytes = Vec::new();
/// answer.write(AnswerTo::Handshake, &mut bytes);
/// assert_eq!(bytes, b"\x06\0\0\0\0\0\0\0\0\x00\x0dno such topic");
/// assert_eq!(Answer::parse(AnswerTo::Handshake, &bytes), Parsed::Complete(answer, 24));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code as it came; see [`Answer::status`].
    pub code: u8,
    /// An offset if the status is `ok`, else a detail of the error.
    pub value: u64,
    /// For people; empty where none follows.
    pub message: String,
}

impl Answer {
    /// It was done.
    pub const fn ok(value: u64) -> Self {
        Self { code: Status::Ok.code(), value, message: String::new() }
    }

    /// It was not done; `value` is a detail that the status asks for, else 0.
    pub fn error(status: Status, value: u64, message: impl Into<String>) -> Self {
        debug_assert!(status != Status::Ok);
        Self { code: status.code(), value, message: message.into() }
    }

    /// The status, if the code is a known one.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.code)
    }

    /// Whether it was done.
    pub const fn is_ok(&self) -> bool {
        self.code == Status::Ok.code()
    }

    /// Whether trying again later can help, whatever the code.
    pub const fn is_transient(&self) -> bool {
        Status::is_transient_code(self.code)
    }

    /// Appends the answer to `out`. Of the message goes out what [`AnswerTo::has_message`] allows, and no more than
    /// [`MESSAGE_BYTES_MAX`] bytes, cut between characters.
    pub fn write(&self, to: AnswerTo, out: &mut Vec<u8>) {
        out.push(self.code);
        out.extend_from_slice(&wire::u64_bytes(self.value));
        if to.has_message(self.code) {
            let message = cut(&self.message);
            // The bound is far below this, see `limits`.
            let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&wire::u16_bytes(len));
            out.extend_from_slice(message.as_bytes());
        }
    }

    /// Reads an answer. Nothing in it can be malformed: codes that are not known keep their class, and a message that
    /// is not UTF-8 is shown as well as it can be.
    pub fn parse(to: AnswerTo, bytes: &[u8]) -> Parsed<Self> {
        let (Some(&code), Some(value)) = (bytes.first(), wire::get_u64(bytes, 1)) else {
            return Parsed::Incomplete { needed: FIXED_LEN };
        };
        if !to.has_message(code) {
            return Parsed::Complete(Self { code, value, message: String::new() }, FIXED_LEN);
        }
        let begin = FIXED_LEN + 2;
        let Some(len) = wire::get_u16(bytes, FIXED_LEN) else {
            return Parsed::Incomplete { needed: begin };
        };
        let end = begin + usize::from(len);
        let Some(message) = bytes.get(begin..end) else {
            return Parsed::Incomplete { needed: end };
        };
        let message = String::from_utf8_lossy(message).into_owned();
        Parsed::Complete(Self { code, value, message }, end)
    }
}

/// As much of a message as the broker writes.
pub(super) fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}
