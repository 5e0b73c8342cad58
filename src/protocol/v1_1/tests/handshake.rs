use super::*;
use crate::model::limits::HANDSHAKE_FIELDS_BYTES_MAX;

const TOPIC: (u8, &[u8]) = (0x01, b"orders");
const GROUP: (u8, &[u8]) = (0x03, b"billing");
const TRACE: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn topic() -> TopicName {
    TopicName::parse("orders").unwrap()
}

fn group() -> GroupName {
    GroupName::parse("billing").unwrap()
}

fn start_of(fields: Fields<'_>) -> Start {
    match read(0x12, fields).role {
        Role::Consume { start, .. } => start,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_field_is_read_and_written() {
    let fields: Fields<'_> = &[
        TOPIC,
        (0x02, &[0, 0, 0, 3]),
        GROUP,
        (0x04, &[3, 0, 0, 0, 0, 0, 0, 1, 2]),
        (0x05, b"secret"),
        (0x07, &[0, 0, 0x75, 0x30]),
        (0x08, &[1]),
        (0x81, b"invoices-0"),
        (0x82, b"invoices/2.1"),
        (0x83, TRACE),
    ];
    let expected = Handshake {
        role: Role::Consume {
            group: Some(group()),
            start: Start::Offset(258),
            heartbeat_ms: NonZeroU32::new(30_000),
            until_end: true,
        },
        topic: topic(),
        partition: 3,
        token: Some(Token::new("secret").unwrap()),
        client: Client {
            name: Some("invoices-0".to_owned()),
            software: Some("invoices/2.1".to_owned()),
            traceparent: TraceParent::parse(TRACE),
        },
    };
    assert!(expected.client.traceparent.is_some());
    assert_eq!(read(0x12, fields), expected);
    let mut bytes = Vec::new();
    expected.write(&mut bytes).unwrap();
    assert_eq!(bytes, bytes_of(0x12, fields));

    let flushed = read(0x11, &[TOPIC, (0x06, &[2])]);
    assert_eq!(flushed.role, Role::Produce { durability: Durability::Flushed });
    let committing = read(0x13, &[TOPIC, GROUP]);
    assert_eq!(committing.role, Role::Commit { group: group() });
    assert_eq!(committing.role.group(), Some(&group()));
}

#[test]
fn what_is_left_out_has_its_default() {
    let produce = Role::Produce { durability: Durability::Topic };
    assert_eq!(read(0x11, &[TOPIC]), Handshake::new(topic(), 0, produce.clone()));
    let start = Start::Earliest;
    let consume = Role::Consume { group: None, start, heartbeat_ms: None, until_end: false };
    assert_eq!(read(0x12, &[TOPIC]), Handshake::new(topic(), 0, consume));
    assert_eq!(start_of(&[TOPIC, GROUP]), Start::Committed(Fallback::Earliest));
    // Said explicitly it is the same.
    let said: Fields<'_> = &[TOPIC, (0x02, &[0; 4]), (0x06, &[0]), (0x07, &[0; 4])];
    assert_eq!(read(0x11, said), Handshake::new(topic(), 0, produce));
}

#[test]
fn every_start_is_read() {
    let nine = |kind: u8, value: u8| [kind, 0, 0, 0, 0, 0, 0, 0, value];
    let start = |value: [u8; 9]| start_of(&[TOPIC, (0x04, &value)]);
    assert_eq!(start(nine(0, 0)), Start::Committed(Fallback::Earliest));
    assert_eq!(start(nine(0, 1)), Start::Committed(Fallback::Latest));
    assert_eq!(start(nine(1, 9)), Start::Earliest);
    assert_eq!(start(nine(2, 9)), Start::Latest);
    assert_eq!(start(nine(3, 9)), Start::Offset(9));
    assert_eq!(start(nine(4, 9)), Start::Timestamp(9));
}

#[test]
fn fields_come_in_any_order_and_those_of_other_roles_are_ignored() {
    let expected = read(0x13, &[TOPIC, GROUP]);
    assert_eq!(read(0x13, &[GROUP, TOPIC]), expected);
    let others: Fields<'_> =
        &[(0x08, &[1]), (0x04, &[1; 9]), TOPIC, (0x06, &[2]), GROUP, (0x07, &[1; 4])];
    assert_eq!(read(0x13, others), expected);
    assert_eq!(read(0x11, &[TOPIC, GROUP]), read(0x11, &[TOPIC]));
    // But not if they are not well-formed.
    assert_eq!(refused(0x11, &[TOPIC, (0x07, &[1; 3])]).status(), Status::Malformed);
}

#[test]
fn fields_of_a_later_version_are_skipped_above_0x7f_alone() {
    let expected = read(0x11, &[TOPIC]);
    for tag in 0x84..=0xff {
        assert_eq!(read(0x11, &[(tag, b"?"), TOPIC]), expected, "{tag:#x}");
    }
    for tag in (0x09..0x80).chain([0]) {
        let error = refused(0x11, &[TOPIC, (tag, b"?")]);
        assert_eq!(
            (error.status(), &error),
            (Status::Unsupported, &HandshakeError::Unsupported(Tag(tag)))
        );
    }
}

#[test]
fn a_trace_that_is_not_valid_is_ignored() {
    assert_eq!(read(0x11, &[TOPIC, (0x83, b"00-nonsense")]), read(0x11, &[TOPIC]));
    assert_eq!(TraceParent::parse(TRACE).unwrap().to_string().as_bytes(), TRACE);
    let text = std::str::from_utf8(TRACE).unwrap();
    let later = text.replacen("00", "cc", 1);
    assert_eq!(TraceParent::parse(later.as_bytes()), TraceParent::parse(TRACE));
    let more = format!("{later}-what-comes-later");
    assert_eq!(TraceParent::parse(more.as_bytes()), TraceParent::parse(TRACE));
    let bad = [
        String::new(),
        text[..54].to_owned(),
        format!("{text}-"),
        format!("{later}x"),
        text.replacen("00", "ff", 1),
        text.to_uppercase(),
        text.replace('-', "_"),
        text.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        text.replace("00f067aa0ba902b7", &"0".repeat(16)),
        text.replace("-01", "-0x"),
    ];
    for bad in bad {
        assert_eq!(TraceParent::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_token_is_bounded_and_never_shown() {
    let token = Token::new("hunter2").unwrap();
    assert_eq!(token.as_bytes(), b"hunter2");
    assert_eq!(format!("{token:?}"), "Token(7 bytes)");
    assert!(Token::new([0; 4096]).is_ok());
    assert_eq!(Token::new([0; 4097]), Err(TokenTooLong { len: 4097 }));
}

#[test]
fn a_handshake_that_would_be_too_long_is_not_written() {
    let mut handshake = read(0x11, &[TOPIC]);
    let rest = usize::from(HANDSHAKE_FIELDS_BYTES_MAX) - 9 - 3;
    handshake.client.name = Some("x".repeat(rest));
    let mut bytes = b"before".to_vec();
    handshake.write(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 6 + HANDSHAKE_LEN_MAX);
    assert_eq!(
        Handshake::parse(&bytes[6..]),
        Ok(Parsed::Complete(handshake.clone(), HANDSHAKE_LEN_MAX))
    );
    for len in [rest + 1, 70_000] {
        handshake.client.name = Some("x".repeat(len));
        let mut bytes = b"before".to_vec();
        assert_eq!(handshake.write(&mut bytes), Err(HandshakeTooLong { len: len + 12 }));
        assert_eq!(bytes, b"before");
    }
}

proptest! {
    /// What is written is read, wherever the stream is cut; an incomplete one says how far it is to the next step.
    #[test]
    fn round_trip(handshake in handshakes()) {
        let mut bytes = Vec::new();
        handshake.write(&mut bytes).unwrap();
        let len = bytes.len();
        prop_assert!(len <= HANDSHAKE_LEN_MAX);
        for cut in 0..len {
            let needed = if cut < 3 { 3 } else { len };
            prop_assert_eq!(Handshake::parse(&bytes[..cut]), Ok(Parsed::Incomplete { needed }));
        }
        bytes.extend_from_slice(b"frames follow");
        prop_assert_eq!(Handshake::parse(&bytes), Ok(Parsed::Complete(handshake, len)));
    }

    /// Nothing makes it panic, or ask for more than a handshake may have.
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), len in 0u8..4) {
        if let Some(first) = bytes.first_mut() { *first = 0x10 | (*first % 4); }
        if let Some(high) = bytes.get_mut(1) { *high = len; }
        check_bounds(&bytes)?;
    }

    /// The same with what is nearly a handshake: fields of any tag and value, and then a byte that is not as it was.
    #[test]
    fn nearly_handshakes_never_panic(
        role in 0x11u8..0x14,
        fields in prop::collection::vec((prop_oneof![0u8..10, any::<u8>()], prop::collection::vec(any::<u8>(), 0..12)), 0..8),
        handshake in handshakes(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let fields: Vec<_> = fields.iter().map(|(tag, value)| (*tag, &value[..])).collect();
        check_bounds(&bytes_of(role, &fields))?;
        let mut bytes = Vec::new();
        handshake.write(&mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check_bounds(&bytes)?;
    }
}

fn check_bounds(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Handshake::parse(bytes) {
        Ok(Parsed::Complete(handshake, used)) => {
            prop_assert!(used <= bytes.len() && used <= HANDSHAKE_LEN_MAX);
            // What it keeps is no more than what came.
            let Client { name, software, .. } = &handshake.client;
            let kept = name.as_ref().map_or(0, String::capacity)
                + software.as_ref().map_or(0, String::capacity)
                + handshake.token.as_ref().map_or(0, |token| token.as_bytes().len())
                + handshake.role.group().map_or(0, |group| group.as_str().len())
                + handshake.topic.as_str().len();
            prop_assert!(kept < used);
            // And it is written again as something that reads the same.
            let mut again = Vec::new();
            handshake.write(&mut again).unwrap();
            let len = again.len();
            prop_assert_eq!(Handshake::parse(&again), Ok(Parsed::Complete(handshake, len)));
        }
        Ok(Parsed::Incomplete { needed }) => {
            prop_assert!(bytes.len() < needed && needed <= HANDSHAKE_LEN_MAX);
        }
        Err(error) => prop_assert!(error.to_string().len() < 200 && error.status() != Status::Ok),
    }
    Ok(())
}
