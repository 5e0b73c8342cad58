//! Clients that ask for what waits for the disk, and do not wait for it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::support::http::metric;
use super::support::{
    Broker, INJECT_TOOLS, PRODUCE, RawClient, Start, Tracer, frame, handshake, privileged, scratch,
    wait_for,
};

/// How many ask, each for a topic that is not there.
const CLIENTS: usize = 40;

/// A second each: more than a test has for all of them.
const SLOW: &str = "/^mkdir:delay_enter=1000000";

/// A broker whose topics take a second each to be made, and those who have asked for one.
fn asked(data: &Path) -> (Broker, Tracer, Vec<RawClient>) {
    let start = Start::on(data).with_admin();
    let broker = start.arg("--set").arg("server.shutdown_timeout_sec=1").run();
    let slow = Tracer::attach(broker.pid(), SLOW);
    let clients = ask(broker.addr());
    wait_for("all to be there", || {
        let there = metric(broker.admin(), "hermitmq_connections");
        (there == i64::try_from(CLIENTS).unwrap()).then_some(())
    });
    (broker, slow, clients)
}

fn ask(addr: SocketAddr) -> Vec<RawClient> {
    let ask = |number| RawClient::produce(addr, &format!("slow-{number}"), 0);
    (0..CLIENTS).map(ask).collect()
}

/// Topics that were created for them.
fn created(data: &Path) -> usize {
    let names = data.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("slow-")).count()
}

#[test]
fn nothing_is_done_for_those_who_are_gone() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch();
    let (broker, _slow, clients) = asked(&data);
    for client in clients {
        // Gone at once, and the broker is told.
        let socket = socket2::SockRef::from(client.stream());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
    wait_for("all to be gone", || {
        (metric(broker.admin(), "hermitmq_connections") == 0).then_some(())
    });
    let mut client = RawClient::connect(broker.addr());
    client.send(&handshake(PRODUCE, &["other"], 0));
    assert_eq!(client.append(&frame(1, b"", b"in its turn")), 0);
    let created = created(&data);
    assert!(created < CLIENTS, "all {created} topics of those who are gone were created before");
}

#[test]
fn the_end_does_not_wait_for_what_was_not_begun() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch();
    let (broker, _slow, _clients) = asked(&data);
    let (status, _) = broker.terminate();
    assert!(status.success());
    let created = created(&data);
    assert!(created < CLIENTS, "all {created} topics were created before the end");
}
