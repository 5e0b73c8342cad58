//! Peers that ask and take nothing of the answers.

use std::io::Write as _;
use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

use super::broker;
use super::support::http::get;
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
