//! What a broker logs.

use serde::{Deserialize, Serialize};

use super::{AdminClient, AdminError};

#[derive(Serialize, Deserialize)]
struct Level {
    log_level: String,
}

impl AdminClient {
    /// What is logged: a level, or directives such as `info,hermitmq::storage=debug`.
    pub async fn log_level(&self) -> Result<String, AdminError> {
        let Level { log_level } = self.get("/api/v1/log-level").await?;
        Ok(log_level)
    }

    /// Logs other things until the next start; gives what holds, which may be the same in other words.
    pub async fn set_log_level(&self, log_level: &str) -> Result<String, AdminError> {
        let level = Level { log_level: log_level.to_owned() };
        let Level { log_level } = self.send("PUT", "/api/v1/log-level", &level).await?.value()?;
        Ok(log_level)
    }
}
