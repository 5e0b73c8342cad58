//! What an operator can set about the listener and its connections.

use std::net::IpAddr;
use std::num::NonZeroU32;

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
    /// Largest key of a frame, in KiB.
    pub max_key_kb: u32,
    /// Most records of one frame.
    pub max_record_count: u32,
    /// Most connections; 0 for no limit but that of descriptors.
    pub max_connections: u32,
    /// Most connections from one IPv4 address, or from the 64 bits of an IPv6 address that name a network; 0 for no limit.
    pub max_connections_per_address: u32,
    /// Silence after which a producer or a committer that is owed nothing is closed, in seconds; 0 for never.
    pub idle_timeout_sec: u32,
    /// Time after which a peer is closed that takes nothing of what it is sent, in seconds; 0 for never.
    pub write_timeout_sec: u32,
    /// Silence after which the system asks whether the peer is there (TCP keepalive), in seconds; 0 for never.
    pub keepalive_sec: u32,
    /// Time that a peer may leave unconfirmed what was sent to it, a question of keepalive too (`TCP_USER_TIMEOUT`), in seconds; 0
    /// for what the system does by itself. Linux only.
    pub user_timeout_sec: u32,
    /// Principals that may only produce and consume so much in a second.
    pub quota: Vec<QuotaOptions>,
}

/// How much one principal may produce and consume, over all its connections: a table `[[security.quota]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaOptions {
    /// Whose it is: a principal of section `access`, or the IP address that connections of others come from.
    pub principal: String,
    /// What it may send, in KiB a second; no limit if it is left out.
    #[serde(default)]
    pub produce_kb_per_s: Option<NonZeroU32>,
    /// What it is sent, in KiB a second; no limit if it is left out.
    #[serde(default)]
    pub consume_kb_per_s: Option<NonZeroU32>,
}

impl QuotaOptions {
    /// Writes an address as that of a connection is: `2001:db8::1`, and no IPv4 address as one of IPv6.
    pub fn canonicalize(&mut self) {
        if let Ok(address) = self.principal.parse::<IpAddr>() {
            self.principal = address.to_canonical().to_string();
        }
    }
}

impl Default for SecurityOptions {
    fn default() -> Self {
        Self {
            max_payload_mb: limits::PAYLOAD_MB_DEFAULT,
            receive_memory_mb: limits::RECEIVE_MEMORY_MB_DEFAULT,
            max_key_kb: limits::KEY_BYTES_MAX / 1024,
            max_record_count: limits::RECORD_COUNT_MAX,
            max_connections: limits::CONNECTIONS_DEFAULT_MAX,
            max_connections_per_address: 0,
            idle_timeout_sec: 0,
            write_timeout_sec: limits::WRITE_TIMEOUT_SEC_DEFAULT,
            keepalive_sec: limits::KEEPALIVE_SEC_DEFAULT,
            user_timeout_sec: limits::USER_TIMEOUT_SEC_DEFAULT,
            quota: Vec::new(),
        }
    }
}
