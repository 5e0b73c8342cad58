//! `docs/PROTOCOL.md` is true: its examples parse, a broker answers them as written, and its numbers are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use hermitmq::model::limits;
use hermitmq::protocol::{ACK_LEN, Ack, COMMIT_ACK, Parsed, Request, parse};
use hermitmq::record::{Check, FrameLimits, check};
use support::{Broker, RawClient, frames_of, hex, scratch, unhex};

/// A line of an example.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Send(Vec<u8>),
    Receive(Vec<u8>),
    Closed,
}

/// A fenced block `wire LABEL`: one conversation.
#[derive(Debug)]
struct Example {
    label: String,
    line: usize,
    steps: Vec<Step>,
}

impl Example {
    fn is_refused(&self) -> bool {
        self.label.starts_with("refused")
    }

    fn sent(&self) -> Vec<u8> {
        let sent = |step: &Step| if let Step::Send(bytes) = step { bytes.clone() } else { vec![] };
        self.steps.iter().flat_map(sent).collect()
    }

    fn received(&self) -> Vec<u8> {
        let got = |step: &Step| if let Step::Receive(b) = step { b.clone() } else { vec![] };
        self.steps.iter().flat_map(got).collect()
    }
}

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/PROTOCOL.md");
    std::fs::read_to_string(path).unwrap()
}

fn examples(document: &str) -> Vec<Example> {
    let mut out: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        let line_number = index + 1;
        if let Some(label) = line.strip_prefix("```wire ") {
            out.push(Example { label: label.to_owned(), line: line_number, steps: Vec::new() });
            inside = true;
        } else if line.starts_with("```") {
            inside = false;
        } else if inside {
            let text = line.split('#').next().unwrap().trim();
            let step = match text.split_at(1) {
                (">", bytes) => Step::Send(unhex(bytes)),
                ("<", " closed") => Step::Closed,
                ("<", bytes) => Step::Receive(unhex(bytes)),
                _ => panic!("line {line_number}: {line}"),
            };
            out.last_mut().unwrap().steps.push(step);
        }
    }
    out
}

#[test]
fn examples_are_read() {
    let text = "```wire a\n> 01 0a # x\n< closed\n```\n```sh\n> no\n```\n```wire b\n< 00\n```\n";
    let found = examples(text);
    assert_eq!(found.len(), 2);
    assert_eq!((&*found[0].label, found[0].line), ("a", 1));
    assert_eq!(found[0].steps, [Step::Send(vec![1, 10]), Step::Closed]);
    assert_eq!(found[1].steps, [Step::Receive(vec![0])]);
    let all = examples(&document());
    for label in ["produce", "consume", "commit", "refused"] {
        assert!(all.iter().any(|example| example.label.starts_with(label)), "{label}");
    }
    assert!(all.iter().filter(|example| example.is_refused()).count() >= 8);
}

#[test]
fn examples_parse_as_what_they_are_called() {
    let limits = FrameLimits::incoming(limits::PAYLOAD_MB_DEFAULT << 20);
    for example in examples(&document()) {
        let Example { label, line, .. } = &example;
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
fn a_broker_answers_the_examples_as_written() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    for example in examples(&document()) {
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
    let constants: [(&str, u64); 8] = [
        ("TOPIC_NAME_MAX", limits::TOPIC_NAME_MAX as u64),
        ("GROUP_NAME_MAX", limits::GROUP_NAME_MAX as u64),
        ("PARTITIONS_PER_TOPIC_MAX", limits::PARTITIONS_PER_TOPIC_MAX.into()),
        ("KEY_BYTES_MAX", limits::KEY_BYTES_MAX.into()),
        ("PAYLOAD_MB_DEFAULT", limits::PAYLOAD_MB_DEFAULT.into()),
        ("PAYLOAD_MB_MAX", limits::PAYLOAD_MB_MAX.into()),
        ("RECORD_COUNT_MAX", limits::RECORD_COUNT_MAX.into()),
        ("OFFSET_MAX", limits::OFFSET_MAX),
    ];
    let document = document();
    for (name, value) in constants {
        let row = format!("| `{name}` | {value} |");
        assert!(document.contains(&row), "docs/PROTOCOL.md has no row {row}");
    }
}
