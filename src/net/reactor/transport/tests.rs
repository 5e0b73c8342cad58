//! Both ends of a socket: the transport, and a client of rustls in a thread.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::tls::certificates::{Authority, Identity, write};
use crate::tls::{ClientAuth, Options, Tls};

type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

/// Only ends a hang.
const HANG: Duration = Duration::from_secs(30);

struct Ends {
    ca: Authority,
    tls: Arc<Tls>,
    _dir: tempfile::TempDir,
}

impl Ends {
    fn new(mode: Mode, client_auth: ClientAuth) -> Self {
        let (ca, dir) = (Authority::new("ca"), tempfile::tempdir().unwrap());
        let (cert, key) = ca.broker().write(dir.path(), "broker");
        let options = Options {
            mode,
            cert_file: Some(cert),
            key_file: Some(key),
            client_ca_file: Some(write(dir.path(), "ca.pem", &ca.pem())),
            client_auth,
        };
        Self { tls: Tls::load(&options, &Arc::default()).unwrap(), ca, _dir: dir }
    }

    /// A client's socket, and the transport at its other end.
    fn connect(&self) -> (std::net::TcpStream, Transport) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(HANG)).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nonblocking(true).unwrap();
        let tls = Some((self.tls.mode(), self.tls.config()));
        (near, Transport::new(mio::net::TcpStream::from_std(far), tls))
    }

    fn client(&self, socket: std::net::TcpStream, identity: Option<&Identity>) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
    }
}

/// Tries until the socket has something; `None` at the end of what is sent.
fn read(transport: &mut Transport, buf: &mut [u8]) -> io::Result<Option<Read>> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < HANG, "nothing comes");
        let _ = transport.flush()?;
        match transport.read(buf) {
            Ok(Read { len: 0, more: true }) => {}
            Ok(Read { len: 0, more: false }) => return Ok(None),
            Ok(read) => return Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
}

/// Everything that is sent, by a buffer of this size; what `more` has said was true.
fn read_all(transport: &mut Transport, size: usize) -> io::Result<Vec<u8>> {
    let (mut all, mut buf) = (Vec::new(), vec![0; size]);
    while let Some(Read { len, .. }) = read(transport, &mut buf)? {
        all.extend_from_slice(&buf[..len]);
    }
    Ok(all)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 31 + i / 251) % 256).unwrap()).collect()
}

/// Sends by TLS in writes of `sizes`, says the end, and reads until the other end says its own.
fn sends(mut client: Client, bytes: Vec<u8>, size: usize) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        for piece in bytes.chunks(size) {
            client.write_all(piece).unwrap();
        }
        client.conn.send_close_notify();
        client.flush().unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    })
}

#[test]
fn what_is_sent_arrives_whatever_the_sizes_of_records_and_buffers() {
    let ends = Ends::new(Mode::Required, ClientAuth::Off);
    let bytes = pattern(300_000);
    for (record, buffer) in
        [(1 << 20, 256 * 1024), (1 << 20, 7000), (1 << 20, 100), (700, 256 * 1024), (17, 16 * 1024)]
    {
        let bytes = &bytes[..if record < 100 { 30_000 } else { bytes.len() }];
        let (near, mut transport) = ends.connect();
        let client = sends(ends.client(near, None), bytes.to_vec(), record);
        assert!(read_all(&mut transport, buffer).unwrap() == bytes, "{record} {buffer}");
        assert!(!transport.in_handshake() && transport.is_tls());
        assert!(transport.finish().unwrap());
        assert_eq!(client.join().unwrap(), b"");
    }
}

#[test]
fn what_does_not_fit_is_said_to_be_there() {
    let ends = Ends::new(Mode::Optional, ClientAuth::Off);
    let (near, mut transport) = ends.connect();
    let bytes = pattern(10_000);
    let sent = bytes.clone();
    let mut client = ends.client(near, None);
    // One record, and nothing behind it: only `more` can say that there is a rest.
    let client = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client
    });
    let mut got = Vec::new();
    let mut buf = [0; 100];
    let mut next = read(&mut transport, &mut buf).unwrap().unwrap();
    let _open = client.join().unwrap();
    loop {
        got.extend_from_slice(&buf[..next.len]);
        if got.len() == bytes.len() {
            break;
        }
        assert!(next.more, "after {} bytes", got.len());
        next = transport.read(&mut buf).unwrap();
    }
    assert!(got == bytes);
    let empty = transport.read(&mut buf).unwrap_err();
    assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
}

/// Else a peer that sends without end what nothing comes of would be read without end.
#[test]
fn a_read_reads_the_socket_once_whatever_comes_of_it() {
    let (mut near, mut transport) = Ends::new(Mode::Required, ClientAuth::Off).connect();
    let mut buf = [0; 100];
    for part in [&[TLS_RECORD, 3, 1, 0, 200][..], &[1, 0, 0, 196]] {
        near.write_all(part).unwrap();
        let begun = Instant::now();
        let read = loop {
            assert!(begun.elapsed() < HANG, "it waits for a record");
            match transport.read(&mut buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                read => break read.unwrap(),
            }
        };
        assert_eq!(read, Read { len: 0, more: true });
    }
}

#[test]
fn what_the_socket_does_not_take_is_kept_within_bounds_and_sent_in_order() {
    let ends = Ends::new(Mode::Required, ClientAuth::Off);
    let (near, mut transport) = ends.connect();
    let client = ends.client(near, None);
    let (go, wait) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut client = client;
        client.write_all(b"x").unwrap();
        wait.recv().unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        all
    });
    read(&mut transport, &mut [0; 10]).unwrap().unwrap();
    let bytes = pattern(20 * 1024 * 1024);
    let mut taken = 0;
    // Until nothing more is taken, the peer reading nothing.
    loop {
        match transport.write(&bytes[taken..]) {
            Ok(n) => taken += n,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
        assert!(taken < bytes.len(), "the socket takes everything");
    }
    assert!(transport.wants_write());
    let flushed = transport.flushed();
    go.send(()).unwrap();
    // What the socket takes of what is kept is seen, before anything more is taken.
    while transport.flushed() == flushed {
        transport.flush().unwrap();
        thread::yield_now();
    }
    while taken < bytes.len() {
        match transport.write(&bytes[taken..]) {
            Ok(n) => taken += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    while !transport.finish().unwrap() {
        thread::yield_now();
    }
    drop(transport);
    assert!(reader.join().unwrap() == bytes);
}

#[test]
fn the_first_byte_tells_and_the_mode_decides() {
    for (mode, first, reads) in [
        (Mode::Off, 1, true),
        (Mode::Off, TLS_RECORD, true),
        (Mode::Optional, 1, true),
        (Mode::Required, 1, false),
        (Mode::Required, 0, false),
    ] {
        let (mut near, mut transport) = Ends::new(mode, ClientAuth::Off).connect();
        let nothing = transport.read(&mut [0; 10]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock, "{mode:?}");
        near.write_all(&[first, 2, 3]).unwrap();
        let mut buf = [0; 10];
        let got = read(&mut transport, &mut buf);
        assert_eq!(got.is_ok(), reads, "{mode:?} {first}");
        if let Ok(got) = got {
            assert_eq!((got.unwrap().len, buf[0]), (3, first));
            assert!(transport.failure().is_none() && !transport.is_tls());
        } else {
            assert_eq!(transport.failure().unwrap().kind, TlsFailure::Plaintext);
        }
    }
    let (near, mut transport) = Ends::new(Mode::Required, ClientAuth::Off).connect();
    drop(near);
    assert!(read(&mut transport, &mut [0; 10]).unwrap().is_none());
    assert!(transport.failure().is_none());
}

#[test]
fn the_name_of_a_certificate_is_that_of_the_peer_and_strangers_do_not_pass() {
    let ends = Ends::new(Mode::Required, ClientAuth::Optional);
    let named = |identity: Option<&Identity>| {
        let (near, mut transport) = ends.connect();
        let mut client = ends.client(near, identity);
        let client = thread::spawn(move || {
            // Refused, it may not get so far.
            let _ = client.write_all(b"hello");
            client
        });
        let result = read(&mut transport, &mut [0; 100]);
        let _ = client.join().unwrap();
        let failure = transport.failure().map(|failure| failure.kind);
        (result.is_ok(), transport.certificate(), failure)
    };
    assert_eq!(named(None), (true, None, None));
    let good = ends.ca.client("billing");
    assert_eq!(named(Some(&good)), (true, Some("billing".into()), None));
    let foreign = Authority::new("other").client("billing");
    let (passed, _, failure) = named(Some(&foreign));
    assert_eq!((passed, failure), (false, Some(TlsFailure::Certificate)));
}

#[test]
fn garbage_and_truncation_end_the_connection_with_a_reason_or_quietly() {
    let ends = Ends::new(Mode::Required, ClientAuth::Off);
    // No handshake behind the first byte.
    let (mut near, mut transport) = ends.connect();
    near.write_all(&[TLS_RECORD, 3, 1, 0, 5, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    assert!(read(&mut transport, &mut [0; 100]).is_err());
    assert_eq!(transport.failure().unwrap().kind, TlsFailure::Protocol);
    assert!(transport.in_handshake());
    // Garbage behind the handshake, and then the end in the middle of a record.
    for (rest, fails) in [(&[0x17, 3, 3, 0, 30][..], false), (&[9; 64][..], true)] {
        let (near, mut transport) = ends.connect();
        let mut client = ends.client(near, None);
        let rest = rest.to_vec();
        let client = thread::spawn(move || {
            client.write_all(b"hello").unwrap();
            client.sock.write_all(&rest).unwrap();
            client.sock.shutdown(Shutdown::Write).unwrap();
            client
        });
        let mut buf = [0; 100];
        let mut got = Vec::new();
        let end = loop {
            match read(&mut transport, &mut buf) {
                Ok(Some(Read { len, .. })) => got.extend_from_slice(&buf[..len]),
                end => break end.map(drop),
            }
        };
        let _ = client.join().unwrap();
        assert_eq!((got.as_slice(), end.is_err()), (&b"hello"[..], fails));
        assert_eq!(transport.failure().is_some(), fails);
    }
}

/// rustls takes it for a fault in whoever uses it if there is something to complain of behind the end.
#[test]
fn nonsense_behind_the_own_end_is_dropped() {
    for nonsense in [&[0x17, 3, 3, 0, 30][..], &[9; 64], &[0x17; 100]] {
        let ends = Ends::new(Mode::Required, ClientAuth::Off);
        let (near, mut transport) = ends.connect();
        let mut client = ends.client(near, None);
        let nonsense = nonsense.to_vec();
        let client = thread::spawn(move || {
            client.write_all(b"hello").unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            client.sock.write_all(&nonsense).unwrap();
            client.sock.shutdown(Shutdown::Write).unwrap();
            rest
        });
        let mut buf = [0; 100];
        assert_eq!(read(&mut transport, &mut buf).unwrap().unwrap().len, 5);
        assert_eq!(transport.write(b"bye").unwrap(), 3);
        assert!(transport.finish().unwrap());
        while read(&mut transport, &mut buf).unwrap().is_some() {}
        assert_eq!(client.join().unwrap(), b"bye");
        assert!(transport.failure().is_none());
    }
}
