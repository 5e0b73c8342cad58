//! The protocol state machine of a connection, fed as a socket would: in any chunks.

use hermitmq::metrics::CloseReason;
use hermitmq::net::connection::{Action, Connection, Opened, Step, acks};
use hermitmq::protocol::{ACK_LEN, HANDSHAKE_LEN_MAX, Request};
use hermitmq::record::{FrameLimits, Frames, HEADER_LEN, Header};

use super::input::Input;

const LIMITS: [FrameLimits; 2] = [
    FrameLimits { key_bytes: 16, payload_bytes: 100, record_count: 10 },
    FrameLimits { key_bytes: u32::MAX, payload_bytes: u32::MAX, record_count: u32::MAX },
];

/// What came of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    request: Option<Request>,
    /// Frames as they are to be stored.
    frames: Vec<Vec<u8>>,
    closed: Option<CloseReason>,
    left: usize,
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.byte();
    let limits = LIMITS[usize::from(how & 1)];
    let mut cuts: Vec<usize> = (0..how >> 4).map(|_| input.u16()).collect();
    let stream = input.rest();
    cuts.push(0);
    cuts.push(stream.len());
    cuts.iter_mut().for_each(|cut| *cut %= stream.len() + 1);
    cuts.sort_unstable();
    let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();

    let whole = feed(limits, &[stream], false);
    assert_eq!(feed(limits, &chunks, false), whole, "cuts do not matter");
    // A reader may wait until as many bytes are there as it was told to wait for.
    let patient = feed(limits, &chunks, true);
    assert_eq!((&patient.request, &patient.frames), (&whole.request, &whole.frames));
    for frame in &whole.frames {
        let (header, key, payload) = Frames::new(frame).next().expect("whole frames alone");
        assert_eq!(frame.len(), HEADER_LEN + key.len() + payload.len());
        assert!(header.record_count > 0 && header.record_count <= limits.record_count);
        assert!(header.key_size <= limits.key_bytes && header.payload_size <= limits.payload_bytes);
    }
}

fn feed(limits: FrameLimits, chunks: &[&[u8]], patiently: bool) -> Outcome {
    let mut connection = Connection::new(limits);
    let mut outcome = Outcome::default();
    let (mut pending, mut enough) = (Vec::new(), 0);
    for chunk in chunks {
        pending.extend_from_slice(chunk);
        if patiently && (pending.len() as u64) < enough {
            continue;
        }
        loop {
            let left = pending.len();
            let in_handshake = connection.in_handshake();
            let Step { consumed, action } = connection.receive(&mut pending);
            assert!(consumed <= left);
            let mut opened = None;
            let more = match action {
                Action::Read { needed } => {
                    let most =
                        if in_handshake { HANDSHAKE_LEN_MAX as u64 } else { limits.frame_len() };
                    assert!(needed > (left - consumed) as u64 && needed <= most);
                    enough = needed;
                    false
                }
                Action::Wait => false,
                Action::Open(request) => {
                    opened = Some(match request {
                        Request::Produce { .. } => Opened::Producer,
                        Request::Consume { .. } => Opened::Consumer,
                        Request::Commit { .. } => Opened::Committed,
                    });
                    assert_eq!(outcome.request.replace(request), None, "one request");
                    true
                }
                Action::Append(mut run) => {
                    assert_eq!(run.bytes().len(), consumed);
                    assert!(run.frames() > 0);
                    let next = run.assign_offsets(5, |_, _| ());
                    assert_eq!(next, 5 + run.records());
                    let mut out = Vec::new();
                    acks(run.iter(), true, &mut out);
                    assert_eq!(out.len(), run.frames() * ACK_LEN);
                    run.assign_offsets(0, |_, _| ());
                    outcome.frames.extend(run.iter().map(|(header, key, payload)| {
                        let header = Header { offset: 0, ..header };
                        [&header.to_bytes()[..], key, payload].concat()
                    }));
                    true
                }
                Action::Close(reason, detail) => {
                    assert!(!detail.is_empty());
                    outcome.closed = Some(reason);
                    return outcome;
                }
            };
            pending.drain(..consumed);
            if let Some(opened) = opened {
                let waits = connection.receive(&mut pending);
                assert!(matches!((waits.consumed, waits.action), (0, Action::Wait)));
                connection.opened(opened);
            }
            if !more {
                break;
            }
        }
    }
    outcome.closed = connection.end_of_input(pending.len());
    outcome.left = pending.len();
    outcome
}
