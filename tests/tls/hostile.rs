//! What is no TLS, or is cut off, costs its sender the connection and nobody else anything.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::Durability;

use super::support::tunnel::{Tunnel, config, connection};
use super::support::{
    Broker, HANG, PRODUCE, Random, RawClient, drain, frame, handshake, v1_1, wait_for,
};
use super::{Setup, metric};

/// Somebody else, whose connection goes on.
struct Bystander {
    client: RawClient,
    _tunnel: Tunnel,
}

impl Bystander {
    fn at(broker: &Broker, setup: &Setup) -> Self {
        let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
        let mut client = RawClient::produce(tunnel.addr(), "bystander", 0);
        client.append(&frame(0, b"", b"x"));
        Self { client, _tunnel: tunnel }
    }

    fn is_served(&mut self) {
        self.client.append(&frame(0, b"", b"x"));
    }
}

fn socket(broker: &Broker) -> TcpStream {
    let socket = TcpStream::connect(broker.addr()).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.set_write_timeout(Some(HANG)).unwrap();
    socket
}

/// Reads until the broker closes, which it must.
fn closed(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
        Err(error) => panic!("not closed: {error}"),
    }
}

/// The first message of a client's handshake.
fn client_hello(setup: &Setup) -> Vec<u8> {
    let config = std::sync::Arc::new(config(&setup.ca, None, rustls::ALL_VERSIONS));
    let mut client =
        rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn a_slow_handshake_ends_at_the_deadline() {
    let setup = Setup::new();
    let broker =
        setup.start("required").with_admin().env("HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC", 1).run();
    let hello = client_hello(&setup);
    let mut started = socket(&broker);
    started.write_all(&hello[..20]).unwrap();
    let mut whole = socket(&broker);
    whole.write_all(&hello).unwrap();
    // The TLS handshake is done, the one behind it is not: the deadline is that of both.
    let mut done = connection(broker.addr(), config(&setup.ca, None, rustls::ALL_VERSIONS));
    done.write_all(&[1]).unwrap();
    let mut silent = socket(&broker);
    closed(&mut started);
    closed(&mut whole);
    closed(&mut silent);
    let _ = done.read_to_end(&mut Vec::new());
    let name = "hermitmq_tls_handshake_failures_total{reason=\"timeout\"}";
    wait_for("two timeouts", || (metric(&broker, name) >= 2.0).then_some(()));
    assert!(
        metric(&broker, "hermitmq_connections_closed_total{reason=\"handshake_timeout\"}") >= 4.0
    );
}

#[test]
fn noise_instead_of_a_handshake_closes_that_connection() {
    let setup = Setup::new();
    let broker = setup.start("optional").with_admin().run();
    let mut bystander = Bystander::at(&broker, &setup);
    let mut random = Random::seeded();
    let hello = client_hello(&setup);
    for round in 0..100 {
        let mut bytes = match round % 3 {
            // A message with wrong bytes in it, cut at some length.
            0 | 1 => {
                hello[..usize::try_from(1 + random.below(hello.len() as u64)).unwrap()].to_vec()
            }
            _ => (0..=random.below(20_000)).map(|_| random.next().to_le_bytes()[0]).collect(),
        };
        for _ in 0..round % 3 {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= random.next().to_le_bytes()[0];
        }
        bytes[0] = 0x16;
        let mut socket = socket(&broker);
        // It may be closed before it has sent all.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        closed(&mut socket);
        bystander.is_served();
    }
    let failed = ["protocol", "disconnected"].map(|reason| {
        metric(&broker, &format!("hermitmq_tls_handshake_failures_total{{reason=\"{reason}\"}}"))
    });
    assert!(failed.iter().sum::<f64>() >= 99.0, "{failed:?}");
}

#[test]
fn noise_behind_the_handshake_takes_nothing_that_was_acked() {
    let setup = Setup::new();
    let broker = setup.start("required").with_admin().run();
    let mut bystander = Bystander::at(&broker, &setup);
    let mut random = Random::seeded();
    let mut acked = 0;
    for round in 0..30 {
        let mut stream = connection(broker.addr(), config(&setup.ca, None, rustls::ALL_VERSIONS));
        let hello = handshake(PRODUCE, &["t"], 0);
        stream.write_all(&[hello, frame(0, b"", b"x")].concat()).unwrap();
        let mut ack = [0; 9];
        stream.read_exact(&mut ack).unwrap();
        assert_eq!(ack[0], 0);
        acked += 1;
        let noise: Vec<u8> = match round % 3 {
            // The start of a record, and the end.
            0 => vec![0x17, 3, 3, 0, 200, 1, 2, 3],
            1 => (0..500).map(|_| random.next().to_le_bytes()[0]).collect(),
            _ => [&[0x17, 3, 3, 0, 100][..], &[7; 100]].concat(),
        };
        let _ = stream.sock.write_all(&noise);
        let _ = stream.sock.shutdown(Shutdown::Write);
        closed(&mut stream.sock);
        bystander.is_served();
    }
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let got = drain(tunnel.addr(), "g", "t", 0);
    assert_eq!(got.len(), acked);
    assert!(metric(&broker, "hermitmq_connections_closed_total{reason=\"tls\"}") >= 10.0);
}

#[test]
fn records_of_one_byte_each_are_taken() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let mut stream = connection(broker.addr(), config(&setup.ca, None, rustls::ALL_VERSIONS));
    for byte in [handshake(PRODUCE, &["t"], 0), frame(0, b"", &[7; 3000])].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    let mut ack = [9; 9];
    stream.read_exact(&mut ack).unwrap();
    assert_eq!(ack, [0; 9]);
}

#[test]
fn nonsense_behind_a_refusal_harms_nobody() {
    let setup = Setup::new();
    let broker = setup.start("required").env("HERMITMQ_SERVER__REACTORS", 1).run();
    let mut bystander = Bystander::at(&broker, &setup);
    for noise in [&[0x17, 3, 3, 0, 100][..], &[9; 200], &[0x16; 300]] {
        let mut stream = connection(broker.addr(), config(&setup.ca, None, rustls::ALL_VERSIONS));
        // Refused in words, and then the broker waits for the other end.
        stream.write_all(&v1_1::producer("__consumer_offsets", Durability::Topic)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer[0], Status::ReservedTopic.code());
        let _ = stream.sock.write_all(noise);
        let _ = stream.sock.shutdown(Shutdown::Write);
        closed(&mut stream.sock);
        bystander.is_served();
    }
}
