use super::*;
use crate::model::InvalidName;

const TOPIC: (u8, &[u8]) = (0x01, b"orders");

#[test]
fn role_and_length_are_refused_early() {
    for role in [0x00, 0x01, 0x10, 0x14, 0x16, 0xff] {
        assert_eq!(Handshake::parse(&[role]), Err(HandshakeError::UnknownRole(role)));
    }
    let error = Handshake::parse(&[0x11, 0x20, 0x01]).unwrap_err();
    assert_eq!(error, HandshakeError::TooLong { len: 8193 });
    assert_eq!(error.status(), Status::Malformed);
    assert_eq!(error.to_string(), "the handshake has 8193 bytes of fields, the limit is 8192");
    assert_eq!(Handshake::parse(&[0x11, 0x20, 0x00]), Ok(Parsed::Incomplete { needed: 8195 }));
    assert_eq!(HANDSHAKE_LEN_MAX, 8195);
}

#[test]
fn lengths_that_run_over_are_malformed() {
    let parse = |bytes: &[u8]| Handshake::parse(bytes).unwrap_err();
    let error = parse(b"\x11\x00\x09\x01\x00\x07orders");
    assert_eq!(error, HandshakeError::RunsOver { tag: Tag::TOPIC, len: 7, left: 6 });
    assert_eq!(
        error.to_string(),
        "topic (0x01) has a length of 7 bytes, but the handshake ends after 6"
    );
    // One too long for what the handshake says, although the bytes are there.
    assert_eq!(
        parse(b"\x11\x00\x08\x01\x00\x06orders"),
        HandshakeError::RunsOver { tag: Tag::TOPIC, len: 6, left: 5 }
    );
    assert_eq!(parse(b"\x11\x00\x0a\x01\x00\x06orders\x02"), HandshakeError::CutOff { left: 1 });
    assert_eq!(
        parse(b"\x11\x00\x0b\x01\x00\x06orders\x02\x00"),
        HandshakeError::CutOff { left: 2 }
    );
    assert_eq!(parse(b"\x11\x00\x01\x85").status(), Status::Malformed);
}

#[test]
fn each_fault_has_its_status_and_names_the_field() {
    use HandshakeError as E;
    use Status::{InvalidName as BadName, Malformed, Unsupported};
    let start = |kind, value| [kind, 0, 0, 0, 0, 0, 0, 0, value];
    let long_token = [0; 4097];
    let long_name = [b'x'; 250];
    #[rustfmt::skip]
    let faults: &[(u8, Fields<'_>, Status, &str)] = &[
        (0x11, &[], Malformed, "topic (0x01) is missing; it is required to produce"),
        (0x12, &[(0x03, b"g")], Malformed, "topic (0x01) is missing; it is required to consume"),
        (0x13, &[TOPIC], Malformed, "group (0x03) is missing; it is required to commit"),
        (0x11, &[TOPIC, TOPIC], Malformed, "topic (0x01) stands twice"),
        (0x11, &[TOPIC, (0x85, b""), (0x85, b"")], Malformed, "tag 0x85 stands twice"),
        (0x11, &[TOPIC, (0x02, &[0; 3])], Malformed, "partition (0x02) has 3 bytes, it takes 4"),
        (0x11, &[TOPIC, (0x02, &[0; 5])], Malformed, "partition (0x02) has 5 bytes, it takes 4"),
        (0x12, &[TOPIC, (0x04, &[0; 8])], Malformed, "start (0x04) has 8 bytes, it takes 9"),
        (0x12, &[TOPIC, (0x04, b"")], Malformed, "start (0x04) has 0 bytes, it takes 9"),
        (0x12, &[TOPIC, (0x04, &[0; 10])], Malformed, "start (0x04) has 10 bytes, it takes 9"),
        (0x12, &[TOPIC, (0x04, &start(5, 0))], Malformed, "start (0x04) has the kind 5; allowed: 0 to 4"),
        (0x12, &[TOPIC, (0x04, &start(0, 2))], Malformed, "start (0x04) has kind 0 and the value 2; allowed: 0 and 1"),
        (0x11, &[TOPIC, (0x05, &long_token)], Malformed, "token (0x05) has 4097 bytes, the limit is 4096"),
        (0x11, &[TOPIC, (0x06, &[1])], Malformed, "durability (0x06) has the value 1; allowed: 0 and 2"),
        (0x11, &[TOPIC, (0x06, b"")], Malformed, "durability (0x06) has 0 bytes, it takes 1"),
        (0x12, &[TOPIC, (0x07, &[0; 8])], Malformed, "heartbeat (0x07) has 8 bytes, it takes 4"),
        (0x12, &[TOPIC, (0x08, &[0])], Malformed, "until end (0x08) has the value 0; allowed: 1"),
        (0x12, &[TOPIC, (0x08, &[1, 1])], Malformed, "until end (0x08) has 2 bytes, it takes 1"),
        (0x11, &[TOPIC, (0x81, &[0xff])], Malformed, "client name (0x81) is not UTF-8"),
        (0x11, &[TOPIC, (0x82, &[0xff])], Malformed, "client software (0x82) is not UTF-8"),
        (0x11, &[TOPIC, (0x09, b"")], Unsupported, "tag 0x09 is not supported"),
        (0x11, &[(0x01, b"a/b")], BadName, "topic (0x01) is not allowed: the name contains the byte 0x2f; allowed are A-Z a-z 0-9 . _ -"),
        (0x11, &[(0x01, b"")], BadName, "topic (0x01) is not allowed: the name is empty"),
        (0x11, &[(0x01, &long_name)], BadName, "topic (0x01) is not allowed: the name has 250 bytes, the limit is 249"),
        (0x12, &[TOPIC, (0x03, b"..")], BadName, "group (0x03) is not allowed: the names . and .. are not allowed"),
    ];
    for (role, fields, status, text) in faults {
        let error = refused(*role, fields);
        assert_eq!((error.status(), error.to_string().as_str()), (*status, *text));
    }
    assert_eq!(
        refused(0x11, &[(0x01, b".")]),
        E::InvalidName { tag: Tag::TOPIC, source: InvalidName::Dots }
    );
    assert_eq!(E::UnknownRole(0x14).status(), Unsupported);
}

#[test]
fn the_first_fault_is_told() {
    let two: Fields<'_> = &[(0x20, b""), (0x01, b"/")];
    assert_eq!(refused(0x11, two).status(), Status::Unsupported);
    let two: Fields<'_> = &[(0x01, b"/"), (0x20, b"")];
    assert_eq!(refused(0x11, two).status(), Status::InvalidName);
}
