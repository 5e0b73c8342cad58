//! Whether a broker lives and is ready.

use serde::Deserialize;

use super::transport::Answer;
use super::{AdminClient, AdminError};

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// Whether all is well that must be.
    pub ok: bool,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Check {
    /// Its name, such as `disk_space`.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// Whether the whole is not well if this is not.
    pub required: bool,
    /// What is wrong, for people.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Health {
    /// What is not well.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.ok)
    }
}

impl AdminClient {
    /// Whether the process lives and its reactors turn.
    pub async fn live(&self) -> Result<Health, AdminError> {
        self.probe("/livez").await
    }

    /// Whether the broker does all that it is there for.
    pub async fn ready(&self) -> Result<Health, AdminError> {
        self.probe("/readyz").await
    }

    async fn probe(&self, path: &str) -> Result<Health, AdminError> {
        let answer: Answer = self.ask("GET", path, None).await?;
        // 503 is an answer here, and no problem.
        answer.json()
    }
}
