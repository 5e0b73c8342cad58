//! The token of a handshake: opaque here, and never shown.

use std::fmt;

use crate::model::limits::TOKEN_BYTES_MAX;

/// Bytes that say who asks: at most [`TOKEN_BYTES_MAX`]. Debug output hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

/// A token with more bytes than the protocol carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token has {len} bytes, the limit is {TOKEN_BYTES_MAX}")]
pub struct TokenTooLong {
    /// Bytes given.
    pub len: usize,
}

impl Token {
    /// A token of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, TokenTooLong> {
        let bytes = bytes.as_ref();
        if bytes.len() > TOKEN_BYTES_MAX {
            return Err(TokenTooLong { len: bytes.len() });
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes. Whoever compares them with a secret does it in constant time.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}
