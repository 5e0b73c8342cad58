//! Traces: spans of this program, handed to OpenTelemetry.

use std::io::Write as _;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::{Options, Traces};

/// The name of this program to a tracing system, and the prefix of the targets of its spans.
const SERVICE: &str = "hermitmq";

/// Keeps traces going; dropping it delivers what was not delivered yet.
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
        let Some(provider) = self.provider.take() else { return };
        if let Err(error) = provider.shutdown() {
            // There is nobody left to report a failure of this line to.
            let _ = writeln!(std::io::stderr(), "hermitmq: traces were lost at the end: {error}");
        }
    }
}

/// What collects and delivers spans; none if traces are off.
pub(super) fn provider(options: &Options) -> Option<SdkTracerProvider> {
    let sampler = Sampler::TraceIdRatioBased(options.trace_sample_ratio);
    let builder = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(sampler)))
        .with_resource(resource());
    // The one place that knows the exporters.
    let builder = match options.traces {
        Traces::Off => return None,
        // In batches, from a thread of its own: a span never waits for its delivery.
        Traces::Stdout => {
            builder.with_batch_exporter(opentelemetry_stdout::SpanExporter::default())
        }
    };
    Some(builder.build())
}

/// What turns spans of `tracing` into spans of `provider`: those of this program, whatever the log filter says.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let ours = Targets::new().with_target(SERVICE, Level::DEBUG);
    tracing_opentelemetry::layer().with_tracer(provider.tracer(SERVICE)).with_filter(ours).boxed()
}

fn resource() -> Resource {
    Resource::builder()
        .with_service_name(SERVICE)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}
