//! Administering a broker over HTTP: topics, groups, records, connections, the log level and health. Feature `admin`.
//!
//! ```no_run
//! use hermitmq::client::admin::{AdminClient, Durability, TopicSettings};
//! use hermitmq::model::TopicName;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let admin = AdminClient::new("http://127.0.0.1:9093")?;
//! let settings =
//!     TopicSettings { partitions: Some(4), durability: Some(Durability::Always), ..TopicSettings::default() };
//! admin.create_topic(&TopicName::parse("orders")?, &settings).await?;
//! for group in admin.groups().await? {
//!     println!("{} is {} records behind", group.name, group.lag);
//! }
//!
//! let health = admin.ready().await?;
//! for check in health.failed() {
//!     println!("{}: {}", check.name, check.reason.as_deref().unwrap_or("not ok"));
//! }
//! # Ok(())
//! # }
//! ```

mod connections;
mod error;
mod groups;
mod health;
mod log_level;
mod metrics;
mod records;
mod topics;
mod transport;

use std::time::Duration;

use hyper::header::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use connections::{ConnectionDescription, Connections};
pub use error::{AdminError, ProblemDetails};
pub use groups::{GroupDescription, GroupOffset, GroupReset, GroupSummary, ResetStep, ResetTo};
pub use health::{Check, Health};
pub use records::{PeekFrom, PeekedBytes, PeekedRecord, PeekedRecords};
pub use topics::{
    DamagedRange, Durability, PartitionDescription, TopicChange, TopicDescription, TopicSettings,
    TopicSummary,
};

use crate::protocol::v1_1::Token;
use transport::{Address, Answer, Target};

/// Time for a whole request by default: connection, request and answer.
pub const ADMIN_TIMEOUT: Duration = Duration::from_secs(70);

/// Where a broker's admin listener is. Costs nothing until it is asked: each request has a connection of its own.
#[derive(Debug, Clone)]
pub struct AdminClient {
    target: Target,
    timeout: Duration,
    authorization: Option<HeaderValue>,
}

impl AdminClient {
    /// A client of the listener at `http://HOST:PORT` or `HOST:PORT`; with the feature `tls` and [`with_tls`](Self::with_tls) at
    /// `https://HOST:PORT`, too.
    pub fn new(address: &str) -> Result<Self, AdminError> {
        let target = Target {
            address: Address::parse(address)?,
            #[cfg(feature = "tls")]
            tls: None,
        };
        Ok(Self { target, timeout: ADMIN_TIMEOUT, authorization: None })
    }

    /// Shows this token with each request. It goes over the network as it is, unless that is encrypted.
    pub fn with_token(self, token: &Token) -> Result<Self, AdminError> {
        let value = [b"Bearer ", token.as_bytes()].concat();
        let mut value = HeaderValue::from_bytes(&value).map_err(|_| AdminError::Token)?;
        // Debug output hides it.
        value.set_sensitive(true);
        Ok(Self { authorization: Some(value), ..self })
    }

    /// Connects with TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: super::TlsOptions) -> Self {
        let address = self.target.address.secured();
        Self { target: Target { address, tls: Some(tls) }, ..self }
    }

    /// Gives each request so much time.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Where it asks: `http://HOST:PORT`, or `https://HOST:PORT`.
    pub fn address(&self) -> String {
        self.target.address.to_string()
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AdminError> {
        self.ask("GET", path, None).await?.value()
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer, AdminError> {
        let body = serde_json::to_vec(body).map_err(|error| AdminError::Broken {
            address: self.address(),
            cause: format!("the request is no JSON: {error}"),
        })?;
        self.ask(method, path, Some(body)).await
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, AdminError> {
        let asked = transport::ask(&self.target, self.authorization.as_ref(), method, path, body);
        match tokio::time::timeout(self.timeout, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(AdminError::Timeout { address: self.address(), after: self.timeout }),
        }
    }
}
