//! What an operator can set about the listener and its connections.

use serde::{Deserialize, Serialize};

use crate::model::limits;

/// Section `server` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Address to listen on: an IP address or a host name.
    pub host: String,
    /// TCP port; 0 takes a free one.
    pub port: u16,
    /// Time a connection has for its whole handshake, in seconds.
    pub handshake_timeout_sec: u32,
    /// Reactor threads; 0 means one for each core.
    pub reactors: u32,
    /// Time that a shutdown gives connections to take their answers, in seconds. Flushing comes after it.
    pub shutdown_timeout_sec: u32,
    /// Time between the signal to stop and the end of accepting, in milliseconds: the broker is said to be not ready, and
    /// whoever sends it connections can take notice.
    pub drain_delay_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9092,
            handshake_timeout_sec: 5,
            reactors: 0,
            shutdown_timeout_sec: 4,
            drain_delay_ms: 0,
        }
    }
}

/// Section `security` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecurityOptions {
    /// Largest payload of a frame, in MiB.
    pub max_payload_mb: u32,
    /// Memory for frames that are being received and do not fit a reactor's buffer, all connections together, in MiB.
    pub receive_memory_mb: u32,
}

impl Default for SecurityOptions {
    fn default() -> Self {
        Self {
            max_payload_mb: limits::PAYLOAD_MB_DEFAULT,
            receive_memory_mb: limits::RECEIVE_MEMORY_MB_DEFAULT,
        }
    }
}
