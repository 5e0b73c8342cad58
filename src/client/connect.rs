//! Opening a connection: TCP, the handshake, and the reply where the protocol has one.

use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::{Instrument as _, Span};

use super::stream::Stream;
#[cfg(feature = "tls")]
use super::tls::{TlsOptions, TlsProblem, Unsecured, problem_of};

use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::protocol::v1_1::{
    Answer, AnswerTo, Client, Durability, Handshake, HandshakeTooLong, Parsed, Role, Start, Token,
};
use crate::protocol::{Request, Status};

/// Which version of the protocol a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// For brokers that know no other: no reason for a refusal, no start positions, a connection for each commit.
    V1_0,
    /// What a HermitMQ broker speaks.
    #[default]
    V1_1,
}

/// How a client connects, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Version of the protocol.
    pub protocol: Protocol,
    /// Time for each attempt: TCP, handshake and reply.
    pub timeout: Duration,
    /// Who connects, for brokers that ask (1.1).
    pub token: Option<Token>,
    /// What the client says about itself (1.1): its name shows in the broker's listings and logs.
    pub client: Client,
    /// With TLS, and whom to trust; `None` for none.
    #[cfg(feature = "tls")]
    pub tls: Option<TlsOptions>,
}

impl Default for ConnectOptions {
    /// Protocol 1.1, 5 s, no token, this SDK as the software, no TLS.
    fn default() -> Self {
        let software = Some(format!("hermitmq-rust/{}", env!("CARGO_PKG_VERSION")));
        Self {
            protocol: Protocol::default(),
            timeout: Duration::from_secs(5),
            token: None,
            client: Client { software, ..Client::default() },
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// Why there is no connection. Nothing was sent; check the address, or try again when the broker is up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address does not resolve, nobody listens there, or the connection broke during the handshake.
    #[error("cannot connect to {addr}: {source}")]
    Io {
        /// Address that was tried.
        addr: String,
        /// What the system says.
        source: io::Error,
    },
    /// No connection within the time allowed: the host is unreachable, or overloaded.
    #[error("cannot connect to {addr}: no answer within {} ms", after.as_millis())]
    Timeout {
        /// Address that was tried.
        addr: String,
        /// How long.
        after: Duration,
    },
    /// The broker refused the handshake, and said why (1.1).
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The handshake was not answered: the broker speaks protocol 1.0 alone or wants TLS, or the address is that of something
    /// else.
    #[error(
        "{addr} closed the connection without a reply: is it a broker, does it speak protocol 1.1, and does it ask for TLS?"
    )]
    NoReply {
        /// Address that was tried.
        addr: String,
    },
    /// There is no TLS connection.
    #[cfg(feature = "tls")]
    #[error("cannot connect to {addr} with TLS: {problem}")]
    Tls {
        /// Address that was tried.
        addr: String,
        /// Why.
        problem: TlsProblem,
    },
    /// The options ask for what protocol 1.0 cannot say.
    #[error("protocol 1.0 has no {0}")]
    NotIn1_0(&'static str),
    /// The client's name and software are too long for a handshake.
    #[error(transparent)]
    TooLong(#[from] HandshakeTooLong),
    /// The blocking client could not start its runtime (out of threads or file descriptors).
    #[error("cannot start the client's runtime: {0}")]
    Runtime(io::Error),
}

/// What a broker answers that does not do what was asked (1.1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the broker says {}: {message}", name_of(*code))]
pub struct Refused {
    /// Status code; see [`Refused::status`].
    pub code: u8,
    /// A detail that depends on the status: the nearest valid offset for `offset_out_of_range`, the number of partitions
    /// for `unknown_partition`, the limit for `too_large`.
    pub value: u64,
    /// For people.
    pub message: String,
}

impl Refused {
    pub(super) fn from_answer(answer: Answer) -> Self {
        Self { code: answer.code, value: answer.value, message: answer.message }
    }

    /// The status, if this version knows it.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.code)
    }

    /// Whether the same can succeed later.
    pub fn is_transient(&self) -> bool {
        Status::is_transient_code(self.code)
    }
}

fn name_of(code: u8) -> String {
    Status::from_code(code)
        .map_or_else(|| format!("0x{code:02x}"), |status| status.name().to_owned())
}

/// A partition at a broker.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) addr: String,
    pub(super) topic: TopicName,
    pub(super) partition: PartitionId,
}

/// What a connection begins with.
#[derive(Debug, Clone)]
pub(super) enum Hello {
    V1_0(Request),
    V1_1(Box<Handshake>),
}

/// What a consumer asks for.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) group: Option<GroupName>,
    pub(super) start: Start,
    pub(super) heartbeat_ms: Option<NonZeroU32>,
    pub(super) until_end: bool,
}

impl Hello {
    fn of_1_1(place: &Place, role: Role, options: &ConnectOptions) -> Self {
        Self::V1_1(Box::new(Handshake {
            role,
            topic: place.topic.clone(),
            partition: place.partition,
            token: options.token.clone(),
            client: options.client.clone(),
        }))
    }

    pub(super) fn produce(
        place: &Place,
        durability: Durability,
        options: &ConnectOptions,
    ) -> Result<Self, ConnectError> {
        match (options.protocol, durability) {
            (Protocol::V1_1, _) => Ok(Self::of_1_1(place, Role::Produce { durability }, options)),
            (Protocol::V1_0, Durability::Topic) => {
                let (topic, partition) = (place.topic.clone(), place.partition);
                Ok(Self::V1_0(Request::Produce { topic, partition }))
            }
            (Protocol::V1_0, Durability::Flushed) => {
                Err(ConnectError::NotIn1_0("way to wait for a flush"))
            }
        }
    }

    pub(super) fn consume(
        place: &Place,
        wish: Wish,
        options: &ConnectOptions,
    ) -> Result<Self, ConnectError> {
        if options.protocol == Protocol::V1_1 {
            let Wish { group, start, heartbeat_ms, until_end } = wish;
            let role = Role::Consume { group, start, heartbeat_ms, until_end };
            return Ok(Self::of_1_1(place, role, options));
        }
        let Some(group) = wish.group else {
            return Err(ConnectError::NotIn1_0("consumer without a group"));
        };
        let wants = [
            (wish.start != Start::default_of(Some(&group)), "start position"),
            (wish.until_end, "end"),
        ];
        if let Some((_, what)) = wants.iter().find(|(wanted, _)| *wanted) {
            return Err(ConnectError::NotIn1_0(what));
        }
        let (topic, partition) = (place.topic.clone(), place.partition);
        Ok(Self::V1_0(Request::Consume { group, topic, partition }))
    }

    /// The span of an attempt to connect.
    fn span(&self, addr: &str) -> Span {
        let (role, topic, partition) = match self {
            Self::V1_0(request) => {
                let role = match request {
                    Request::Produce { .. } => "produce",
                    Request::Consume { .. } => "consume",
                    Request::Commit { .. } => "commit",
                };
                (role, request.topic(), request.partition())
            }
            Self::V1_1(handshake) => {
                let role = match handshake.role {
                    Role::Produce { .. } => "produce",
                    Role::Consume { .. } => "consume",
                    Role::Commit { .. } => "commit",
                };
                (role, &handshake.topic, handshake.partition)
            }
        };
        tracing::debug_span!("connect", addr, role, %topic, partition)
    }

    /// For a connection of role commit, which 1.0 does not have.
    pub(super) fn commit(place: &Place, group: GroupName, options: &ConnectOptions) -> Self {
        Self::of_1_1(place, Role::Commit { group }, options)
    }
}

/// Connects, sends the handshake in one write, and reads the reply, whose value is returned. 1.0 has none: a refusal
/// shows as a close later on.
pub(super) async fn open(
    addr: &str,
    hello: &Hello,
    options: &ConnectOptions,
) -> Result<(Stream, u64), ConnectError> {
    let mut bytes = Vec::new();
    match hello {
        Hello::V1_0(request) => request.write(&mut bytes),
        Hello::V1_1(handshake) => handshake.write(&mut bytes)?,
    }
    let connecting = async {
        let mut stream = dial(addr, options).await?;
        let sent = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        sent.await.map_err(|source| broken(addr, source))?;
        match hello {
            Hello::V1_0(_) => Ok((stream, 0)),
            Hello::V1_1(_) => {
                let value = read_reply(&mut stream, addr).await?;
                Ok((stream, value))
            }
        }
    };
    let connecting = connecting.instrument(hello.span(addr));
    match tokio::time::timeout(options.timeout, connecting).await {
        Ok(opened) => opened,
        Err(_) => Err(ConnectError::Timeout { addr: addr.to_owned(), after: options.timeout }),
    }
}

/// Connects, with TLS if the options say so.
async fn dial(addr: &str, options: &ConnectOptions) -> Result<Stream, ConnectError> {
    let io_error = |source| ConnectError::Io { addr: addr.to_owned(), source };
    #[cfg(feature = "tls")]
    if let Some(tls) = &options.tls {
        return Stream::secured(addr, tls).await.map_err(|error| match error {
            Unsecured::Problem(problem) => ConnectError::Tls { addr: addr.to_owned(), problem },
            Unsecured::Io(source) => io_error(source),
        });
    }
    #[cfg(not(feature = "tls"))]
    let _ = options;
    Stream::plain(addr).await.map_err(io_error)
}

/// The connection broke during the handshake.
pub(super) fn broken(addr: &str, source: io::Error) -> ConnectError {
    let addr = addr.to_owned();
    #[cfg(feature = "tls")]
    if let Some(problem) = problem_of(&source) {
        return ConnectError::Tls { addr, problem };
    }
    ConnectError::Io { addr, source }
}

async fn read_reply(stream: &mut Stream, addr: &str) -> Result<Offset, ConnectError> {
    let mut bytes = Vec::new();
    match read_answer(stream, AnswerTo::Handshake, &mut bytes).await {
        Ok(answer) if answer.is_ok() => Ok(answer.value),
        Ok(answer) => Err(Refused::from_answer(answer).into()),
        Err(error) if is_close(&error) && bytes.is_empty() => {
            Err(ConnectError::NoReply { addr: addr.to_owned() })
        }
        Err(source) => Err(broken(addr, source)),
    }
}

/// Whether a peer has closed: with an end, or with a reset because it did not read what was sent.
fn is_close(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// Reads one answer and no byte more. What had come before an error is in `bytes`.
pub(super) async fn read_answer(
    stream: &mut Stream,
    to: AnswerTo,
    bytes: &mut Vec<u8>,
) -> io::Result<Answer> {
    loop {
        match Answer::parse(to, bytes) {
            Parsed::Complete(answer, _) => return Ok(answer),
            Parsed::Incomplete { needed } => {
                let have = bytes.len() as u64;
                let missing = (needed as u64).saturating_sub(have);
                if (&mut *stream).take(missing).read_buf(bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}
