//! Traces: spans of this program, handed to OpenTelemetry.

use std::env;
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::resource::resource;
use super::{Options, TelemetryError, Traces, otlp, stderr};

/// The name of this program to a tracing system, and the prefix of the targets of its spans.
pub(super) const SERVICE: &str = "hermitmq";

/// Longest time that the end of the process waits for the last spans to be delivered.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Keeps traces going; dropping it delivers what was not delivered yet, of log lines, too.
#[derive(Debug)]
#[must_use = "dropping the guard ends the traces"]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

impl Guard {
    /// Nothing to deliver.
    pub(super) fn idle() -> Self {
        Self { provider: None }
    }

    /// Delivers the spans of `provider`.
    pub(super) fn of(provider: SdkTracerProvider) -> Self {
        Self { provider: Some(provider) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ended = self.provider.take().map(|it| it.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        if let Some(Err(error)) = ended {
            stderr::tell(&format!("hermitmq: traces were lost at the end: {error}\n"));
        }
        stderr::flush();
    }
}

/// What collects and delivers spans; none if traces are off.
pub(super) fn provider(options: &Options) -> Result<Option<SdkTracerProvider>, TelemetryError> {
    let is =
        |name: &str, what: &str| env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case(what));
    if is("OTEL_SDK_DISABLED", "true") {
        return Ok(None);
    }
    let mut builder = SdkTracerProvider::builder().with_resource(resource());
    if env::var_os("OTEL_TRACES_SAMPLER").is_none_or(|value| value.is_empty()) {
        let sampler = Sampler::TraceIdRatioBased(options.trace_sample_ratio);
        builder = builder.with_sampler(Sampler::ParentBased(Box::new(sampler)));
    }
    // The one place that knows the exporters.
    let builder = match options.traces {
        Traces::Off => return Ok(None),
        Traces::Otlp => builder.with_batch_exporter(otlp::exporter()?),
        // In batches, from a thread of its own: a span never waits for its delivery.
        Traces::Stdout => {
            builder.with_batch_exporter(opentelemetry_stdout::SpanExporter::default())
        }
    };
    Ok(Some(builder.build()))
}

/// What turns spans of `tracing` into spans of `provider`: those of this program, whatever the log filter says.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let ours = Targets::new().with_target(SERVICE, Level::DEBUG);
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(SERVICE))
        // Where in the source a span begins, on which thread, and how long it was idle: on none of the attributes that cost.
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(ours)
        .boxed()
}

/// Has a span join the trace that a W3C `traceparent` names. Before anything happens in it; what is not valid is passed over.
pub fn join(span: &Span, traceparent: &str) {
    let context = TraceContextPropagator::new().extract(&Traceparent(traceparent));
    if context.span().span_context().is_valid() {
        // Without traces nobody joins.
        let _ = span.set_parent(context);
    }
}

/// One header.
struct Traceparent<'a>(&'a str);

impl Extractor for Traceparent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}
