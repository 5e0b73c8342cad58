//! How TLS handshakes fail.

use super::Counter;

/// Why there was no TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsFailure {
    /// The client did not begin one where it must.
    Plaintext,
    /// It has no certificate where it must have one, or a bad one.
    Certificate,
    /// It broke off, and said so: it does not accept the broker's certificate, as a rule.
    Alert,
    /// No common version, or no TLS at all behind a first byte that looked like it.
    Protocol,
    /// It took longer than a handshake may.
    Timeout,
    /// It went away.
    Disconnected,
}

impl TlsFailure {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Plaintext,
        Self::Certificate,
        Self::Alert,
        Self::Protocol,
        Self::Timeout,
        Self::Disconnected,
    ];

    /// The label used in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Certificate => "certificate",
            Self::Alert => "alert",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::Disconnected => "disconnected",
        }
    }
}

/// One counter for each [`TlsFailure`].
#[derive(Debug, Default)]
pub struct TlsFailureCounters([Counter; TlsFailure::ALL.len()]);

impl TlsFailureCounters {
    /// Counts a handshake that failed.
    pub fn inc(&self, failure: TlsFailure) {
        self.0[failure as usize].inc();
    }

    /// Handshakes that failed this way.
    pub fn get(&self, failure: TlsFailure) -> u64 {
        self.0[failure as usize].get()
    }
}
