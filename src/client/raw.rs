//! The protocol by hand, over blocking sockets: for load generators and tools that count every byte themselves.
//!
//! Nothing here retries, batches or runs in the background; [`Producer`](super::Producer) and
//! [`Consumer`](super::Consumer) are for programs. A connection is a plain [`TcpStream`] behind its handshake: a producer
//! writes frames to it ([`frames`]) and reads acks ([`Acks`]), a consumer reads frames ([`Header`]). It is protocol 1.0 unless a
//! token is shown, of which 1.0 knows nothing; frames and the acks of those that are stored are the same in both.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::connect::{ConnectError, Refused};
use crate::model::{GroupName, PartitionId, TopicName};
use crate::protocol::v1_1::{
    Answer, AnswerTo, Client, Durability, Handshake, Parsed, Role, Start, Token,
};
use crate::protocol::{Ack, Request, Status};
use crate::record::FrameBuilder;

pub use crate::protocol::ACK_LEN;
pub use crate::record::{FrameTooLarge, HEADER_LEN, Header};

/// Time for the answer to a handshake.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects a producer to a partition.
pub fn produce(
    addr: &str,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<TcpStream, ConnectError> {
    open(addr, &Request::Produce { topic: topic.clone(), partition })
}

/// Connects a consumer to a partition: the frames from where the group stands follow without being asked for.
pub fn consume(
    addr: &str,
    group: &GroupName,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<TcpStream, ConnectError> {
    open(addr, &Request::Consume { group: group.clone(), topic: topic.clone(), partition })
}

/// As [`consume`], with TLS: the socket, and the session on it behind its handshake. What comes is to be decrypted by it.
#[cfg(feature = "tls")]
pub fn consume_tls(
    addr: &str,
    tls: &super::TlsOptions,
    group: &GroupName,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<(TcpStream, rustls::ClientConnection), ConnectError> {
    let mut session = tls
        .session(addr)
        .map_err(|problem| ConnectError::Tls { addr: addr.to_owned(), problem })?;
    let request = Request::Consume { group: group.clone(), topic: topic.clone(), partition };
    let mut connect = || {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        let mut handshake = Vec::new();
        request.write(&mut handshake);
        session.writer().write_all(&handshake)?;
        while session.wants_write() {
            session.write_tls(&mut stream)?;
        }
        Ok(stream)
    };
    let stream = connect().map_err(|source| super::connect::broken(addr, source))?;
    Ok((stream, session))
}

/// As [`produce`], for a broker that asks for a token.
pub fn produce_as(
    addr: &str,
    token: &Token,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<TcpStream, ConnectError> {
    open_as(addr, token, Role::Produce { durability: Durability::Topic }, topic, partition)
}

/// Connects a consumer without a group, for a broker that asks for a token: the frames from `start` on follow without being
/// asked for.
pub fn consume_as(
    addr: &str,
    token: &Token,
    start: Start,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<TcpStream, ConnectError> {
    let role = Role::Consume { group: None, start, heartbeat_ms: None, until_end: false };
    open_as(addr, token, role, topic, partition)
}

fn open_as(
    addr: &str,
    token: &Token,
    role: Role,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<TcpStream, ConnectError> {
    let (topic, token) = (topic.clone(), Some(token.clone()));
    let handshake = Handshake { role, topic, partition, token, client: Client::default() };
    let mut bytes = Vec::new();
    handshake.write(&mut bytes)?;
    let exchange = || {
        let mut stream = connect(addr, &bytes)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let answer = read_reply(&mut stream)?;
        stream.set_read_timeout(None)?;
        Ok((stream, answer))
    };
    let io_error = |source: io::Error| ConnectError::Io { addr: addr.to_owned(), source };
    match exchange().map_err(io_error)? {
        (stream, answer) if answer.is_ok() => Ok(stream),
        (_, answer) => Err(Refused::from_answer(answer).into()),
    }
}

/// Reads the answer to a handshake and no byte more.
fn read_reply(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    loop {
        match Answer::parse(AnswerTo::Handshake, &bytes) {
            Parsed::Complete(answer, _) => return Ok(answer),
            Parsed::Incomplete { needed } => {
                let have = bytes.len();
                bytes.resize(needed, 0);
                stream.read_exact(&mut bytes[have..])?;
            }
        }
    }
}

fn connect(addr: &str, handshake: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.write_all(handshake)?;
    Ok(stream)
}

fn open(addr: &str, request: &Request) -> Result<TcpStream, ConnectError> {
    let mut handshake = Vec::new();
    request.write(&mut handshake);
    connect(addr, &handshake).map_err(|source| ConnectError::Io { addr: addr.to_owned(), source })
}

/// `count` frames back to back, all alike: no key, `payload`, `records` records each, `timestamp` in nanoseconds.
pub fn frames(
    payload: &[u8],
    records: u32,
    timestamp: u64,
    count: usize,
) -> Result<Vec<u8>, FrameTooLarge> {
    let mut out = Vec::with_capacity(count * (HEADER_LEN + payload.len()));
    for _ in 0..count {
        FrameBuilder::new(timestamp).record_count(records).write(payload, &mut out)?;
    }
    Ok(out)
}

/// Counts the acks in a stream of bytes that arrives in pieces.
///
/// ```
/// use hermitmq::client::raw::{ACK_LEN, Acks};
///
/// let mut acks = Acks::default();
/// acks.add(&[0; ACK_LEN + 1]);
/// assert_eq!((acks.stored, acks.refused, acks.last), (1, 0, Some(0)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Acks {
    /// Frames that are stored.
    pub stored: u64,
    /// Frames that are not.
    pub refused: u64,
    /// Offset in the newest whole ack.
    pub last: Option<u64>,
    /// The beginning of an ack.
    partial: Vec<u8>,
}

impl Acks {
    /// Takes the next bytes of the stream.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let take = bytes.len().min(ACK_LEN - self.partial.len());
            self.partial.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.partial.len() < ACK_LEN {
                return;
            }
            let whole = std::mem::take(&mut self.partial);
            self.count(&whole);
        }
        let whole = bytes.len() - bytes.len() % ACK_LEN;
        self.count(&bytes[..whole]);
        self.partial.extend_from_slice(&bytes[whole..]);
    }

    /// Whole acks so far, of whatever status.
    pub fn total(&self) -> u64 {
        self.stored + self.refused
    }

    fn count(&mut self, whole: &[u8]) {
        for ack in whole.chunks_exact(ACK_LEN).filter_map(Ack::read) {
            if ack.status() == Some(Status::Ok) {
                self.stored += 1;
            } else {
                self.refused += 1;
            }
            self.last = Some(ack.offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_in_pieces() {
        let bytes = [Ack::stored(5), Ack::NOT_STORED, Ack::stored(6)].map(Ack::to_bytes).concat();
        for piece in 1..=bytes.len() {
            let mut acks = Acks::default();
            bytes.chunks(piece).for_each(|piece| acks.add(piece));
            assert_eq!((acks.stored, acks.refused, acks.last), (2, 1, Some(6)), "{piece}");
            assert_eq!(acks.total(), 3);
        }
    }

    #[test]
    fn frames_are_alike() {
        let bytes = frames(b"a\nb\n", 2, 7, 3).unwrap();
        assert_eq!(bytes.len(), 3 * (HEADER_LEN + 4));
        let header = Header::read(&bytes[2 * (HEADER_LEN + 4)..]).unwrap();
        assert_eq!((header.record_count, header.payload_size, header.timestamp), (2, 4, 7));
    }
}
