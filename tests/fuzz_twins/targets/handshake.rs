//! The parsers of both protocols, as a peer's bytes reach them.

use hermitmq::protocol::v1_1::{
    ANSWER_LEN_MAX, Answer, AnswerTo, CONTROL_LEN_MAX, Handshake, Incoming, commits,
};
use hermitmq::protocol::{self, Dialect, v1_1};
use hermitmq::record::FrameLimits;

const LIMITS: FrameLimits = FrameLimits { key_bytes: 64, payload_bytes: 4096, record_count: 1000 };

pub fn run(data: &[u8]) {
    version_1_0(data);
    version_1_1(data);
    for to in [AnswerTo::Handshake, AnswerTo::Frame, AnswerTo::Commit] {
        answers(to, data);
    }
    consumer(data);
    let whole = commits(data);
    assert_eq!(whole.consumed(), data.len() / 8 * 8);
    assert_eq!(whole.len(), whole.count());
}

fn version_1_0(data: &[u8]) {
    use protocol::{HANDSHAKE_LEN_MAX, Parsed, parse};
    let parsed = parse(data);
    match &parsed {
        Ok(Parsed::Complete(request, len)) => {
            assert!(*len <= HANDSHAKE_LEN_MAX);
            assert_eq!(Dialect::of(data[0]), Some(Dialect::V1_0));
            let mut written = Vec::new();
            request.write(&mut written);
            assert_eq!(written, data[..*len], "a handshake has one form");
            assert_eq!(parse(&data[..*len]), parsed, "what follows means nothing");
            assert_eq!(parse(&data[..len - 1]), Ok(Parsed::Incomplete));
        }
        Ok(Parsed::Incomplete) => assert!(data.len() < HANDSHAKE_LEN_MAX),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // However it arrives: incomplete up to where it is told what it is, and that for good.
    let told = (0..=data.len()).find(|&len| parse(&data[..len]) != Ok(Parsed::Incomplete));
    if let Some(told) = told {
        assert_eq!(parse(&data[..told]), parsed);
    }
}

fn version_1_1(data: &[u8]) {
    use v1_1::{HANDSHAKE_LEN_MAX, Parsed};
    let parsed = Handshake::parse(data);
    match &parsed {
        Ok(Parsed::Complete(handshake, len)) => {
            assert!(*len <= HANDSHAKE_LEN_MAX);
            assert_eq!(Dialect::of(data[0]), Some(Dialect::V1_1));
            let mut written = Vec::new();
            handshake.write(&mut written).expect("it came in as many bytes");
            assert!(written.len() <= *len);
            let again = Handshake::parse(&written);
            assert_eq!(again, Ok(Parsed::Complete(handshake.clone(), written.len())));
            assert_eq!(Handshake::parse(&data[..*len]), parsed, "what follows means nothing");
        }
        Ok(Parsed::Incomplete { needed }) => {
            assert!(*needed > data.len() && *needed <= HANDSHAKE_LEN_MAX);
        }
        Err(error) => assert!(!error.to_string().is_empty() && error.status().code() != 0),
    }
    let mut len = 0;
    while let Ok(Parsed::Incomplete { needed }) = Handshake::parse(&data[..len]) {
        if needed > data.len() {
            return;
        }
        // No byte before that is enough.
        let before = Handshake::parse(&data[..needed - 1]);
        assert!(needed > len && matches!(before, Ok(Parsed::Incomplete { .. }) | Err(_)));
        len = needed;
    }
    assert_eq!(Handshake::parse(&data[..len]), parsed);
}

fn answers(to: AnswerTo, data: &[u8]) {
    match Answer::parse(to, data) {
        v1_1::Parsed::Complete(answer, len) => {
            assert!(len <= data.len() && len <= ANSWER_LEN_MAX);
            assert_eq!(answer.is_ok(), answer.code == 0);
            let mut written = Vec::new();
            answer.write(to, &mut written);
            // Long messages are cut, and what is no UTF-8 is replaced.
            let v1_1::Parsed::Complete(again, end) = Answer::parse(to, &written) else {
                panic!("{answer:?} cannot be read back");
            };
            assert_eq!(end, written.len());
            assert_eq!((again.code, again.value), (answer.code, answer.value));
            assert!(answer.message.starts_with(&again.message));
        }
        v1_1::Parsed::Incomplete { needed } => {
            assert!(needed > data.len() && needed <= ANSWER_LEN_MAX);
        }
    }
}

fn consumer(data: &[u8]) {
    match Incoming::parse(data, &LIMITS) {
        Ok(Incoming::Frame(header)) => assert!(header.frame_len() <= data.len() as u64),
        Ok(Incoming::Control(frame, len)) => {
            assert!(len <= data.len() && len <= CONTROL_LEN_MAX);
            let mut written = Vec::new();
            frame.write(&mut written);
            let Ok(Incoming::Control(again, end)) = Incoming::parse(&written, &LIMITS) else {
                panic!("{frame:?} cannot be read back");
            };
            assert_eq!(end, written.len());
            assert_eq!((again.code, again.offset), (frame.code, frame.offset));
            assert!(frame.message.starts_with(&again.message));
        }
        Ok(Incoming::Incomplete { needed }) => {
            let most = LIMITS.frame_len().max(CONTROL_LEN_MAX as u64);
            assert!(needed > data.len() as u64 && needed <= most);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
