//! What an operator can set about TLS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `tls` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether the listener for clients speaks TLS.
    pub mode: Mode,
    /// The broker's certificate and those between it and its CA, PEM.
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate, PEM, not encrypted.
    pub key_file: Option<PathBuf>,
    /// The CAs whose certificates clients may show, PEM.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
}

/// Whether connections are encrypted. The first byte tells: a TLS record begins with `0x16`, which is no role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// None is.
    #[default]
    Off,
    /// Each as its client likes, on one port: for the time in which clients are changed over.
    Optional,
    /// Every one is.
    Required,
}

impl Mode {
    /// Whether any connection may be.
    pub fn is_on(self) -> bool {
        self != Self::Off
    }
}

/// Whether clients are asked for a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// They are not.
    #[default]
    Off,
    /// They are, and may have none; one that they show must be good.
    Optional,
    /// They are, and must have a good one.
    Required,
}

impl ClientAuth {
    /// Whether they are asked.
    pub fn is_on(self) -> bool {
        self != Self::Off
    }
}
