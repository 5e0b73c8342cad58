//! Peers that ask and take nothing of the answers, and peers that take the last descriptors.

use std::io::Write as _;
use std::net::SocketAddr;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use socket2::{Domain, Socket, Type};

use super::broker;
use super::events::Events;
use super::support::http::{get, metric};
use super::support::scratch;

/// As many as the listener serves at a time.
const CONNECTIONS_MAX: usize = 256;

/// Asks for far more than fits between it and the broker, and reads nothing.
fn deaf(addr: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Small segments and a small window: the system holds little of what is not read.
    socket.set_tcp_mss(536).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&addr.into()).unwrap();
    let asked = b"GET /dashboard/style.css HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    socket.set_nonblocking(true).unwrap();
    let _ = (&socket).write(&asked);
    socket
}

#[test]
fn who_takes_nothing_makes_room() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    let crowd: Vec<_> = (0..CONNECTIONS_MAX).map(|_| deaf(admin)).collect();
    assert_eq!(get(admin, "/livez").status, 200);
    drop(crowd);
}

/// A probe without an answer has a broker ended that serves those who are there.
#[test]
fn without_descriptors_probes_are_answered_one_by_one() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    // By then it has something in reserve.
    get(admin, "/livez");
    let fds = std::path::Path::new("/proc").join(broker.pid().to_string()).join("fd");
    let is_reserve = |fd: &u64| {
        let file = std::fs::read_link(fds.join(fd.to_string()));
        file.is_ok_and(|file| file.ends_with("null"))
    };
    let limit = 1 + (3..1000).rev().find(is_reserve).unwrap();
    let pid = Pid::from_raw(broker.pid().try_into().unwrap());
    let rlimit = Rlimit { current: Some(limit), maximum: Some(limit) };
    prlimit(pid, Resource::Nofile, rlimit).unwrap();
    // Who stays takes the numbers that are free.
    let mut streams = Vec::new();
    while !(0..limit).all(|fd| fds.join(fd.to_string()).is_symlink()) {
        streams.push(Events::watch(admin));
    }
    for _ in 0..3 {
        assert_eq!(get(admin, "/livez").status, 200);
    }
    assert!(metric(admin, "hermitmq_accept_errors_total") > 0);
    assert!(broker.log_text().contains("admin connections are accepted one at a time"));
}
