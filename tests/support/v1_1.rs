//! Protocol 1.1 over a socket: handshakes, answers, and what a consumer gets.

use std::net::SocketAddr;

use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::v1_1::{
    Answer, AnswerTo, ControlFrame, Durability, Handshake, Incoming, Parsed, Role, Start, Token,
};
use hermitmq::record::{FrameLimits, HEADER_LEN, Header};

use super::{Frame, RawClient};

pub fn handshake(topic: &str, role: Role) -> Vec<u8> {
    handshake_with(topic, role, None)
}

/// As [`handshake`], of somebody with a token.
pub fn handshake_with(topic: &str, role: Role, token: Option<&str>) -> Vec<u8> {
    let mut handshake = Handshake::new(TopicName::parse(topic).unwrap(), 0, role);
    handshake.token = token.map(|token| Token::new(token).unwrap());
    let mut bytes = Vec::new();
    handshake.write(&mut bytes).unwrap();
    bytes
}

pub fn producer(topic: &str, durability: Durability) -> Vec<u8> {
    handshake(topic, Role::Produce { durability })
}

pub fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

/// A consumer that stays.
pub fn follower(topic: &str, group: Option<GroupName>, start: Start) -> Vec<u8> {
    handshake(topic, Role::Consume { group, start, heartbeat_ms: None, until_end: false })
}

/// A consumer that ends at the log end.
pub fn reader(topic: &str, group: Option<GroupName>, start: Start) -> Vec<u8> {
    handshake(topic, Role::Consume { group, start, heartbeat_ms: None, until_end: true })
}

pub fn committer(topic: &str, name: &str) -> Vec<u8> {
    handshake(topic, Role::Commit { group: group(name) })
}

pub fn connect(addr: SocketAddr, handshake: &[u8]) -> RawClient {
    let mut client = RawClient::connect(addr);
    client.send(handshake);
    client
}

/// Reads one answer off the connection.
pub fn answer(client: &mut RawClient, to: AnswerTo) -> Answer {
    let mut bytes = Vec::new();
    loop {
        match Answer::parse(to, &bytes) {
            Parsed::Complete(answer, _) => return answer,
            Parsed::Incomplete { needed } => bytes.extend(client.read(needed - bytes.len())),
        }
    }
}

pub fn ok(client: &mut RawClient, to: AnswerTo) -> u64 {
    let answer = answer(client, to);
    assert!(answer.is_ok(), "{answer:?}");
    answer.value
}

/// Connects and takes the reply, which must be `ok`.
pub fn open(addr: SocketAddr, handshake: &[u8]) -> (RawClient, u64) {
    let mut client = connect(addr, handshake);
    let value = ok(&mut client, AnswerTo::Handshake);
    (client, value)
}

/// Connects, is refused, and sees the end behind the answer.
pub fn refused(addr: SocketAddr, handshake: &[u8]) -> Answer {
    let mut client = connect(addr, handshake);
    let answer = answer(&mut client, AnswerTo::Handshake);
    assert!(!answer.message.is_empty(), "{answer:?}");
    assert_eq!(client.read_to_end(), b"", "{answer:?}");
    answer
}

/// What a consumer gets next.
#[derive(Debug)]
pub enum Got {
    Frame(Frame),
    Control(ControlFrame),
}

pub fn next(client: &mut RawClient) -> Got {
    let mut bytes = client.read(HEADER_LEN);
    let len = usize::try_from(Header::read(&bytes).unwrap().frame_len()).unwrap();
    bytes.extend(client.read(len - HEADER_LEN));
    match Incoming::parse(&bytes, &FrameLimits::STORED).unwrap() {
        Incoming::Frame(header) => Got::Frame(Frame { header, bytes }),
        Incoming::Control(control, _) => Got::Control(control),
        Incoming::Incomplete { .. } => panic!("a whole frame was read"),
    }
}

pub fn control(client: &mut RawClient) -> ControlFrame {
    match next(client) {
        Got::Control(control) => control,
        Got::Frame(frame) => panic!("not a control frame: {:?}", frame.header),
    }
}
