//! Names of those who come, and how they are known.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::token::TokenEntry;

/// The principal of those who are not known.
pub const ANONYMOUS: &str = "anonymous";

/// Longest name of a principal, in bytes.
const LEN_MAX: usize = 255;

/// The name of whoever uses the broker: 1 to 255 bytes without control characters, without blanks at its ends.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

/// The text is no name of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a principal has 1 to {LEN_MAX} bytes, no control characters, no blank at its ends, and is not *"
)]
pub struct InvalidPrincipal;

impl Principal {
    /// Checks a name.
    pub fn parse(name: &str) -> Result<Self, InvalidPrincipal> {
        let right = (1..=LEN_MAX).contains(&name.len())
            && !name.contains(char::is_control)
            && name.trim() == name
            && name != "*";
        if right { Ok(Self(name.into())) } else { Err(InvalidPrincipal) }
    }

    /// Whoever is not known.
    pub fn anonymous() -> Self {
        Self(ANONYMOUS.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What somebody who comes can show.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// A token, of protocol 1.1 or of HTTP.
    pub token: Option<&'a [u8]>,
    /// The name in a client certificate that was verified.
    pub certificate: Option<&'a str>,
    /// Where the connection comes from.
    pub address: IpAddr,
}

/// Who somebody is, and how that is known.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The name.
    pub principal: Principal,
    /// Whether it has shown something that others do not have: a token or a certificate. Else it only comes from somewhere.
    pub proven: bool,
    /// The token, if that was it.
    pub(super) token: Option<Arc<TokenEntry>>,
}

impl Identity {
    pub(super) fn of(principal: Principal, proven: bool) -> Self {
        Self { principal, proven, token: None }
    }
}

/// Who somebody is could not be established. Says nothing about which tokens there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A token was shown, and is none of those that are known.
    #[error("the token is not valid")]
    Token,
    /// A certificate was shown whose name is no principal's.
    #[error("the name in the client certificate is no name of a principal")]
    Certificate,
}
