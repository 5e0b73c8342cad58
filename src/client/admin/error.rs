//! How an administrative request can fail.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Deserialize;

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The text is no address.
    #[error(
        "{0:?} is no address of an admin listener; it must be http://HOST:PORT, https://HOST:PORT or HOST:PORT"
    )]
    Address(String),
    /// The token has bytes that HTTP does not carry.
    #[error("the token cannot be sent over HTTP: it has bytes that a header may not have")]
    Token,
    /// Nobody listens there, or the host has no address.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address that was tried.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// There is no TLS connection.
    #[cfg(feature = "tls")]
    #[error("cannot connect to {address} with TLS: {problem}")]
    Tls {
        /// Address that was tried.
        address: String,
        /// Why.
        problem: crate::client::TlsProblem,
    },
    /// The address begins with `https:`, and nothing says whose certificates are accepted.
    #[cfg(feature = "tls")]
    #[error("{0} needs the CA that signed the certificate there: `with_tls`")]
    NoCa(String),
    /// The connection broke, or what answers does not speak HTTP. The broker may have done what was asked.
    #[error("no answer from {address}: {cause}")]
    Broken {
        /// Address of the listener.
        address: String,
        /// What happened.
        cause: String,
    },
    /// No answer within the time allowed. The broker may have done what was asked, or do it later.
    #[error("no answer from {address} within {} s", after.as_secs())]
    Timeout {
        /// Address of the listener.
        address: String,
        /// How long.
        after: Duration,
    },
    /// The broker says why not.
    #[error(transparent)]
    Problem(#[from] ProblemDetails),
    /// The answer is not one of a broker, or not of this version.
    #[error(
        "unexpected answer (status {status}): {cause}; is that the admin listener of a broker?"
    )]
    Unexpected {
        /// Its HTTP status.
        status: u16,
        /// What is wrong with it.
        cause: String,
    },
}

/// What a broker says about a request that it did not do (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProblemDetails {
    /// Tells kinds of problems apart: `urn:hermitmq:problem:` and a word, such as `unknown-topic`.
    pub r#type: String,
    /// The same for every problem of the kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is particular about it.
    pub detail: String,
    /// The field, parameter or part of the path that is to blame.
    #[serde(default)]
    pub field: Option<String>,
}

impl ProblemDetails {
    /// The word at the end of the type.
    pub fn kind(&self) -> &str {
        self.r#type.rsplit(':').next().unwrap_or_default()
    }
}

impl fmt::Display for ProblemDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for ProblemDetails {}
