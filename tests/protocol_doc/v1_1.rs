//! The examples of version 1.1, through the codec: what is read is written again as the same bytes.

use hermitmq::model::limits;
use hermitmq::protocol::v1_1::{
    Answer, AnswerTo, Handshake, Incoming, Parsed, Role, commits, write_commit,
};
use hermitmq::record::{Check, FrameLimits, check};

use super::examples::{Kind, Step, document, examples};
use super::support::hex;

/// Reads answers off the front of `bytes` and writes them again; returns them once nothing is left.
fn answers(to: AnswerTo, mut bytes: &[u8], place: &str) -> Vec<Answer> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let Parsed::Complete(answer, used) = Answer::parse(to, bytes) else {
            panic!("{place}: not an answer: {}", hex(bytes))
        };
        let mut again = Vec::new();
        answer.write(to, &mut again);
        assert_eq!(hex(&again), hex(&bytes[..used]), "{place}");
        assert!(answer.status().is_some(), "{place}: {answer:?}");
        found.push(answer);
        bytes = &bytes[used..];
    }
    found
}

/// Reads what a consumer receives and writes the control frames again; returns how many records and control frames.
fn incoming(mut bytes: &[u8], place: &str) -> (usize, usize) {
    let (mut frames, mut controls) = (0, 0);
    while !bytes.is_empty() {
        let used = match Incoming::parse(bytes, &FrameLimits::STORED) {
            Ok(Incoming::Frame(header)) => {
                frames += 1;
                usize::try_from(header.frame_len()).unwrap()
            }
            Ok(Incoming::Control(control, used)) => {
                controls += 1;
                let mut again = Vec::new();
                control.write(&mut again);
                assert_eq!(hex(&again), hex(&bytes[..used]), "{place}");
                assert!(control.status().is_some(), "{place}: {control:?}");
                used
            }
            other => panic!("{place}: {other:?}"),
        };
        bytes = &bytes[used..];
    }
    (frames, controls)
}

/// Reads the handshake at the start of what was sent and writes it again. An error is answered in its own words.
fn handshake(sent: &[u8], received: &[u8], place: &str) -> Option<(Role, usize)> {
    match Handshake::parse(sent) {
        Ok(Parsed::Complete(handshake, used)) => {
            let mut again = Vec::new();
            handshake.write(&mut again).unwrap();
            if !place.starts_with("produce-later-tag") {
                assert_eq!(hex(&again), hex(&sent[..used]), "{place}");
            }
            let used_again = again.len();
            let expected = Parsed::Complete(handshake.clone(), used_again);
            assert_eq!(Handshake::parse(&again), Ok(expected), "{place}");
            Some((handshake.role, used))
        }
        Ok(Parsed::Incomplete { needed }) => panic!("{place}: {needed} bytes are needed"),
        Err(error) => {
            let mut reply = Vec::new();
            Answer::error(error.status(), 0, error.to_string())
                .write(AnswerTo::Handshake, &mut reply);
            assert_eq!(hex(&reply), hex(received), "{place}: {error}");
            None
        }
    }
}

#[test]
fn version_1_1_is_written_as_it_is_read() {
    let limits = FrameLimits::incoming(limits::PAYLOAD_MB_DEFAULT << 20);
    for example in examples(&document()).iter().filter(|each| each.kind == Kind::Wire11) {
        let place = format!("{} in line {}", example.label, example.line);
        let (sent, received) = (example.sent(), example.received());
        let ends_closed = example.steps.last() == Some(&Step::Closed);
        assert_eq!(example.is_refused(), ends_closed, "{place}: refused ones end with a close");
        let Some((role, used)) = handshake(&sent, &received, &place) else {
            assert!(example.is_refused(), "{place}");
            continue;
        };
        let Parsed::Complete(reply, replied) = Answer::parse(AnswerTo::Handshake, &received) else {
            panic!("{place}: no reply")
        };
        let (mut rest, behind) = (&sent[used..], &received[replied..]);
        answers(AnswerTo::Handshake, &received[..replied], &place);
        if !reply.is_ok() {
            assert!(example.is_refused() && rest.is_empty() && behind.is_empty(), "{place}");
            continue;
        }
        match role {
            Role::Produce { .. } => {
                let mut frames = 0;
                while let Ok(Check::Complete(header)) = check(rest, &limits) {
                    rest = &rest[usize::try_from(header.frame_len()).unwrap()..];
                    frames += 1;
                }
                let answers = answers(AnswerTo::Frame, behind, &place);
                let stored = answers.iter().filter(|answer| answer.is_ok()).count();
                assert_eq!(stored, frames, "{place}: each good frame is stored");
                assert_eq!(!rest.is_empty(), example.is_refused(), "{place}");
                assert_eq!(answers.len(), frames + usize::from(example.is_refused()), "{place}");
            }
            Role::Consume { .. } => {
                assert!(commits(rest).consumed() == rest.len(), "{place}: commits alone");
                let (frames, controls) = incoming(behind, &place);
                assert!(frames + controls > 0 || !rest.is_empty(), "{place}: shows something");
            }
            Role::Commit { .. } => {
                let mut again = Vec::new();
                commits(rest).for_each(|offset| write_commit(offset, &mut again));
                assert_eq!(hex(&again), hex(rest), "{place}");
                let answers = answers(AnswerTo::Commit, behind, &place);
                assert_eq!(answers.len(), commits(rest).len(), "{place}: an answer for each");
            }
        }
    }
}

#[test]
fn messages_of_version_1_1_are_written_as_they_are_read() {
    for example in examples(&document()).iter().filter(|each| each.kind == Kind::Message11) {
        let place = format!("{} in line {}", example.label, example.line);
        let (sent, received) = (example.sent(), example.received());
        match example.label.as_str() {
            "handshake" => {
                let (_, used) = handshake(&sent, &received, &place).expect(&place);
                assert_eq!(used, sent.len(), "{place}");
            }
            "answer-to-handshake" => {
                assert_eq!(answers(AnswerTo::Handshake, &received, &place).len(), 1, "{place}");
            }
            "answer-to-frame" => {
                assert_eq!(answers(AnswerTo::Frame, &received, &place).len(), 1, "{place}");
            }
            "control" => assert_eq!(incoming(&received, &place), (0, 1), "{place}"),
            other => panic!("{place}: no message is called {other}"),
        }
    }
}
