//! Who is connected to a broker.

use serde::Deserialize;

use super::{AdminClient, AdminError};
use crate::model::PartitionId;

/// Connections of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Connections {
    /// Those that were asked for.
    pub connections: Vec<ConnectionDescription>,
    /// Whether these are all.
    pub complete: bool,
}

/// A connection of a client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ConnectionDescription {
    /// Names it to [`AdminClient::close_connection`]. A producer's changes once, after its handshake.
    pub id: String,
    /// The other end.
    pub peer: String,
    /// How long it has been there, in seconds.
    pub age_seconds: u64,
    /// `producer`, `consumer` or `committer`; `None` before its handshake is done.
    pub role: Option<String>,
    /// The topic that it reads or writes.
    pub topic: Option<String>,
    /// And the partition of it.
    pub partition: Option<PartitionId>,
    /// The group that it reads or commits for.
    pub group: Option<String>,
    /// What the client calls itself.
    pub client_name: Option<String>,
    /// Its software and version.
    pub client_software: Option<String>,
}

impl AdminClient {
    /// Up to `limit` connections (1 to 10,000).
    pub async fn connections(&self, limit: usize) -> Result<Connections, AdminError> {
        self.get(&format!("/api/v1/connections?limit={limit}")).await
    }

    /// Ends a connection. Its client may connect again at once.
    pub async fn close_connection(&self, id: &str) -> Result<(), AdminError> {
        // A name of a connection has digits and a hyphen. What has something else is none, and goes nowhere else.
        let id: String = id
            .bytes()
            .map(|byte| match byte {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        self.ask("DELETE", &format!("/api/v1/connections/{id}"), None).await?.done().map(drop)
    }
}
