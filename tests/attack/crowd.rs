//! Many sockets at once, and attackers that go on until they are dropped.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::RawClient;

/// Descriptors that are not for the crowd, or half of all.
const OTHERS: u64 = 1500;

/// Fewer connections prove nothing.
const LEAST: u64 = 500;

/// Lets this process have as many descriptors as it may; returns how many of `wanted` connections that allows, here and in
/// a broker.
pub(super) fn room_for(wanted: u64) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let most = hard - OTHERS.min(hard / 2);
    assert!(most >= LEAST, "a crowd needs a hard limit of open files of more than {hard}");
    if most < wanted {
        eprintln!("only {most} of {wanted} connections: the hard limit of open files is low here");
    }
    usize::try_from(most.min(wanted)).unwrap()
}

/// Connections that say the same; nobody reads what they are answered.
pub(super) fn connect(addr: SocketAddr, count: usize, hello: &[u8]) -> Vec<RawClient> {
    let one = || {
        let mut client = RawClient::connect(addr);
        client.try_send(hello);
        client
    };
    (0..count).map(|_| one()).collect()
}

/// Writes to each as much as it takes now, at most `most` bytes.
pub(super) fn push(clients: &[RawClient], bytes: &[u8], most: usize) {
    for client in clients {
        let mut stream = client.stream();
        stream.set_nonblocking(true).unwrap();
        let mut left = most;
        while left > 0
            && let Ok(sent @ 1..) = stream.write(&bytes[..left.min(bytes.len())])
        {
            left -= sent;
        }
        stream.set_nonblocking(false).unwrap();
    }
}

/// Does something again and again on a thread of its own, until it is dropped.
#[derive(Debug)]
pub(super) struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    /// With a pause after each time: what is measured is whether the broker is fair, not how the system shares the
    /// processors between the attacker and its victim.
    pub(super) fn start(pause: Duration, mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
                std::thread::sleep(pause);
            }
        };
        Self { stop, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            assert!(result.is_ok() || std::thread::panicking(), "an attacker failed");
        }
    }
}
