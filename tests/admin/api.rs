//! `/api/v1`: what every path answers, and what wrong requests are told.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::support::http::{get, send, try_request};
use super::support::{RawClient, Start, drain, frame, scratch};
use super::{broker, problem, start};

#[test]
fn the_broker_as_a_whole() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"x"));
    let cluster = get(broker.admin(), "/api/v1/cluster").json();
    assert_eq!(cluster["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(cluster["state"], "running");
    assert_eq!(cluster["process_id"], broker.pid());
    assert_eq!(cluster["data_dir"], data.display().to_string());
    assert_eq!(cluster["listen"], broker.addr().to_string());
    assert_eq!(
        (&cluster["counts"]["topics"], &cluster["counts"]["partitions"]),
        (&json!(1), &json!(2))
    );
}

#[test]
fn the_configuration_with_its_layers() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let answer = get(broker.admin(), "/api/v1/config").json();
    let settings = answer["settings"].as_array().unwrap();
    let of = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!(
        of("server.port"),
        &json!({ "key": "server.port", "value": "0", "layer": "--port" })
    );
    assert_eq!(of("storage.flush_interval_ms")["layer"], "HERMITMQ_STORAGE__FLUSH_INTERVAL_MS");
    assert_eq!(of("topics.auto_create")["layer"], "default");
}

#[test]
fn the_log_level_changes_while_the_broker_runs() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let debug_lines = || broker.lines_at("DEBUG").len();
    assert_eq!(get(admin, "/api/v1/log-level").json(), json!({ "log_level": "info" }));
    RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"x"));
    assert_eq!(debug_lines(), 0);

    let level = json!({ "log_level": "info,hermitmq=debug" });
    let answer = send(admin, "PUT", "/api/v1/log-level", &level);
    assert_eq!(answer.status, 200, "{answer:?}");
    let now = get(admin, "/api/v1/log-level").json()["log_level"].as_str().unwrap().to_owned();
    assert!(now.contains("hermitmq=debug"), "{now}");
    super::support::wait_for("a line at debug", || {
        RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"x"));
        (debug_lines() > 0).then_some(())
    });
    for (wrong, field) in [
        (json!({ "log_level": "loud" }), Some("log_level")),
        (json!({ "log_level": 7 }), Some("log_level")),
        (json!({}), None),
        (json!({ "level": "info" }), Some("level")),
    ] {
        problem(&send(admin, "PUT", "/api/v1/log-level", &wrong), 400, "invalid-request", field);
    }
    assert_eq!(
        get(admin, "/api/v1/log-level").json()["log_level"],
        now,
        "nothing wrong takes effect"
    );
}

#[test]
fn records_are_seen_without_being_consumed() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut producer = RawClient::produce(addr, "t", 0);
    producer.append(&frame(100, b"k", "käse".as_bytes()));
    producer.append(&frame(200, b"", b"\xff\0"));
    producer.append(&frame(300, b"\xfe", b""));
    let at = |query: &str| get(admin, &format!("/api/v1/topics/t/partitions/0/messages{query}"));
    let all = at("").json();
    assert_eq!(
        (&all["start_offset"], &all["end_offset"], &all["next_offset"]),
        (&json!(0), &json!(3), &json!(3))
    );
    assert_eq!(all["damaged"], false);
    assert_eq!(
        all["messages"][0],
        json!({
            "offset": 0, "timestamp_ns": 100, "record_count": 1,
            "key": { "encoding": "text", "data": "k", "bytes": 1, "cut": false },
            "payload": { "encoding": "text", "data": "käse", "bytes": 5, "cut": false },
        })
    );
    assert_eq!(all["messages"][1]["key"], json!(null));
    assert_eq!(all["messages"][1]["payload"]["data"], "/wA=");
    assert_eq!(all["messages"][1]["payload"]["encoding"], "base64");
    assert_eq!(all["messages"][2]["key"]["encoding"], "base64");
    let offsets = |query: &str| -> Vec<u64> {
        let answer = at(query).json();
        answer["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["offset"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(offsets("?limit=2"), [1, 2], "the last ones");
    assert_eq!(offsets("?offset=0&limit=2"), [0, 1]);
    assert_eq!(offsets("?timestamp=150"), [1, 2]);
    assert_eq!(offsets("?offset=3"), [0; 0]);
    problem(&at("?offset=4"), 400, "offset-out-of-range", Some("offset"));
    problem(&at("?offset=1&timestamp=1"), 400, "invalid-request", Some("timestamp"));
    problem(&at("?limit=0"), 400, "invalid-request", Some("limit"));
    problem(&at("?limit=1001"), 400, "invalid-request", Some("limit"));
    for wrong in ["?offset=-1", "?offset=x", "?ofset=1"] {
        let detail = problem(&at(wrong), 400, "invalid-request", None);
        assert!(detail.contains("parameter"), "{detail}");
    }
    let none = |path: &str| get(admin, &format!("/api/v1/topics/{path}/messages"));
    problem(&none("t/partitions/1"), 404, "unknown-partition", Some("partition"));
    problem(&none("t/partitions/x"), 400, "invalid-request", Some("partition"));
    problem(&none("u/partitions/0"), 404, "unknown-topic", Some("topic"));
    problem(&none("..%2f/partitions/0"), 400, "invalid-request", Some("topic"));
    assert!(!data.join("u_0").exists(), "looking creates nothing");
}

#[test]
fn what_is_large_is_cut() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..3 {
        producer.append(&frame(i, b"key", &vec![b'x'; 600 << 10]));
    }
    let answer = get(broker.admin(), "/api/v1/topics/t/partitions/0/messages?offset=0").json();
    let messages = answer["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &answer["next_offset"]), (2, &json!(2)));
    let cut = |number: usize| {
        (&messages[number]["payload"]["cut"], &messages[number]["payload"]["bytes"])
    };
    assert_eq!(cut(0), (&json!(false), &json!(600 << 10)));
    assert_eq!(cut(1), (&json!(true), &json!(600 << 10)));
    assert!(answer.to_string().len() < 1100 << 10);
}

#[test]
fn a_record_is_stored() {
    let (_dir, data) = scratch();
    let mut broker = start(&data).env("HERMITMQ_STORAGE__DURABILITY", "always").run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"first"));
    let path = "/api/v1/topics/t/partitions/0/messages";
    let post = |body: &Value| send(admin, "POST", path, body);
    let answer = post(&json!({ "payload": { "data": "second" } }));
    assert_eq!((answer.status, answer.json()), (201, json!({ "offset": 1 })));
    let full = json!({
        "key": { "encoding": "text", "data": "k" },
        "payload": { "encoding": "base64", "data": "/wA=" },
        "timestamp_ns": 77,
    });
    assert_eq!(post(&full).json(), json!({ "offset": 2 }));
    let stored = drain(addr, "g", "t", 0);
    let payloads: Vec<_> = stored.iter().map(|frame| frame.payload().to_vec()).collect();
    assert_eq!(payloads, [b"first".to_vec(), b"second".to_vec(), b"\xff\0".to_vec()]);

    problem(&post(&json!({})), 400, "invalid-request", None);
    problem(
        &post(&json!({ "payload": { "data": 1 } })),
        400,
        "invalid-request",
        Some("payload.data"),
    );
    let wrong = json!({ "payload": { "encoding": "base64", "data": "!" } });
    problem(&post(&wrong), 400, "invalid-request", Some("payload.data"));
    let wrong = json!({ "payload": { "data": "" }, "offset": 1 });
    problem(&post(&wrong), 400, "invalid-request", Some("offset"));
    let large = json!({ "payload": { "data": "x".repeat(1 << 20) } });
    problem(&post(&large), 413, "too-large", None);
    let reserved = "/api/v1/topics/__consumer_offsets/partitions/0/messages";
    let answer = send(admin, "POST", reserved, &json!({ "payload": { "data": "x" } }));
    problem(&answer, 403, "reserved", Some("topic"));
    let raw = |headers: &[(&str, &str)], body: &[u8]| {
        try_request(admin, "POST", path, headers, body).unwrap()
    };
    problem(&raw(&[], b"{}"), 415, "unsupported-media-type", None);
    problem(&raw(&[("content-type", "text/plain")], b"{}"), 415, "unsupported-media-type", None);
    let json = [("content-type", "application/json; charset=utf-8")];
    problem(&raw(&json, b"{"), 400, "invalid-request", None);
    problem(&raw(&json, b" [null, {\"data\":\"\"}]"), 400, "invalid-request", None);
    problem(&raw(&json, b"{\"payload\":{\"data\":\"\"}} x"), 400, "invalid-request", None);
    assert_eq!(drain(addr, "h", "t", 0).len(), 3, "nothing wrong is stored");
    assert!(broker.is_running());
}

#[test]
fn paths_and_methods_that_are_not_there() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    for path in [
        "/dashboard",
        "/api",
        "/api/v1",
        "/api/v1/nothing",
        "/api/v2/cluster",
        "/readyz/x",
        "/api/v1/topics/a/b",
    ] {
        let detail = problem(&get(admin, path), 404, "not-found", None);
        assert!(detail.contains(path), "{detail}");
    }
    let answer = send(admin, "DELETE", "/api/v1/topics/t?dry_run=true", &json!({}));
    problem(&answer, 400, "invalid-request", Some("dry_run"));
    problem(&get(admin, "/api/v1/cluster?a&b=1"), 400, "invalid-request", Some("a"));
    // What a path is about does not depend on names that people give.
    for name in ["messages", "connections"] {
        let topic = json!({ "name": name });
        assert_eq!(send(admin, "POST", "/api/v1/topics", &topic).status, 201);
        let path = format!("/api/v1/topics/{name}?x=1");
        problem(&get(admin, &path), 400, "invalid-request", Some("x"));
    }
    for (method, status) in [("GET", 200), ("HEAD", 200), ("POST", 400)] {
        let path = "/api/v1/topics/messages/partitions/0/messages?limit=1";
        assert_eq!(status_of(admin, method, path), status, "{method}");
    }
    let answer = send(admin, "DELETE", "/api/v1/cluster", &json!({}));
    problem(&answer, 405, "method-not-allowed", None);
    assert!(answer.header("allow").contains("GET"), "{answer:?}");
}

/// The status alone: an answer to HEAD has no body, whatever its header says.
fn status_of(admin: SocketAddr, method: &str, path: &str) -> u16 {
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = String::new();
    BufReader::new(stream).read_line(&mut head).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_strange_name_is_refused() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    for path in ["/api/v1/cluster", "/readyz", "/nothing"] {
        let raw = format!(
            "GET {path} HTTP/1.1\r\nhost: rebound.example:9093\r\nconnection: close\r\n\r\n"
        );
        let answer = super::support::http::exchange(broker.admin(), raw.as_bytes()).unwrap();
        problem(&answer, 421, "misdirected", Some("host"));
    }
}

#[test]
fn a_page_under_a_strange_name_changes_nothing() {
    let (_dir, data) = scratch();
    let start = Start::on(&data).with_admin().env("HERMITMQ_ADMIN__LISTEN", "0.0.0.0:0");
    let broker = start.env("HERMITMQ_ADMIN__INSECURE", true).run();
    let create = |host: &str, more: &str| {
        let body = r#"{"name":"t"}"#;
        let raw = format!(
            "POST /api/v1/topics HTTP/1.1\r\nhost: {host}\r\n{more}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        super::support::http::exchange(broker.admin(), raw.as_bytes()).unwrap()
    };
    let answer = create("rebound.example:9093", "origin: http://rebound.example:9093\r\n");
    problem(&answer, 421, "misdirected", Some("host"));
    // A page of the listener itself, one through a proxy that speaks TLS, and a program in the network.
    assert_eq!(create("127.0.0.1:9093", "origin: http://127.0.0.1:9093\r\n").status, 201);
    let proxied = "origin: https://hermitmq.example\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(create("hermitmq.example", proxied).status, 409);
    assert_eq!(create("hermitmq.default.svc:9093", "").status, 409);
}

#[test]
fn what_is_no_http_costs_its_sender_the_connection() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    for nonsense in [&b"\x01\x01t\0\0\0\0"[..], b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n"] {
        let answer = super::support::http::exchange(admin, nonsense);
        assert!(answer.is_err() || answer.as_ref().unwrap().status == 400, "{answer:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(1 << 20));
    let answer = super::support::http::exchange(admin, long.as_bytes());
    assert!(answer.is_err() || answer.as_ref().unwrap().status >= 400, "{answer:?}");
    assert_eq!(get(admin, "/livez").status, 200);
}

#[test]
fn who_is_connected() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let list = |query: &str| get(admin, &format!("/api/v1/connections{query}")).json();
    assert_eq!(list(""), json!({ "connections": [], "complete": true }));
    let mut producer = RawClient::produce(addr, "t", 0);
    producer.append(&frame(1, b"", b"x"));
    let mut consumer = RawClient::consume(addr, "g", "t", 0);
    let silent = RawClient::connect(addr);
    let all = super::support::wait_for("three connections", || {
        let all = list("")["connections"].as_array().unwrap().clone();
        let known = all.iter().filter(|one| one["role"] != json!(null)).count();
        (all.len() == 3 && known == 2).then_some(all)
    });
    let of = |role: Value| all.iter().find(|one| one["role"] == role).unwrap().clone();
    let reading = of(json!("consumer"));
    assert_eq!(
        (&reading["topic"], &reading["partition"], &reading["group"]),
        (&json!("t"), &json!(0), &json!("g"))
    );
    assert_eq!(
        (&of(json!("producer"))["topic"], &of(json!(null))["topic"]),
        (&json!("t"), &json!(null))
    );
    let fewer = list("?limit=1");
    assert_eq!(
        (fewer["connections"].as_array().unwrap().len(), &fewer["complete"]),
        (1, &json!(false))
    );
    problem(&get(admin, "/api/v1/connections?limit=0"), 400, "invalid-request", Some("limit"));

    let close =
        |id: &str| send(admin, "DELETE", &format!("/api/v1/connections/{id}"), &Value::Null);
    let id = reading["id"].as_str().unwrap();
    assert_eq!(close(id).status, 204);
    consumer.read_to_end();
    let gone = super::support::wait_for("it to be forgotten", || {
        Some(close(id)).filter(|answer| answer.status != 204)
    });
    problem(&gone, 404, "unknown-connection", Some("connection"));
    problem(&close("99-1"), 404, "unknown-connection", Some("connection"));
    problem(&close("nobody"), 400, "invalid-request", Some("connection"));
    let metrics = get(admin, "/metrics").body;
    assert!(metrics.contains("closed_total{reason=\"operator\"} 1\n"), "{metrics}");
    assert_eq!(producer.append(&frame(2, b"", b"y")), 1, "the others go on");
    drop(silent);
}
