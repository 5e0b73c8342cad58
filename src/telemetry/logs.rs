//! The log lines.

use std::io::{self, IsTerminal as _};

use opentelemetry::trace::TraceContextExt as _;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::LogFormat;
use super::stderr::Stderr;

/// What writes events to standard error; `traced`, with the ids of the trace they belong to.
pub(super) fn layer<S>(format: LogFormat, traced: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = io::stderr().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    layer_to(is_json(format, terminal), terminal && !no_color, traced, || Stderr)
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
pub(super) fn layer_to<S, W>(
    json: bool,
    ansi: bool,
    traced: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    if json {
        let layer = fmt::layer().json().flatten_event(true).with_span_list(false);
        let layer = layer.with_writer(writer);
        if traced {
            layer.map_event_format(|format| Traced { format, json }).boxed()
        } else {
            layer.boxed()
        }
    } else {
        let layer = fmt::layer().compact().with_ansi(ansi).with_writer(writer);
        if traced {
            layer.map_event_format(|format| Traced { format, json }).boxed()
        } else {
            layer.boxed()
        }
    }
}

/// Puts the ids of the current trace and span into each line that has them.
struct Traced<F> {
    format: F,
    json: bool,
}

impl<S, N, F> FormatEvent<S, N> for Traced<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let context = opentelemetry::Context::current();
        let span = context.span();
        let (ids, valid) = (span.span_context(), span.span_context().is_valid());
        if !valid {
            return self.format.format_event(ctx, writer, event);
        }
        let (trace, span) = (ids.trace_id(), ids.span_id());
        if !self.json {
            write!(writer, "[{trace} {span}] ")?;
            return self.format.format_event(ctx, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        match line.trim_end().strip_suffix('}') {
            Some(object) => {
                writeln!(writer, "{object},\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}")
            }
            None => writer.write_str(&line),
        }
    }
}
