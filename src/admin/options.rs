//! What an operator can set about the admin listener.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::limits;

/// Section `admin` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Address of the HTTP listener as `HOST:PORT`; an empty text for no listener, port 0 for a free one.
    #[serde(deserialize_with = "address")]
    pub listen: String,
    /// Whether the listener may be on an address that others can reach although it asks nobody who they are.
    pub insecure: bool,
    /// Whether `/metrics` is for everybody, whatever the rules say.
    pub metrics_open: bool,
    /// Whether it speaks TLS, and nothing else, with the certificate and the rules of the section `tls`.
    pub tls: bool,
    /// Most series that `/metrics` gives for topics and partitions, and most for groups.
    pub metrics_max_series: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9093".to_owned(),
            insecure: false,
            metrics_open: false,
            tls: false,
            metrics_max_series: limits::METRICS_SERIES_DEFAULT_MAX,
        }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    if text.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_ok()) {
        return Ok(text);
    }
    Err(D::Error::custom(format!(
        "must be an address with a port such as \"127.0.0.1:9093\", or empty for no listener, not {text:?}"
    )))
}
