//! `docs/PROTOCOL.md` is true: its examples parse, a broker answers those of both versions as written, those of version 1.1
//! are written again as they were read, and its numbers are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod examples;
#[path = "../support/mod.rs"]
mod support;
mod v1_1;

use examples::{Example, Kind, Step, document, examples};
use hermitmq::model::limits;
use hermitmq::protocol::{ACK_LEN, Ack, COMMIT_ACK, Parsed, Request, Status, parse};
use hermitmq::record::{Check, FrameLimits, check};
use support::{Broker, RawClient, frames_of, hex, scratch};

/// What a broker is asked to answer.
const BROKER_SPEAKS: &[Kind] = &[Kind::Wire, Kind::Wire11];

#[test]
fn examples_are_read() {
    let text = "```wire a\n> 01 0a # x\n< closed\n```\n```sh\n> no\n```\n```wire b\n< 00\n```\n";
    let found = examples(text);
    assert_eq!(found.len(), 2);
    assert_eq!((&*found[0].label, found[0].line), ("a", 1));
    assert_eq!(found[0].steps, [Step::Send(vec![1, 10]), Step::Closed]);
    assert_eq!(found[1].steps, [Step::Receive(vec![0])]);
    let all = examples(&document());
    let count = |kind, label: &str| {
        all.iter().filter(|each| each.kind == kind && each.label.starts_with(label)).count()
    };
    for kind in [Kind::Wire, Kind::Wire11] {
        for (label, least) in [("produce", 2), ("consume", 3), ("commit", 2), ("refused", 7)] {
            assert!(count(kind, label) >= least, "{kind:?} {label}");
        }
    }
    for label in ["handshake", "answer-to-handshake", "answer-to-frame", "control"] {
        assert!(count(Kind::Message11, label) >= 1, "{label}");
    }
}

#[test]
fn examples_parse_as_what_they_are_called() {
    let limits = FrameLimits::incoming(limits::PAYLOAD_MB_DEFAULT << 20);
    for example in examples(&document()).iter().filter(|each| each.kind == Kind::Wire) {
        let Example { label, line, .. } = example;
        let place = format!("{label} in line {line}");
        let (sent, received) = (example.sent(), example.received());
        let ends_closed = example.steps.last() == Some(&Step::Closed);
        assert_eq!(example.is_refused(), ends_closed, "{place}: refused ones end with a close");
        if example.is_refused() {
            continue;
        }
        let Ok(Parsed::Complete(request, used)) = parse(&sent) else {
            panic!("{place}: no handshake: {:?}", parse(&sent))
        };
        let mut again = Vec::new();
        request.write(&mut again);
        assert_eq!(hex(&again), hex(&sent[..used]), "{place}");
        match (label.as_str(), request) {
            ("produce", Request::Produce { .. }) => {
                let mut rest = &sent[used..];
                let mut frames = 0;
                while let Ok(Check::Complete(header)) = check(rest, &limits) {
                    rest = &rest[usize::try_from(header.frame_len()).unwrap()..];
                    frames += 1;
                }
                assert_eq!(hex(rest), "", "{place}: frames and nothing else");
                assert_eq!(received.len(), frames * ACK_LEN, "{place}: an ack for each frame");
                for ack in received.chunks(ACK_LEN) {
                    assert_eq!(Ack::read(ack).unwrap().code, 0, "{place}");
                }
            }
            ("consume", Request::Consume { .. }) => {
                assert_eq!(used, sent.len(), "{place}");
                assert!(!frames_of(&received).is_empty(), "{place}");
            }
            ("commit", Request::Commit { .. }) => {
                assert_eq!((used, &received[..]), (sent.len(), &COMMIT_ACK[..]), "{place}");
            }
            (_, request) => panic!("{place}: {request:?}"),
        }
    }
}

#[test]
fn statuses_are_those_of_the_code() {
    let document = document();
    for status in Status::ALL {
        let class = match status {
            Status::Ok => "",
            transient if transient.is_transient() => "transient",
            _ => "permanent",
        };
        let row = format!("| `0x{:02X}` | {} | {class}", status.code(), status.name());
        assert!(document.contains(&row), "docs/PROTOCOL.md has no row {row}");
    }
    let rows = document.lines().filter(|line| line.starts_with("| `0x") && line.ends_with('|'));
    let statuses =
        rows.filter(|row| row.contains("| permanent |") || row.contains("| transient |"));
    assert_eq!(statuses.count(), Status::ALL.len() - 1, "and no row without a status");
}

#[test]
fn a_broker_answers_the_examples_as_written() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    for example in examples(&document()) {
        if !BROKER_SPEAKS.contains(&example.kind) {
            continue;
        }
        let place = format!("{} in line {}", example.label, example.line);
        let mut client = RawClient::connect(broker.addr());
        for step in &example.steps {
            match step {
                Step::Send(bytes) => client.send(bytes),
                Step::Receive(bytes) => {
                    assert_eq!(hex(&client.read(bytes.len())), hex(bytes), "{place}");
                }
                Step::Closed => client.assert_closed_without_a_byte(),
            }
        }
        if !example.is_refused() {
            client.finish_sending();
            assert_eq!(hex(&client.read_to_end()), "", "{place}: nothing more comes");
        }
    }
}

#[test]
fn limits_are_those_of_the_code() {
    let constants: [(&str, u64); 12] = [
        ("TOPIC_NAME_MAX", limits::TOPIC_NAME_MAX as u64),
        ("GROUP_NAME_MAX", limits::GROUP_NAME_MAX as u64),
        ("PARTITIONS_PER_TOPIC_MAX", limits::PARTITIONS_PER_TOPIC_MAX.into()),
        ("KEY_BYTES_MAX", limits::KEY_BYTES_MAX.into()),
        ("PAYLOAD_MB_DEFAULT", limits::PAYLOAD_MB_DEFAULT.into()),
        ("PAYLOAD_MB_MAX", limits::PAYLOAD_MB_MAX.into()),
        ("RECORD_COUNT_MAX", limits::RECORD_COUNT_MAX.into()),
        ("HANDSHAKE_FIELDS_BYTES_MAX", limits::HANDSHAKE_FIELDS_BYTES_MAX.into()),
        ("TOKEN_BYTES_MAX", limits::TOKEN_BYTES_MAX as u64),
        ("MESSAGE_BYTES_MAX", limits::MESSAGE_BYTES_MAX as u64),
        ("HEARTBEAT_MS_MIN", limits::HEARTBEAT_MS_MIN.into()),
        ("OFFSET_MAX", limits::OFFSET_MAX),
    ];
    let document = document();
    for (name, value) in constants {
        let row = format!("| `{name}` | {value} |");
        assert!(document.contains(&row), "docs/PROTOCOL.md has no row {row}");
    }
}
