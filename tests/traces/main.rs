//! Traces: what a collector gets, and that one which is away costs nobody anything.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod collector;
#[path = "../support/mod.rs"]
mod support;

use std::net::TcpListener;
use std::path::Path;

use hermitmq::model::TopicName;
use hermitmq::protocol::v1_1::{
    AnswerTo, Durability, Fallback, Handshake, Role, Start as StartAt, TraceParent,
};
use support::http::try_request;
use support::v1_1::{committer, group, ok, open, reader};
use support::{
    Broker, INJECT_TOOLS, RawClient, Start, Tracer, frame, privileged, run_to_end, scratch,
    scratch_in_memory, wait_for,
};

use collector::Collector;

/// A broker that delivers soon.
fn traced(data: &Path, endpoint: &str) -> Start {
    Start::on(data)
        .with_admin()
        .env("HERMITMQ_TELEMETRY__TRACES", "otlp")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", 50)
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A producer's handshake that names a trace.
fn handshake(topic: &str, traceparent: &str) -> Vec<u8> {
    let role = Role::Produce { durability: Durability::default() };
    let mut handshake = Handshake::new(TopicName::parse(topic).unwrap(), 0, role);
    handshake.client.traceparent = Some(TraceParent::parse(traceparent.as_bytes()).unwrap());
    let mut bytes = Vec::new();
    handshake.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_connection_joins_the_trace_of_its_handshake() {
    let (_dir, data) = scratch();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=queues")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .env("POD_NAME", "hermitmq-0")
        .env("POD_NAMESPACE", "queues")
        .run();
    let traceparent = format!("00-{TRACE}-{CALLER}-01");
    let (mut producer, _) = open(broker.addr(), &handshake("orders", &traceparent));
    producer.send(&[frame(1, b"", b"x"), frame(2, b"", b"y")].concat());
    assert_eq!(ok(&mut producer, AnswerTo::Frame), 0);
    assert_eq!(ok(&mut producer, AnswerTo::Frame), 1);
    let peer = producer.local_addr().to_string();
    drop(producer);

    let connection = collector.find("connection", |span| span.trace == TRACE);
    assert_eq!(connection.parent, CALLER);
    let attribute = |name: &str| connection.attributes.get(name).map(String::as_str);
    assert_eq!(attribute("role"), Some("producer"));
    assert_eq!(attribute("partition"), Some("orders/0"));
    assert_eq!(attribute("peer"), Some(peer.as_str()));
    let resource = |name: &str| connection.resource.get(name).map(String::as_str);
    assert_eq!(resource("service.name"), Some("hermitmq"));
    assert_eq!(resource("service.version"), Some(env!("CARGO_PKG_VERSION")));
    assert!(resource("service.instance.id").unwrap().ends_with(&format!(":{}", broker.pid())));
    assert_eq!(resource("k8s.pod.name"), Some("hermitmq-0"));
    assert_eq!(resource("k8s.namespace.name"), Some("queues"));
    assert_eq!(resource("deployment.environment.name"), Some("test"));

    let append = collector.find("append", |span| span.parent == connection.id);
    assert_eq!((append.trace.as_str(), append.links), (TRACE, 0));
    assert_eq!(append.attributes["partition"], "orders/0");
    assert!(append.attributes["frames"].parse::<u64>().unwrap() <= 2, "{append:?}");
    let frames = collector
        .named("append")
        .iter()
        .map(|s| s.attributes["frames"].clone())
        .collect::<Vec<_>>();
    assert_eq!(frames.iter().map(|f| f.parse::<u64>().unwrap()).sum::<u64>(), 2);
    let fsync = collector.find("fsync", |span| span.attributes["partition"] == "orders/0");
    assert_eq!(fsync.parent, "", "shared by all that it makes durable");
    let heads = collector.heads.lock().unwrap().join("\n").to_ascii_lowercase();
    assert!(heads.starts_with("post /v1/traces http/1.1\r\n"), "{heads}");
    assert!(heads.contains("content-type: application/x-protobuf\r\n"), "{heads}");
    assert!(heads.contains("x-tenant: queues\r\n"), "{heads}");
}

#[test]
fn reading_committing_recovery_and_requests() {
    let (_dir, data) = scratch();
    let before = Broker::start(&data);
    RawClient::produce(before.addr(), "orders", 0).append(&frame(1, b"", b"x"));
    before.kill();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url()).env("OTEL_SERVICE_NAME", "broker-7").run();
    let recovery = collector.find("recovery", |_| true);
    assert_eq!(recovery.parent, "");
    let opened =
        collector.find("open_partition", |span| span.attributes["partition"] == "orders/0");
    assert_eq!(opened.parent, recovery.id);
    assert_eq!(opened.resource["service.name"], "broker-7");

    let read = reader("orders", Some(group("billing")), StartAt::Committed(Fallback::Earliest));
    let (mut consumer, _) = open(broker.addr(), &read);
    consumer.read_frame();
    drop(consumer);
    let connection = collector.find("connection", |span| span.attributes["role"] == "consumer");
    assert_eq!((connection.parent.as_str(), connection.trace == recovery.trace), ("", false));
    let fetch = collector.find("fetch_start", |span| span.parent == connection.id);
    assert_eq!(fetch.attributes["partition"], "orders/0");

    let (mut client, _) = open(broker.addr(), &committer("orders", "billing"));
    client.send(&[0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(ok(&mut client, AnswerTo::Commit), 1);
    drop(client);
    let connection = collector.find("connection", |span| span.attributes["role"] == "committer");
    let commit = collector.find("commit", |span| span.parent == connection.id);
    assert_eq!(commit.attributes["group"], "billing");
    assert_eq!(commit.attributes["offset"], "1");
    // Of the first version of the protocol, too, which has its commit in the handshake.
    support::commit(broker.addr(), "shipping", "orders", 0, 1);
    let commit = collector.find("commit", |span| span.attributes["group"] == "shipping");
    collector.find("connection", |span| span.id == commit.parent);

    let headers = [("traceparent", format!("00-{TRACE}-{CALLER}-01"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let path = "/api/v1/topics/nowhere";
    assert_eq!(try_request(broker.admin(), "GET", path, &headers, b"").unwrap().status, 404);
    let request = collector.find("GET", |span| span.trace == TRACE);
    assert_eq!((request.parent.as_str(), request.kind), (CALLER, 2));
    assert_eq!(request.attributes["url.path"], path);
    assert_eq!(request.attributes["http.response.status_code"], "404");
}

#[test]
fn compaction_has_a_span_of_its_own() {
    let (_dir, data) = scratch();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url())
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 10)
        .env("HERMITMQ_COMPACTION__INTERVAL_SEC", 1)
        .env("HERMITMQ_COMPACTION__MIN_DIRTY_PERCENT", 1)
        .run();
    let settings = br#"{"name":"state","cleanup":"compact"}"#;
    let headers = [("content-type", "application/json")];
    let made = try_request(broker.admin(), "POST", "/api/v1/topics", &headers, settings).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let mut producer = RawClient::produce(broker.addr(), "state", 0);
    // Two segments of one key: the first one is compacted.
    for number in 0..8 {
        producer.append(&frame(number, b"key", &vec![7; 256 << 10]));
    }
    let compaction =
        collector.find("compaction", |span| span.attributes["dir"].contains("state_0"));
    assert_eq!(compaction.attributes["dir"], data.join("state_0").display().to_string());
    assert_eq!(compaction.parent, "", "nobody asked for it");
}

#[test]
fn a_run_of_several_connections_is_linked_to_each() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url()).env("HERMITMQ_SERVER__REACTORS", 1).run();
    let mut producers: Vec<_> = (0..3).map(|_| RawClient::produce(broker.addr(), "t", 0)).collect();
    producers[0].append(&frame(1, b"", b"x"));
    let tracer = Tracer::attach(broker.pid(), "pwrite64:delay_enter=200000");
    // While the first one is written the others arrive.
    wait_for("a run of several", || {
        for producer in &mut producers {
            producer.send(&frame(2, b"", b"y"));
        }
        for producer in &mut producers {
            assert_eq!(producer.read_ack().code, 0);
        }
        collector.named("append").iter().any(|span| span.links > 0).then_some(())
    });
    drop((tracer, producers));
    let append = collector.find("append", |span| span.links > 0);
    let frames = append.attributes["frames"].parse::<usize>().unwrap();
    assert!(frames > append.links, "{append:?}");
    let parent = collector.find("connection", |span| span.id == append.parent);
    assert_eq!(parent.trace, append.trace);
}

#[test]
fn a_caller_that_does_not_record_is_followed() {
    let (_dir, data) = scratch();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url()).run();
    let other = "11111111111111111111111111111111";
    for (trace, flags) in [(other, "00"), (TRACE, "01")] {
        let (mut producer, _) =
            open(broker.addr(), &handshake("t", &format!("00-{trace}-{CALLER}-{flags}")));
        producer.send(&frame(1, b"", b"x"));
        ok(&mut producer, AnswerTo::Frame);
    }
    collector.find("append", |span| span.trace == TRACE);
    collector.find("connection", |span| span.trace == TRACE);
    assert!(broker.terminate().0.success());
    assert!(collector.spans().iter().all(|span| span.trace != other));
}

#[test]
fn of_no_share_nothing_is_delivered() {
    let (_dir, data) = scratch();
    let collector = Collector::start();
    let broker =
        traced(&data, &collector.url()).env("HERMITMQ_TELEMETRY__TRACE_SAMPLE_RATIO", "0.0").run();
    RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"x"));
    // The decision of a caller holds.
    let (mut producer, _) =
        open(broker.addr(), &handshake("t", &format!("00-{TRACE}-{CALLER}-01")));
    producer.send(&frame(1, b"", b"x"));
    assert_eq!(ok(&mut producer, AnswerTo::Frame), 1);
    drop(producer);
    collector.find("connection", |span| span.trace == TRACE);
    assert!(broker.terminate().0.success());
    assert!(collector.spans().iter().all(|span| span.trace == TRACE));
}

#[test]
fn log_lines_have_the_ids_of_their_trace() {
    let (_dir, data) = scratch();
    let collector = Collector::start();
    let broker = traced(&data, &collector.url()).debug().run();
    let (producer, _) = open(broker.addr(), &handshake("t", &format!("00-{TRACE}-{CALLER}-01")));
    let line = wait_for("a line of the connection", || {
        broker.log().into_iter().find(|line| line.get("message") == "opened")
    });
    assert_eq!(line.get("trace_id"), TRACE);
    drop(producer);
    let connection = collector.find("connection", |span| span.trace == TRACE);
    assert_eq!(line.get("span_id"), connection.id);
    let outside = broker.log().into_iter().find(|line| line.get("message") == "listening").unwrap();
    assert_eq!(outside.get("trace_id"), "");
}

#[test]
fn a_collector_that_is_away_costs_one_warning() {
    let (_dir, data) = scratch();
    // Nobody listens there, for now.
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = place.local_addr().unwrap();
    drop(place);
    let broker = traced(&data, &format!("http://somebody:secret@{addr}"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
        .env("OTEL_BSP_MAX_QUEUE_SIZE", 16)
        .env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 4)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", 200)
        .run();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let warnings = || {
        let lines = broker.lines_at("WARN");
        let of_traces = |line: &&support::LogLine| line.get("message").starts_with("traces cannot");
        assert_eq!(lines.len(), lines.iter().filter(of_traces).count(), "{lines:?}");
        lines
    };
    let mut next = 0;
    let mut append = |count: u64| {
        for _ in 0..count {
            assert_eq!(producer.append(&frame(next, b"", b"x")), next);
            next += 1;
        }
    };
    append(500);
    let warning = wait_for("the warning", || warnings().pop());
    assert_eq!(warning.get("to"), addr.to_string());
    assert!(!broker.log_text().contains("secret"), "{}", broker.log_text());
    assert!(warning.get("error").contains("refused"), "{warning:?}");
    append(500);
    assert_eq!(warnings().len(), 1);
    let collector = Collector::listen(TcpListener::bind(addr).unwrap());
    append(10);
    wait_for("delivery", || {
        append(1);
        let again = |line: &support::LogLine| line.get("message") == "traces are delivered again";
        broker.log().iter().any(again).then_some(())
    });
    assert!(!collector.named("append").is_empty());
    assert_eq!(warnings().len(), 1);
    assert!(broker.terminate().0.success());
}

#[test]
fn a_collector_that_does_not_answer_holds_up_nobody() {
    let (_dir, data) = scratch();
    // Connections are made by the kernel, and nothing comes back.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let broker = traced(&data, &format!("http://{}", silent.local_addr().unwrap()))
        .env("OTEL_BSP_MAX_QUEUE_SIZE", 16)
        .env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 4)
        .run();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..500 {
        assert_eq!(producer.append(&frame(i, b"", b"x")), i);
    }
    let (status, log) = broker.terminate();
    assert!(status.success(), "{log:?}");
}

#[test]
fn what_cannot_be_done_stops_the_start() {
    let (_dir, data) = scratch();
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://somebody:secret@collector:4318", "without TLS"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318", "must be an address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "must be http/protobuf"),
    ] {
        let start = traced(&data, "http://localhost:4318").env(name, value);
        let output = run_to_end(start.command(), Vec::new());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(name) && said.contains(says), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    // Unless they are off, which the specification has a variable for, too.
    let off = traced(&data, "https://collector").env("OTEL_SDK_DISABLED", "true").run();
    assert!(off.terminate().0.success());
}
