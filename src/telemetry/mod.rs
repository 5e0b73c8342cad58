//! Logs and traces: what the program says about itself while it runs.
//!
//! Every layer writes with the `tracing` macros and knows nothing of this module; [`init`] decides where that goes.

mod level;
mod logs;
mod options;
mod otlp;
mod repeats;
mod resource;
mod stderr;
mod traces;

use std::io;
use std::sync::Arc;

use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Registry};

use crate::metrics::Metrics;

use repeats::Repeats;

pub use level::{Level, LevelError};
pub use options::{LogFormat, Options, Traces};
pub use stderr::{flush, tell};
pub use traces::{Guard, join};

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not a level or a list of directives.
    #[error("telemetry.log_level: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Spans cannot be delivered as the environment asks.
    #[error("telemetry.traces = \"otlp\": {0}")]
    Otlp(String),
    /// The process already has a subscriber.
    #[error("logging was started already: {0}")]
    Started(#[from] TryInitError),
    /// What writes to standard error cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Starts logging to standard error, and traces if they are on. Keep the [`Guard`]: dropping it delivers what is left
/// of both. The [`Level`] changes what is logged.
///
/// With traces off no trace layer exists, so a span costs what the log filter costs.
pub fn init(options: &Options, metrics: Arc<Metrics>) -> Result<(Guard, Level), TelemetryError> {
    let (filter, level) = level::filter(EnvFilter::try_new(&options.log_level)?);
    let provider = traces::provider(options)?;
    // Where it is the only filter, what it drops is never built.
    let filter = filter.and(Repeats::default());
    let logs = logs::layer::<Registry>(options.log_format, provider.is_some()).with_filter(filter);
    let registry = Registry::default().with(logs);
    let guard = if let Some(provider) = provider {
        registry.with(traces::layer(&provider)).try_init()?;
        Guard::of(provider)
    } else {
        registry.try_init()?;
        Guard::idle()
    };
    stderr::start(metrics)?;
    Ok((guard, level))
}

#[cfg(test)]
mod tests;
