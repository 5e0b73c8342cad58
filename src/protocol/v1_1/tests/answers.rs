use super::*;
use crate::model::limits::MESSAGE_BYTES_MAX;
use crate::protocol::{Ack, Dialect};

const ALL: [AnswerTo; 3] = [AnswerTo::Handshake, AnswerTo::Frame, AnswerTo::Commit];

fn written(answer: &Answer, to: AnswerTo) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.write(to, &mut bytes);
    bytes
}

#[test]
fn answers_that_carry_no_message_are_acks() {
    for to in ALL {
        assert_eq!(written(&Answer::ok(7), to), Ack::stored(7).to_bytes());
    }
    let transient = Answer::error(Status::NotStored, 0, "the disk is full");
    assert_eq!(written(&transient, AnswerTo::Frame), Ack::NOT_STORED.to_bytes());
    assert!(transient.is_transient() && !transient.is_ok());
}

#[test]
fn a_message_follows_where_it_should() {
    let permanent = Answer::error(Status::TooLarge, 64, "no");
    let transient = Answer::error(Status::Starting, 0, "no");
    let long = b"\x08\0\0\0\0\0\0\0\x40\0\x02no";
    assert_eq!(written(&permanent, AnswerTo::Handshake), long);
    assert_eq!(written(&permanent, AnswerTo::Frame), long);
    assert_eq!(written(&permanent, AnswerTo::Commit), long[..9]);
    assert_eq!(written(&transient, AnswerTo::Handshake), b"\xfd\0\0\0\0\0\0\0\0\0\x02no");
    assert_eq!(written(&transient, AnswerTo::Frame), b"\xfd\0\0\0\0\0\0\0\0");
    // Codes of a later version keep their class.
    assert!(AnswerTo::Frame.has_message(0x7e) && !AnswerTo::Frame.has_message(0xf0));
    let unknown = Answer::parse(AnswerTo::Frame, b"\x7e\0\0\0\0\0\0\0\0\0\x01?");
    let Parsed::Complete(unknown, 12) = unknown else { panic!("{unknown:?}") };
    assert_eq!((unknown.status(), unknown.code, &*unknown.message), (None, 0x7e, "?"));
}

#[test]
fn long_messages_are_cut_between_characters() {
    let answer = Answer::error(Status::Corrupt, 0, "ä".repeat(MESSAGE_BYTES_MAX));
    let bytes = written(&answer, AnswerTo::Handshake);
    let Parsed::Complete(read, used) = Answer::parse(AnswerTo::Handshake, &bytes) else { panic!() };
    assert_eq!((used, read.message), (bytes.len(), "ä".repeat(MESSAGE_BYTES_MAX / 2)));
    let odd = Answer::error(Status::Corrupt, 0, format!("x{}", answer.message));
    assert_eq!(written(&odd, AnswerTo::Handshake).len(), 11 + MESSAGE_BYTES_MAX - 1);
    // What others write may be as long as the length says, and need not be UTF-8.
    let mut bytes = b"\x01\0\0\0\0\0\0\0\0\xff\xff".to_vec();
    assert_eq!(
        Answer::parse(AnswerTo::Frame, &bytes),
        Parsed::Incomplete { needed: ANSWER_LEN_MAX }
    );
    bytes.resize(ANSWER_LEN_MAX, 0xff);
    assert!(matches!(Answer::parse(AnswerTo::Frame, &bytes), Parsed::Complete(_, ANSWER_LEN_MAX)));
}

#[test]
fn commits_are_offsets() {
    let mut bytes = Vec::new();
    for offset in [1, 2, NO_COMMIT - 1] {
        write_commit(offset, &mut bytes);
    }
    assert_eq!(bytes.len(), 3 * COMMIT_LEN);
    for cut in 0..bytes.len() {
        let mut found = commits(&bytes[..cut]);
        assert_eq!((found.len(), found.consumed()), (cut / 8, cut / 8 * 8));
        assert_eq!(found.next(), [None, Some(1)][usize::from(cut >= 8)]);
    }
    let found = commits(&bytes);
    assert_eq!(found.clone().next_back(), Some(u64::MAX - 1));
    assert_eq!(found.collect::<Vec<_>>(), [1, 2, u64::MAX - 1]);
}

#[test]
fn the_first_byte_tells_dialects_apart() {
    for byte in 0..=255u8 {
        let expected = match byte {
            0x01..=0x03 => Some(Dialect::V1_0),
            0x11..=0x13 => Some(Dialect::V1_1),
            0x16 => Some(Dialect::Tls),
            0x00 => Some(Dialect::Kafka),
            _ => None,
        };
        assert_eq!(Dialect::of(byte), expected, "{byte:#x}");
        let is_role = !matches!(Handshake::parse(&[byte]), Err(HandshakeError::UnknownRole(_)));
        assert_eq!(is_role, expected == Some(Dialect::V1_1), "{byte:#x}");
        let is_role = crate::protocol::parse(&[byte]).is_ok();
        assert_eq!(is_role, expected == Some(Dialect::V1_0), "{byte:#x}");
    }
}

fn answers() -> impl Strategy<Value = Answer> {
    (any::<u8>(), any::<u64>(), ".{0,60}").prop_map(|(code, value, message)| Answer {
        code,
        value,
        message,
    })
}

proptest! {
    /// Answers back to back are read as they were written, and every cut is incomplete.
    #[test]
    fn round_trip(answers in prop::collection::vec(answers(), 0..20), to in prop::sample::select(&ALL[..])) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for answer in &answers {
            answer.write(to, &mut bytes);
            ends.push(bytes.len());
        }
        for (answer, end) in answers.into_iter().zip(ends.windows(2)) {
            let (begin, end) = (end[0], end[1]);
            for cut in begin..end {
                match Answer::parse(to, &bytes[begin..cut]) {
                    Parsed::Incomplete { needed } => prop_assert!(cut < begin + needed && begin + needed <= end),
                    other @ Parsed::Complete(..) => prop_assert!(false, "{:?}", other),
                }
            }
            let message = if to.has_message(answer.code) { answer.message } else { String::new() };
            let expected = Answer { message, ..answer };
            prop_assert_eq!(Answer::parse(to, &bytes[begin..]), Parsed::Complete(expected, end - begin));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), to in prop::sample::select(&ALL[..])) {
        match Answer::parse(to, &bytes) {
            Parsed::Complete(answer, used) => {
                prop_assert!(used <= bytes.len());
                // A byte that is not UTF-8 becomes a character of three.
                prop_assert!(answer.message.len() <= 3 * used);
            }
            Parsed::Incomplete { needed } => prop_assert!(bytes.len() < needed && needed <= ANSWER_LEN_MAX),
        }
        prop_assert_eq!(commits(&bytes).consumed(), bytes.len() / 8 * 8);
        prop_assert_eq!(commits(&bytes).count(), bytes.len() / 8);
    }
}
