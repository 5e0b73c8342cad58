//! A collector: takes OTLP over HTTP and keeps every span.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message as _;

use super::support::wait_for;

/// A span, as far as the tests look.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    /// As OTLP numbers them: 1 internal, 2 server.
    pub(super) kind: i32,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) links: usize,
    pub(super) resource: BTreeMap<String, String>,
}

/// Listens until the test ends.
pub(super) struct Collector {
    pub(super) addr: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    /// Heads of the requests.
    pub(super) heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::listen(listener)
    }

    pub(super) fn listen(listener: TcpListener) -> Self {
        let addr = listener.local_addr().unwrap();
        let (spans, heads) = (Arc::default(), Arc::default());
        let collector = Self { addr, spans: Arc::clone(&spans), heads: Arc::clone(&heads) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (head, body) = request(&stream);
                let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                spans.lock().unwrap().extend(spans_of(request));
                heads.lock().unwrap().push(head);
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        });
        collector
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    pub(super) fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// Waits for a span.
    pub(super) fn find(&self, name: &str, is: impl Fn(&Span) -> bool) -> Span {
        wait_for(name, || self.named(name).into_iter().find(|span| is(span)))
    }
}

fn request(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let from = head.len();
        reader.read_line(&mut head).unwrap();
        let line = head[from..].trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(&of_resource.resource.unwrap().attributes);
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                name: span.name,
                trace: super::support::hex(&span.trace_id),
                id: super::support::hex(&span.span_id),
                parent: super::support::hex(&span.parent_span_id),
                kind: span.kind,
                attributes: attributes(&span.attributes),
                links: span.links.len(),
                resource: resource.clone(),
            });
        }
    }
    spans
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: any_value::Value| match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    let value = |pair: &KeyValue| pair.value.clone().and_then(|value| value.value).map(text);
    list.iter().map(|pair| (pair.key.clone(), value(pair).unwrap_or_default())).collect()
}
