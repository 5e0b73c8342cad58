//! `/api/v1/events`, and the other paths that the dashboard asks for.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::support::http::{get, send, try_request};
use super::support::{HANG, RawClient, commit, frame, scratch, wait_for};
use super::{broker, problem};

/// Streams that one broker has open at the most.
const STREAMS_MAX: usize = 32;

/// A stream of events: each a snapshot.
pub(super) struct Events(BufReader<TcpStream>);

impl Events {
    /// Begins to listen, and has read the head of the answer.
    pub(super) fn watch(addr: SocketAddr) -> Self {
        Self::try_watch(addr).unwrap_or_else(|head| panic!("no events: {head}"))
    }

    /// The head of the answer if it is another one.
    fn try_watch(addr: SocketAddr) -> Result<Self, String> {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: {addr}\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let is_events = head.starts_with("HTTP/1.1 200 ")
            && head.contains("\r\ncontent-type: text/event-stream\r\n")
            && head.contains("\r\ncache-control: no-store\r\n");
        if is_events { Ok(Self(reader)) } else { Err(head) }
    }
}

impl Iterator for Events {
    type Item = Value;

    /// Until the stream ends in order; one that breaks off fails.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream broke off");
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
            // The last chunk.
            if line == "0\r\n" {
                return None;
            }
        }
    }
}

#[test]
fn what_happens_is_told() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut events = Events::watch(admin);
    let first = events.next().unwrap();
    assert_eq!((&first["state"], &first["health"]["ok"]), (&json!("running"), &json!(true)));
    assert_eq!((&first["rates"], &first["log"]["topics"]), (&Value::Null, &json!(0)));

    let mut producer = RawClient::produce(addr, "orders", 0);
    commit(addr, "billing", "orders", 0, 0);
    let told = events.find(|event| {
        producer.append(&frame(1, b"k", &[b'x'; 1000]));
        event["rates"]["bytes_in"].as_u64() > Some(0)
            && event["log"]["busiest_topics"][0]["name"] == "orders"
            && event["log"]["slowest_groups"][0]["name"] == "billing"
    });
    let told = told.unwrap();
    assert_eq!((&told["log"]["topics"], &told["log"]["partitions"]), (&json!(1), &json!(1)));
    assert_eq!(told["connections"]["producers"], 1);
    assert!(told["log"]["slowest_groups"][0]["lag"].as_u64() > Some(0), "{told}");
}

#[test]
fn streams_are_few_and_their_places_are_given_back() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    let mut streams: Vec<_> = (0..STREAMS_MAX).map(|_| Events::watch(admin)).collect();
    let refused = get(admin, "/api/v1/events");
    let detail = problem(&refused, 409, "limit-reached", None);
    assert!(detail.contains(&STREAMS_MAX.to_string()), "{detail}");
    assert!(streams.iter_mut().all(|stream| stream.next().is_some()));
    streams.pop();
    let mut again = wait_for("a place", || Events::try_watch(admin).ok());
    assert!(again.next().is_some());
}

#[test]
fn a_listener_who_does_not_read_holds_up_nobody() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    // Names as long as they may be: events that soon fill what is between the two.
    for letter in 'a'..='j' {
        let topic = letter.to_string().repeat(249);
        RawClient::produce(addr, &topic, 0).append(&frame(1, b"", b"x"));
        commit(addr, &topic, &topic, 0, 0);
    }
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    deaf.set_recv_buffer_size(4096).unwrap();
    deaf.connect(&admin.into()).unwrap();
    let deaf = TcpStream::from(deaf);
    write!(&deaf, "GET /api/v1/events HTTP/1.1\r\nhost: {admin}\r\n\r\n").unwrap();
    let mut events = Events::watch(admin);
    let (mut held, mut unchanged) = (0, 0);
    let full = events.find(|_| {
        let now = deaf.peek(&mut vec![0; 65_536]).unwrap();
        unchanged = if now == held { unchanged + 1 } else { 0 };
        held = now;
        unchanged == 2
    });
    assert!(full.is_some() && held > 0);
    assert!((0..3).all(|_| events.next().is_some()));
    assert_eq!(get(admin, "/readyz").status, 200);
}

#[test]
fn a_stream_ends_with_the_broker() {
    let (_dir, data) = scratch();
    let mut broker = super::start(&data).env("HERMITMQ_SERVER__DRAIN_DELAY_MS", 1500).run();
    let mut events = Events::watch(broker.admin());
    assert!(events.next().is_some());
    broker.signal(Signal::TERM);
    let last = events.last().unwrap();
    assert_eq!((&last["state"], &last["health"]["ok"]), (&json!("stopping"), &json!(false)));
    let (status, _) = broker.wait();
    assert!(status.success(), "{status}");
}

#[test]
fn traffic_and_segments_of_a_topic() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let topic = json!({ "name": "orders", "partitions": 2, "max_segment_mb": 1 });
    assert_eq!(send(admin, "POST", "/api/v1/topics", &topic).status, 201);
    let mut producer = RawClient::produce(addr, "orders", 1);
    let record = frame(1, b"", &vec![b'x'; 700_000]);
    for _ in 0..3 {
        producer.append(&record);
    }
    let traffic = get(admin, "/api/v1/topics/orders/traffic").json();
    let counted = |partition: usize| {
        let of = &traffic["partitions"][partition];
        (of["records_in"].as_u64().unwrap(), of["bytes_in"].as_u64().unwrap())
    };
    assert_eq!(counted(0), (0, 0));
    assert_eq!(counted(1), (3, 3 * record.len() as u64));

    let listed = get(admin, "/api/v1/topics/orders/partitions/1/segments").json();
    let listed = listed["segments"].as_array().unwrap();
    let described = get(admin, "/api/v1/topics/orders").json();
    assert_eq!(described["partitions"][1]["segments"], listed.len());
    assert!(listed.len() > 1, "{listed:?}");
    let bases: Vec<_> = listed.iter().map(|one| one["base_offset"].as_u64().unwrap()).collect();
    assert!(bases[0] == 0 && bases.is_sorted_by(|a, b| a < b), "{bases:?}");
    let bytes: u64 = listed.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 3 * record.len() as u64);

    problem(&get(admin, "/api/v1/topics/none/traffic"), 404, "unknown-topic", Some("topic"));
    let none = get(admin, "/api/v1/topics/orders/partitions/7/segments");
    problem(&none, 404, "unknown-partition", Some("partition"));
}

#[test]
fn the_pages_are_served_and_say_what_they_may_do() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    let index = get(admin, "/");
    assert_eq!((index.status, index.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(index.header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(index.header("cache-control"), "no-cache");
    let tag = [("if-none-match", index.header("etag"))];
    let known = try_request(admin, "GET", "/", &tag, b"").unwrap();
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    let files = index.body.split("\"/dashboard/").skip(1).filter_map(|rest| rest.split('"').next());
    for file in files {
        assert_eq!(get(admin, &format!("/dashboard/{file}")).status, 200, "{file}");
    }
    problem(&get(admin, "/dashboard/none.js"), 404, "not-found", None);
    problem(&get(admin, "/dashboard/..%2fmod.rs"), 404, "not-found", None);
}
