//! What is logged, while the program runs.

use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::{EnvFilter, Registry};

use super::options;

/// Changes what is logged.
#[derive(Debug, Clone)]
pub struct Level(Handle<EnvFilter, Registry>);

/// What is logged could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// The text is no level and no list of directives.
    #[error("{0}")]
    Wrong(String),
    /// There is no log any more.
    #[error("logging has ended")]
    Ended,
}

/// The filter, so that it can be changed.
pub(super) fn filter(filter: EnvFilter) -> (reload::Layer<EnvFilter, Registry>, Level) {
    let (layer, handle) = reload::Layer::new(filter);
    (layer, Level(handle))
}

impl Level {
    /// The directives in effect.
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Puts other directives in effect, as `telemetry.log_level` has them.
    pub fn set(&self, directives: &str) -> Result<(), LevelError> {
        let filter = options::parse_filter(directives).map_err(LevelError::Wrong)?;
        self.0.reload(filter).map_err(|_| LevelError::Ended)
    }
}
