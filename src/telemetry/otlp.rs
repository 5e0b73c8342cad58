//! Spans to a collector: OTLP over HTTP, as protobuf.
//!
//! What the OpenTelemetry specification leaves to `OTEL_*` variables is taken from there: endpoint, headers, time limits,
//! sizes of queue and batch. Delivery is on the thread of the batch processor, which has this client to itself; a collector
//! that is slow or away costs that thread its time and, once the queue is full, spans.

use std::env;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};

use super::TelemetryError;

/// Longest time for one delivery, unless a variable says otherwise: what the specification has.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Time between two complaints about a collector that does not answer.
const COMPLAINT_PERIOD: Duration = Duration::from_mins(1);

/// What delivers spans, if the variables ask for nothing that cannot be done.
pub(super) fn exporter() -> Result<SpanExporter, TelemetryError> {
    if let Some((name, protocol)) = variable("PROTOCOL").filter(|(_, is)| is != "http/protobuf") {
        let message = format!("{name} must be http/protobuf, not {protocol:?}");
        return Err(TelemetryError::Otlp(message));
    }
    // It may hold a password: it is not printed.
    if let Some((name, _)) = variable("ENDPOINT").filter(|(_, is)| !is.starts_with("http://")) {
        let message = format!(
            "{name} must be an address such as http://localhost:4318: spans are delivered to a collector nearby, without TLS"
        );
        return Err(TelemetryError::Otlp(message));
    }
    let client = Client::new().map_err(|error| TelemetryError::Otlp(error.to_string()))?;
    SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(client)
        .build()
        .map_err(|error| TelemetryError::Otlp(error.to_string()))
}

/// The variable about traces, else the one about everything, with its name; an empty one is none.
fn variable(what: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names.into_iter().find_map(|name| {
        let value = env::var(&name).ok().filter(|value| !value.is_empty())?;
        Some((name, value))
    })
}

/// HTTP/1.1 on a runtime of its own, which runs only while something is sent.
#[derive(Debug)]
struct Client {
    runtime: Runtime,
    timeout: Duration,
    complaints: Mutex<Complaints>,
}

impl Client {
    fn new() -> io::Result<Self> {
        let timeout = variable("TIMEOUT").and_then(|(_, millis)| millis.parse().ok());
        Ok(Self {
            runtime: runtime::Builder::new_current_thread().enable_all().build()?,
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            complaints: Mutex::default(),
        })
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let to = place(request.uri()).unwrap_or_default();
        let exchanged = self.runtime.block_on(async {
            let limited = tokio::time::timeout(self.timeout, exchange(request)).await;
            limited.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        });
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        match &exchanged {
            Err(error) => complaints.failed(&to, &error.to_string()),
            Ok(response) if response.status().is_success() => complaints.succeeded(&to),
            Ok(response) => complaints.failed(&to, &of_status(response.status())),
        }
        exchanged
    }
}

fn of_status(status: StatusCode) -> String {
    format!("it answered {status}")
}

type Sent<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    // As `async_trait` would write it.
    fn send_bytes<'life, 'sent>(&'life self, request: Request<Bytes>) -> Sent<'sent>
    where
        'life: 'sent,
        Self: 'sent,
    {
        // The thread is there for nothing else.
        Box::pin(async move { self.send(request) })
    }
}

/// Host and port, without the name and password that may stand before them.
fn place(uri: &Uri) -> Option<String> {
    let authority = uri.authority()?;
    Some(match authority.port_u16() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    })
}

/// One request on a connection of its own: there is one every few seconds at the most.
async fn exchange(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri().clone();
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(io::Error::from(io::ErrorKind::Unsupported).into());
    }
    let authority = uri.authority().ok_or(io::ErrorKind::InvalidInput).map_err(io::Error::from)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let place = place(&uri).ok_or(io::ErrorKind::InvalidInput).map_err(io::Error::from)?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&place)?);
    let path = uri.path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    let response = sender.send_request(request.map(Full::new)).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(head, body))
}

/// What was said about the collector: one line at a time, not one for each batch.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<Instant>,
    failing: bool,
}

impl Complaints {
    fn failed(&mut self, to: &str, error: &str) {
        self.failing = true;
        if self.last.is_none_or(|last| last.elapsed() >= COMPLAINT_PERIOD) {
            self.last = Some(Instant::now());
            tracing::warn!(
                to,
                error,
                "traces cannot be delivered; spans are dropped once the queue is full"
            );
        }
    }

    fn succeeded(&mut self, to: &str) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(to, "traces are delivered again");
        }
    }
}
