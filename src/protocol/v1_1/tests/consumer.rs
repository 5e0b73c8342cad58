use super::*;
use crate::record::{FrameBuilder, FrameError, FrameLimits, HEADER_LEN, Header};

const LIMITS: FrameLimits = FrameLimits { key_bytes: 64, payload_bytes: 4096, record_count: 1000 };

fn written(frame: &ControlFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    bytes
}

#[test]
fn control_bytes_are_the_documented_ones() {
    let heartbeat = written(&ControlFrame::heartbeat(0x0102_0304_0506_0708));
    assert_eq!(
        heartbeat,
        [
            0x10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
            0, 0
        ]
    );
    let moved = ControlFrame::new(Status::OffsetOutOfRange, 5, "gone");
    let bytes = written(&moved);
    assert_eq!(bytes[HEADER_LEN..], *b"\x09gone");
    assert_eq!(bytes[21..25], [0, 0, 0, 5]);
    assert_eq!(Incoming::parse(&bytes, &LIMITS), Ok(Incoming::Control(moved, bytes.len())));
}

#[test]
fn a_code_that_is_not_known_is_no_status() {
    let unknown = ControlFrame { code: 0x7e, ..ControlFrame::heartbeat(0) };
    assert_eq!(unknown.status(), None);
}

#[test]
fn control_frames_with_other_headers_are_refused() {
    let header = Header {
        magic: MAGIC_CONTROL,
        timestamp: 7,
        offset: 0,
        key_size: 0,
        payload_size: 1,
        record_count: 0,
    };
    let parse = |header: Header| Incoming::parse(&header.to_bytes(), &LIMITS);
    let refused = |header: Header| parse(header).unwrap_err().to_string();
    assert_eq!(parse(header), Ok(Incoming::Incomplete { needed: 30 }));
    assert_eq!(
        refused(Header { key_size: 1, ..header }),
        "control frame with a key_size of 1, allowed are 0 to 0"
    );
    assert_eq!(
        refused(Header { record_count: 1, ..header }),
        "control frame with a record_count of 1, allowed are 0 to 0"
    );
    for payload_size in [0, 65_537, u32::MAX] {
        assert_eq!(
            refused(Header { payload_size, ..header }),
            format!("control frame with a payload_size of {payload_size}, allowed are 1 to 65536")
        );
    }
    let longest = parse(Header { payload_size: 65_536, ..header });
    assert_eq!(longest, Ok(Incoming::Incomplete { needed: CONTROL_LEN_MAX as u64 }));
    assert_eq!(
        Incoming::parse(&[0x11], &LIMITS),
        Err(IncomingError::Frame(FrameError::Magic(0x11)))
    );
    // A frame of 1.0 is held to the limits of frames.
    let large = Header { magic: 1, payload_size: 4097, ..header };
    assert!(matches!(parse(large), Err(IncomingError::Frame(_))));
}

#[derive(Debug, Clone, PartialEq)]
enum Sent {
    Frame(Vec<u8>, Vec<u8>),
    Control(ControlFrame),
}

impl Sent {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Frame(key, payload) => {
                FrameBuilder::new(7).key(key).write(payload, out).unwrap();
            }
            Self::Control(frame) => frame.write(out),
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = |len| prop::collection::vec(any::<u8>(), 0..len);
    let control = (any::<u8>(), any::<u64>(), ".{0,60}")
        .prop_map(|(code, offset, message)| ControlFrame { code, offset, message });
    prop_oneof![
        (bytes(60), bytes(200)).prop_map(|(key, payload)| Sent::Frame(key, payload)),
        control.prop_map(Sent::Control),
    ]
}

proptest! {
    /// Frames and control frames, mixed, come out as they went in, however the stream is cut into reads.
    #[test]
    fn round_trip(sent in prop::collection::vec(sent(), 0..12), reads in prop::collection::vec(1usize..80, 1..20)) {
        let mut stream = Vec::new();
        for each in &sent { each.write(&mut stream); }
        let (mut buf, mut got, mut at) = (Vec::new(), Vec::new(), 0usize);
        for len in reads.into_iter().chain([usize::MAX]) {
            let end = at.saturating_add(len).min(stream.len());
            buf.extend_from_slice(&stream[at..end]);
            at = end;
            loop {
                match Incoming::parse(&buf, &LIMITS).unwrap() {
                    Incoming::Frame(header) => {
                        let whole = usize::try_from(header.frame_len()).unwrap();
                        let key_end = HEADER_LEN + header.key_size as usize;
                        got.push(Sent::Frame(buf[HEADER_LEN..key_end].to_vec(), buf[key_end..whole].to_vec()));
                        buf.drain(..whole);
                    }
                    Incoming::Control(frame, used) => {
                        got.push(Sent::Control(frame));
                        buf.drain(..used);
                    }
                    Incoming::Incomplete { needed } => {
                        prop_assert!((buf.len() as u64) < needed);
                        break;
                    }
                }
            }
        }
        prop_assert!(buf.is_empty());
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200), control: bool) {
        if let Some(first) = bytes.first_mut() { *first = if control { 0x10 } else { 0x01 }; }
        match Incoming::parse(&bytes, &LIMITS) {
            Ok(Incoming::Frame(header)) => prop_assert!(header.frame_len() <= bytes.len() as u64),
            Ok(Incoming::Control(frame, used)) => {
                prop_assert!(used <= bytes.len() && frame.message.len() <= 3 * used);
            }
            Ok(Incoming::Incomplete { needed }) => {
                let most = LIMITS.frame_len().max(CONTROL_LEN_MAX as u64);
                prop_assert!((bytes.len() as u64) < needed && needed <= most);
            }
            Err(_) => {}
        }
    }
}
