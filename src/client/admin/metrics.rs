//! The instruments of a broker.

use super::{AdminClient, AdminError};

impl AdminClient {
    /// All metrics, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, AdminError> {
        self.ask("GET", "/metrics", None).await?.done()?.text()
    }
}
