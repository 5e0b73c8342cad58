//! The log lines.

use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::LogFormat;

/// What writes events to standard error.
pub(super) fn layer<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = io::stderr().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    layer_to(is_json(format, terminal), terminal && !no_color, io::stderr)
}

/// Whether the lines are JSON.
pub(super) fn is_json(format: LogFormat, terminal: bool) -> bool {
    match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    }
}

/// What writes events to `writer`.
pub(super) fn layer_to<S, W>(json: bool, ansi: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    if json {
        let layer = fmt::layer().json().flatten_event(true).with_span_list(false);
        layer.with_writer(writer).boxed()
    } else {
        fmt::layer().compact().with_ansi(ansi).with_writer(writer).boxed()
    }
}
