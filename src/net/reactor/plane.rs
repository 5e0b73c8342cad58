//! Starting and stopping the data plane.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Poll, Waker};
use slab::Slab;

use super::acceptor::Acceptor;
use super::context::{Context, SCRATCH};
use super::courier::Couriers;
use super::gather::Gather;
use super::inbox::{DELETIONS, Inbox, MemoryWake, Message};
use super::pulse::Pulse;
use super::roster::Connections;
use super::waiting::Spares;
use super::worker::Workers;
use super::{Reactor, WAKER};
use crate::access::Access;
use crate::broker::{Broker, Wake};
use crate::metrics::Throttle;
use crate::model::limits;
use crate::net::admission::Admission;
use crate::net::bounds::Bounds;
use crate::net::budget::Budget;
use crate::net::quota::Quotas;
use crate::net::{Options, SecurityOptions};
use crate::tls::Tls;

/// Connections waiting to be accepted, at most.
const BACKLOG: i32 = 1024;

/// The data plane could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The host name has no address.
    #[error("cannot listen on {host}: {source}; check server.host")]
    Resolve {
        /// As configured.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}; {hint}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A thread or its poll could not be set up.
    #[error("cannot start a reactor: {0}")]
    Reactor(#[from] io::Error),
}

/// A port that was taken, whose connections are not accepted yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    /// Listens on the configured address. Connections wait until [`DataPlane::start`].
    pub fn bind(options: &Options) -> Result<Self, ListenError> {
        let host = &options.host;
        let resolve = |source| ListenError::Resolve { host: host.clone(), source };
        let mut addrs = (host.as_str(), options.port).to_socket_addrs().map_err(resolve)?;
        let addr = addrs.next().ok_or_else(|| resolve(io::ErrorKind::NotFound.into()))?;
        let listener = bind(addr).map_err(|source| ListenError::Listen {
            addr,
            hint: hint(&source),
            source,
        })?;
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or choose another port with --port"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege; choose another with --port"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; check --host",
        _ => "check --host and --port",
    }
}

/// The running data plane.
#[derive(Debug)]
pub struct DataPlane {
    addr: SocketAddr,
    acceptor: Acceptor,
    admission: Arc<Admission>,
    reactors: Vec<(Arc<Inbox>, JoinHandle<usize>)>,
    workers: [Workers; 2],
    couriers: Couriers,
}

/// How the data plane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopReport {
    /// Connections that had not taken their answers in time.
    pub broken_off: usize,
}

impl DataPlane {
    /// Starts the threads. When this returns, connections are accepted, with `tls` if there is one and its mode says so.
    pub fn start(
        listener: Listener,
        options: &Options,
        security: &SecurityOptions,
        tls: Option<&Arc<Tls>>,
        broker: &Arc<Broker>,
        access: &Arc<Access>,
    ) -> Result<Self, ListenError> {
        let Listener { listener, addr } = listener;
        let (openers, jobs) = Workers::start("opener", broker, access)?;
        let (readers, reads) = Workers::start("reader", broker, access)?;
        let couriers = Couriers::start(broker.metrics())?;
        let count = reactor_count(options);
        let polls = polls(count)?;
        let inboxes: Vec<_> = polls.iter().map(|(_, inbox)| Arc::clone(inbox)).collect();
        let memory = u64::from(security.receive_memory_mb) * limits::MIB;
        let budget = Budget::new(memory, Arc::clone(broker.metrics()));
        let bounds = Bounds::of(options, security);
        let admission = Admission::new(security);
        let quotas = Quotas::of(&security.quota);
        let mut reactors = Vec::new();
        for (number, (poll, inbox)) in polls.into_iter().enumerate() {
            let wake: Arc<dyn Wake> = Arc::<Inbox>::clone(&inbox);
            broker.watch_deletions(&wake, DELETIONS);
            let registry = poll.registry().try_clone()?;
            let reactor = Reactor {
                poll,
                sessions: Slab::new(),
                generation: 0,
                again: std::collections::VecDeque::new(),
                swept: Instant::now(),
                stop_at: None,
                inboxes: inboxes.clone(),
                failed: Vec::new(),
                cx: Context {
                    reactor: number,
                    reactors: count,
                    broker: Arc::clone(broker),
                    access: Arc::clone(access),
                    metrics: Arc::clone(broker.metrics()),
                    bounds,
                    budget: Arc::clone(&budget),
                    jobs: jobs.clone(),
                    reads: reads.clone(),
                    post: couriers.post(),
                    registry,
                    inbox: Arc::clone(&inbox),
                    wake,
                    memory_wake: Arc::new(MemoryWake(Arc::clone(&inbox))),
                    gather: Gather::new(),
                    spares: Spares::default(),
                    now: Instant::now(),
                    appended_at: None,
                    scratch: vec![0; SCRATCH],
                    plaintext: Vec::new(),
                    tls: tls.cloned(),
                    stalls: std::collections::VecDeque::new(),
                    lingers: std::collections::VecDeque::new(),
                    quotas: Arc::clone(&quotas),
                    pauses: std::collections::BTreeSet::new(),
                    deadlines: std::collections::BTreeSet::new(),
                    partial_handshakes: std::collections::BTreeSet::new(),
                    pending_max: super::context::PENDING_MAX,
                    heartbeats: std::collections::BTreeSet::new(),
                    warnings: Throttle::default(),
                    stopping: false,
                },
            };
            let name = format!("reactor-{number}");
            reactors.push((inbox, thread::Builder::new().name(name).spawn(move || reactor.run())?));
        }
        let metrics = Arc::clone(broker.metrics());
        let acceptor = Acceptor::start(listener, inboxes, Arc::clone(&admission), metrics)?;
        Ok(Self { addr, acceptor, admission, reactors, workers: [openers, readers], couriers })
    }

    /// Has other limits hold for connections: those that are there stay, however many, and keep what their sockets and their
    /// frames were told. The memory for frames, the address and the threads are not among them.
    pub fn reconfigure(&self, options: &Options, security: &SecurityOptions) {
        self.admission.set(security);
        let bounds = Bounds::of(options, security);
        let quotas = Quotas::of(&security.quota);
        for (inbox, _) in &self.reactors {
            inbox.send(Message::Bounds(bounds, Arc::clone(&quotas)));
        }
    }

    /// The address listened on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Number of reactors.
    pub fn reactors(&self) -> usize {
        self.reactors.len()
    }

    /// What asks the reactors whether they turn.
    pub fn pulse(&self) -> Pulse {
        Pulse::of(self.reactors.iter().map(|(inbox, _)| Arc::clone(inbox)))
    }

    /// What lists the connections, and closes one.
    pub fn connections(&self) -> Connections {
        Connections::of(self.reactors.iter().map(|(inbox, _)| Arc::clone(inbox)))
    }

    /// Other rules of access are in effect: whoever would not be let in now is ended.
    pub fn review(&self) {
        for (inbox, _) in &self.reactors {
            inbox.send(Message::Review);
        }
    }

    /// Stops accepting, answers what was received, closes every connection, and ends the threads. What is not done by
    /// `timeout` is broken off.
    pub fn stop(self, timeout: Duration) -> StopReport {
        let at = Instant::now() + timeout;
        self.acceptor.stop();
        for (inbox, _) in &self.reactors {
            inbox.send(Message::Stop(at));
        }
        let broken_off =
            self.reactors.into_iter().map(|(_, thread)| thread.join().unwrap_or(0)).sum();
        drop(self.couriers);
        for workers in self.workers {
            workers.join();
        }
        StopReport { broken_off }
    }
}

/// What each reactor waits on, and how it is told something.
fn polls(count: usize) -> io::Result<Vec<(Poll, Arc<Inbox>)>> {
    let poll = |number| {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok((poll, Inbox::new(number, waker)))
    };
    (0..count).map(poll).collect()
}

fn reactor_count(options: &Options) -> usize {
    match options.reactors {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count as usize,
    }
    .min(limits::REACTORS_MAX)
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for old connections; two listeners at once are refused all the same.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}
