//! Logs and traces: what the program says about itself while it runs.
//!
//! Every layer writes with the `tracing` macros and knows nothing of this module; [`init`] decides where that goes.

mod level;
mod logs;
mod options;
mod traces;

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Registry};

pub use level::{Level, LevelError};
pub use options::{LogFormat, Options, Traces};
pub use traces::Guard;

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not a level or a list of directives.
    #[error("telemetry.log_level: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process already has a subscriber.
    #[error("logging was started already: {0}")]
    Started(#[from] TryInitError),
}

/// Starts logging to standard error, and traces if they are on. Keep the [`Guard`]: dropping it delivers what is left
/// of the traces. The [`Level`] changes what is logged.
///
/// With traces off no trace layer exists, so a span costs what the log filter costs.
pub fn init(options: &Options) -> Result<(Guard, Level), TelemetryError> {
    let (filter, level) = level::filter(EnvFilter::try_new(&options.log_level)?);
    let format = options.log_format;
    match traces::provider(options) {
        None => {
            // One filter for everything: what it drops is never built.
            Registry::default().with(filter).with(logs::layer(format)).try_init()?;
            Ok((Guard::idle(), level))
        }
        Some(provider) => {
            let traces = traces::layer(&provider);
            let logs = logs::layer::<Registry>(format).with_filter(filter);
            Registry::default().with(logs).with(traces).try_init()?;
            Ok((Guard::of(provider), level))
        }
    }
}

#[cfg(test)]
mod tests;
