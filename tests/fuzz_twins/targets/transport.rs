//! The broker's end of a TLS connection, and a real client of rustls whose bytes are cut, put together, changed and dropped on
//! their way: what comes out is the beginning of what was sent, and all of it where nothing was changed.
//!
//! A byte for the version of TLS, the mode and the size of the broker's buffer, then steps: see [`Ends::step`].

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use hermitmq::net::Endpoint;
use hermitmq::tls::{ClientAuth, Mode, Options, Tls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::certificates::{Authority, write};
use super::input::Input;

/// Sizes of the broker's buffer: less than a record, about one, and what a reactor has.
const BUFFERS: [usize; 4] = [37, 5_000, 17_000, 256 * 1024];

/// The most that is sent in one input, each way.
const SENT_MAX: usize = 200_000;

/// Both versions of TLS at the client, both modes at the broker.
struct Setup {
    brokers: [Arc<Tls>; 2],
    clients: [Arc<ClientConfig>; 2],
}

/// Made once for a process.
fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        // Rust's `main`, which a fuzzer has not, ignores this signal; so does a handler that does nothing.
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::default()).unwrap();
        let (ca, dir) = (Authority::new("ca"), tempfile::tempdir().unwrap());
        let (cert, key) = ca.broker().write(dir.path(), "broker");
        let broker = |mode| {
            let options = Options {
                mode,
                cert_file: Some(cert.clone()),
                key_file: Some(key.clone()),
                client_ca_file: Some(write(dir.path(), "ca.pem", &ca.pem())),
                client_auth: ClientAuth::Optional,
            };
            Tls::load(&options, &Arc::default()).unwrap()
        };
        let client = |version: &'static SupportedProtocolVersion| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_protocol_versions(&[version]).unwrap();
            Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
        };
        Setup {
            brokers: [Mode::Required, Mode::Optional].map(broker),
            clients: [&rustls::version::TLS13, &rustls::version::TLS12].map(client),
        }
    })
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut ends = Ends::new(input.byte());
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        ends.step(&mut input);
    }
    ends.settle();
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about two ends, not states")]
struct Ends {
    client: ClientConnection,
    /// The client's end of the socket.
    near: TcpStream,
    broker: Endpoint,
    buffer: Vec<u8>,
    /// What the client has encrypted and did not send yet.
    pending: Vec<u8>,
    /// Plaintext of the client, what came of it, and what came back of that.
    sent: Vec<u8>,
    received: Vec<u8>,
    echoed: Vec<u8>,
    /// Received and not sent back.
    unanswered: usize,
    /// All bytes that went into the socket.
    delivered: Vec<u8>,
    changed: bool,
    /// The client has said its end, or was told nonsense: it says nothing behind it.
    closed: bool,
    /// It was told nonsense: rustls takes nothing behind that.
    deaf: bool,
    shut: bool,
    /// The broker has said its end: what it still reads means nothing.
    done: bool,
    failed: bool,
    ended: bool,
}

impl Ends {
    fn new(how: u8) -> Self {
        let Setup { brokers, clients } = setup();
        let bit = |bit: u8| usize::from(how >> bit & 1);
        let name = ServerName::try_from("localhost").unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let socket = |stream: UnixStream| {
            stream.set_nonblocking(true).unwrap();
            TcpStream::from(OwnedFd::from(stream))
        };
        Self {
            client: ClientConnection::new(Arc::clone(&clients[bit(0)]), name).unwrap(),
            near: socket(near),
            broker: Endpoint::new(socket(far), &brokers[bit(1)]),
            buffer: vec![0; BUFFERS[usize::from(how >> 2 & 3)]],
            pending: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            echoed: Vec::new(),
            unanswered: 0,
            delivered: Vec::new(),
            changed: false,
            closed: false,
            deaf: false,
            shut: false,
            done: false,
            failed: false,
            ended: false,
        }
    }

    /// The client encrypts something, or some of its bytes arrive, or are changed before they do.
    fn step(&mut self, input: &mut Input<'_>) {
        self.collect();
        match input.byte() % 12 {
            0 | 1 => {
                let len = input.u16().min(SENT_MAX - self.sent.len());
                self.say(len);
            }
            2 => {
                let len = usize::from(input.byte());
                self.say(len.min(SENT_MAX - self.sent.len()));
            }
            3 | 4 => self.deliver(input.u16()),
            5 => self.deliver(usize::from(input.byte())),
            6 | 7 => self.deliver(usize::MAX),
            8 => {
                let (at, flip) = (input.u16(), input.byte());
                let len = self.pending.len();
                if len > 0 && flip > 0 {
                    self.pending[at % len] ^= flip;
                    self.changed = true;
                }
            }
            9 => {
                let (at, len) = (input.u16(), usize::from(input.byte()));
                let at = at % (self.pending.len() + 1);
                let end = (at + len).min(self.pending.len());
                self.changed |= end > at;
                self.pending.drain(at..end);
            }
            10 => {
                let (at, len) = (input.u16(), usize::from(input.byte() % 32));
                let (at, noise) = (at % (self.pending.len() + 1), input.bytes(len));
                self.changed |= !noise.is_empty();
                self.pending.splice(at..at, noise.iter().copied());
            }
            _ => match input.byte() % 5 {
                // Neither is for a handshake that is not done.
                0 | 1 if self.closed || self.client.is_handshaking() => {}
                // A key of its own for what follows; TLS 1.2 has none.
                0 => drop(self.client.refresh_traffic_keys()),
                1 => {
                    self.closed = true;
                    self.client.send_close_notify();
                }
                2 => {
                    self.shut = true;
                    let _ = self.near.shutdown(Shutdown::Write);
                }
                3 => {
                    self.done = true;
                    let _ = self.broker.finish();
                }
                _ => self.pump(),
            },
        }
    }

    /// The client writes plaintext, as much as rustls takes.
    fn say(&mut self, len: usize) {
        let from = self.sent.len();
        let bytes: Vec<u8> = (from..from + len).map(pattern).collect();
        if self.closed {
            return;
        }
        let taken = self.client.writer().write(&bytes).unwrap_or(0);
        self.sent.extend_from_slice(&bytes[..taken]);
        self.collect();
    }

    /// What the client wants to send is on its way.
    fn collect(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.pending).unwrap();
        }
    }

    /// Some of it arrives.
    fn deliver(&mut self, most: usize) {
        let bytes: Vec<u8> = self.pending.drain(..most.min(self.pending.len())).collect();
        let mut done = 0;
        while done < bytes.len() && !self.shut && !self.ended {
            match self.near.write(&bytes[done..]) {
                Ok(len) => {
                    self.delivered.extend_from_slice(&bytes[done..done + len]);
                    done += len;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let before = self.received.len();
                    self.pump();
                    let taken = self.received.len() > before || self.failed || self.done;
                    assert!(taken, "what arrived is taken");
                }
                Err(error) => panic!("the broker's end is still open: {error}"),
            }
        }
        self.pump();
    }

    /// The broker reads until there is nothing, and sends back what it got; the client reads that.
    fn pump(&mut self) {
        let mut silent = false;
        // More turns than bytes would be a loop without an end.
        for _ in 0..self.delivered.len() + 64 {
            let _ = self.broker.flush();
            let read = self.broker.read(&mut self.buffer);
            match read {
                Ok((0, false)) => {
                    self.ended = true;
                    self.answer();
                    self.listen();
                    return;
                }
                Ok(_) if self.done => {}
                Ok((len, more)) => {
                    assert!(!silent, "nothing came, and nothing was said to be there");
                    assert!(!self.failed, "nothing is behind a failure");
                    silent = !more;
                    self.received.extend_from_slice(&self.buffer[..len]);
                    self.unanswered += len;
                    self.check();
                    self.answer();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.answer();
                    self.listen();
                    return;
                }
                // It was in the middle of a handshake.
                Err(_) if self.done => {
                    self.ended = true;
                    return;
                }
                Err(error) => {
                    let why = self.broker.failure();
                    assert!(
                        !self.failed || !self.broker.is_tls(),
                        "a failure is told once: {error}, {why:?}"
                    );
                    assert!(why.is_some(), "{error}");
                    self.failed = true;
                    self.listen();
                    if !self.broker.is_tls() {
                        // Refused by its first byte, and never read.
                        self.ended = true;
                        return;
                    }
                }
            }
        }
        panic!("the broker reads for ever");
    }

    /// The broker sends back what it has got.
    fn answer(&mut self) {
        while self.unanswered > 0 && !self.done {
            let from = self.received.len() - self.unanswered;
            match self.broker.write(&self.received[from..]) {
                Ok(len) => self.unanswered -= len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let before = self.echoed.len();
                    self.listen();
                    if self.echoed.len() == before {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// The client takes what came back.
    fn listen(&mut self) {
        while !self.deaf && self.client.wants_read() {
            match self.client.read_tls(&mut self.near) {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
            // It may have been told of a failure.
            let processed = self.client.process_new_packets();
            let mut buf = [0; 4096];
            while let Ok(len @ 1..) = self.client.reader().read(&mut buf) {
                self.echoed.extend_from_slice(&buf[..len]);
            }
            if processed.is_err() {
                (self.closed, self.deaf) = (true, true);
                break;
            }
        }
        assert!(self.received.starts_with(&self.echoed), "what comes back is what came");
    }

    fn check(&self) {
        let from: &[u8] = if self.broker.is_tls() { &self.sent } else { &self.delivered };
        assert!(
            from.starts_with(&self.received),
            "what comes out is the beginning of what was sent"
        );
    }

    /// All that is left arrives. Where nothing was changed on the way, all of it has come, both ways.
    fn settle(&mut self) {
        // Each message of a handshake asks for the next one.
        for _ in 0..8 {
            self.collect();
            self.deliver(usize::MAX);
        }
        self.check();
        if self.changed || self.shut || self.done {
            return;
        }
        assert!(!self.failed && !self.client.is_handshaking(), "{:?}", self.broker.failure());
        assert_eq!(self.received.len(), self.sent.len());
        assert_eq!(self.echoed.len(), self.sent.len());
    }
}

/// The byte at this place of everything that is sent.
fn pattern(at: usize) -> u8 {
    u8::try_from((at * 31 + at / 251) % 256).unwrap()
}
