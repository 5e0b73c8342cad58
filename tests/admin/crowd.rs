//! Peers that say nothing, peers that ask and take nothing of the answers, and peers that take the last descriptors.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use socket2::{Domain, Socket, Type};

use super::broker;
use super::events::Events;
use super::support::http::{get, metric};
use super::support::{HANG, scratch, wait_for};

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

/// Asks again and again on all connections that are left, and on others for those that are closed, until it is told.
fn talkative(admin: SocketAddr, begun: &AtomicBool, ended: &AtomicBool) {
    let connect = || {
        let stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    };
    let asked = b"HEAD /dashboard/style.css HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut crowd: Vec<_> = (1..CONNECTIONS_MAX).map(|_| connect()).collect();
    while !ended.load(Ordering::Relaxed) {
        for stream in &mut crowd {
            if stream.write_all(asked).is_err() || !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                *stream = connect();
            }
        }
        begun.store(true, Ordering::Relaxed);
    }
}

/// Opens connections and says nothing on them: more than there may be, and others for them until it is told.
fn silent(admin: SocketAddr, begun: &AtomicBool, ended: &AtomicBool) {
    let mut crowd = std::collections::VecDeque::new();
    while !ended.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.write_all(b"GET /livez HT").unwrap();
        crowd.push_back(stream);
        if crowd.len() > CONNECTIONS_MAX + CONNECTIONS_MAX / 2 {
            crowd.pop_front();
            begun.store(true, Ordering::Relaxed);
        }
    }
}

fn no_crowd_keeps_a_probe_out(crowd: fn(SocketAddr, &AtomicBool, &AtomicBool)) {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    let mut there = Events::watch(admin);
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _ended = EndAtLast(&ended);
        scope.spawn(|| crowd(admin, &begun, &ended));
        wait_for("the crowd", || begun.load(Ordering::Relaxed).then_some(()));
        for _ in 0..20 {
            assert_eq!(get(admin, "/livez").status, 200);
        }
        // Who is being answered stays.
        assert!(there.next().is_some() && there.next().is_some());
    });
}

/// Ends the crowd even if the test fails: the scope waits for it.
struct EndAtLast<'a>(&'a AtomicBool);

impl Drop for EndAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_crowd_that_says_nothing_keeps_no_probe_out() {
    no_crowd_keeps_a_probe_out(silent);
}

#[test]
fn a_crowd_that_asks_and_stays_keeps_no_probe_out() {
    no_crowd_keeps_a_probe_out(talkative);
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
    wait_for("the line that says so", || {
        broker.log_text().contains("admin connections are accepted one at a time").then_some(())
    });
}
