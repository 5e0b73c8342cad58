//! The composition root.

use crate::config::Loaded;
use crate::telemetry;

/// Why the broker did not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Logging did not start.
    #[error(transparent)]
    Telemetry(#[from] telemetry::TelemetryError),
}

/// Runs the broker until it is told to stop.
pub fn run(loaded: Loaded) -> Result<(), RunError> {
    let Loaded { config, warnings, .. } = loaded;
    let _telemetry = telemetry::init(&config.telemetry)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}
