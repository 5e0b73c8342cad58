use proptest::prelude::*;

use super::*;
use crate::model::{GroupName, TopicName};

fn commit() -> Request {
    Request::Commit {
        group: GroupName::parse("billing").unwrap(),
        topic: TopicName::parse("greetings").unwrap(),
        partition: 0,
        offset: 5,
    }
}

#[test]
fn commit_bytes_are_the_recorded_ones() {
    let mut bytes = Vec::new();
    commit().write(&mut bytes);
    assert_eq!(bytes, b"\x03\x07billing\x09greetings\0\0\0\0\0\0\0\0\0\0\0\x05");
    assert_eq!(parse(&bytes), Ok(Parsed::Complete(commit(), bytes.len())));
}

#[test]
fn every_cut_is_incomplete() {
    let mut bytes = Vec::new();
    commit().write(&mut bytes);
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len]), Ok(Parsed::Incomplete), "{len}");
    }
}

#[test]
fn what_is_wrong_is_said_early() {
    assert_eq!(parse(&[0x00]), Err(HandshakeError::UnknownRole(0)));
    assert_eq!(parse(&[0x16]), Err(HandshakeError::UnknownRole(0x16)));
    assert_eq!(parse(&[1, 0]), Err(HandshakeError::EmptyName("topic")));
    assert_eq!(parse(&[2, 0]), Err(HandshakeError::EmptyName("group")));
    assert!(matches!(
        parse(b"\x01\x0a../../evil"),
        Err(HandshakeError::InvalidName { field: "topic", .. })
    ));
}

#[test]
fn ack_bytes_are_the_recorded_ones() {
    assert_eq!(Ack::stored(7).to_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(Ack::NOT_STORED.to_bytes(), [0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Ack::read(&Ack::stored(9).to_bytes()), Some(Ack::stored(9)));
    assert_eq!(Ack::read(&[0; 8]), None);
}

#[test]
fn status_codes_are_consistent() {
    for code in 0..=255u8 {
        if let Some(status) = Status::from_code(code) {
            assert_eq!(status.code(), code);
            assert_eq!(status.is_transient(), code >= 0xf0);
        }
    }
    assert_eq!(Ack::NOT_STORED.status(), Some(Status::NotStored));
}

proptest! {
    #[test]
    fn round_trip(topic in "[A-Za-z0-9_-]{1,249}", group in "[A-Za-z0-9_-]{1,249}",
                  partition: u32, offset: u64, role in 0..3) {
        let topic = TopicName::parse(topic).unwrap();
        let group = GroupName::parse(group).unwrap();
        let request = match role {
            0 => Request::Produce { topic, partition },
            1 => Request::Consume { group, topic, partition },
            _ => Request::Commit { group, topic, partition, offset },
        };
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        prop_assert!(bytes.len() <= HANDSHAKE_LEN_MAX);
        let len = bytes.len();
        bytes.extend_from_slice(b"frames follow");
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Complete(request, len)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Some(first) = bytes.first_mut() { *first %= 5; }
        let len = bytes.len();
        match parse(&bytes) {
            Ok(Parsed::Complete(_, used)) => prop_assert!(used <= len && used <= HANDSHAKE_LEN_MAX),
            Ok(Parsed::Incomplete) => prop_assert!(len < HANDSHAKE_LEN_MAX),
            Err(_) => {}
        }
    }
}
