//! The state machine of a connection, of either version, fed as a socket would: in any chunks.

use hermitmq::metrics::CloseReason;
use hermitmq::net::connection::{Action, Asked, COMMITS_PER_STEP, Connection, Opened, Step, acks};
use hermitmq::protocol::v1_1::{self, Role};
use hermitmq::protocol::{ACK_LEN, Dialect, HANDSHAKE_LEN_MAX, Request, Status};
use hermitmq::record::{FrameLimits, Frames, HEADER_LEN, Header};

use super::input::Input;

const LIMITS: [FrameLimits; 2] = [
    FrameLimits { key_bytes: 16, payload_bytes: 100, record_count: 10 },
    FrameLimits { key_bytes: u32::MAX, payload_bytes: u32::MAX, record_count: u32::MAX },
];

/// What came of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    asked: Option<Asked>,
    /// Frames as they are to be stored.
    frames: Vec<Vec<u8>>,
    commits: Vec<u64>,
    closed: Option<(CloseReason, Option<Status>)>,
    left: usize,
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.byte();
    let limits = LIMITS[usize::from(how & 1)];
    let mut cuts: Vec<usize> = (0..how >> 4).map(|_| input.u16()).collect();
    let stream = input.rest();
    for cut in &mut cuts {
        *cut %= stream.len() + 1;
    }
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();

    let whole = feed(limits, &[stream], false);
    assert_eq!(feed(limits, &chunks, false), whole, "cuts do not matter");
    // A reader may wait until as many bytes are there as it was told to wait for.
    let patient = feed(limits, &chunks, true);
    assert_eq!(
        (&patient.asked, &patient.frames, &patient.commits),
        (&whole.asked, &whole.frames, &whole.commits)
    );
    for frame in &whole.frames {
        let (header, key, payload) = Frames::new(frame).next().expect("whole frames alone");
        assert_eq!(frame.len(), HEADER_LEN + key.len() + payload.len());
        assert!(header.record_count > 0 && header.record_count <= limits.record_count);
        assert!(header.key_size <= limits.key_bytes && header.payload_size <= limits.payload_bytes);
    }
}

/// What the broker makes of a connection whose request it carries out.
fn opened(asked: &Asked) -> Opened {
    match asked {
        Asked::V1_0(Request::Produce { .. }) => Opened::Producer,
        Asked::V1_0(Request::Consume { .. }) => Opened::Consumer,
        Asked::V1_0(Request::Commit { .. }) => Opened::Committed,
        Asked::V1_1(handshake) => match handshake.role {
            Role::Produce { .. } => Opened::Producer,
            Role::Consume { .. } => Opened::Consumer,
            Role::Commit { .. } => Opened::Committer,
        },
    }
}

/// The most bytes that a connection may ask for before it goes on.
fn needed_at_most(connection: &Connection, limits: FrameLimits) -> u64 {
    let frame = limits.frame_len().max(v1_1::COMMIT_LEN as u64);
    match (connection.in_handshake(), connection.speaks_1_1()) {
        (true, true) => v1_1::HANDSHAKE_LEN_MAX as u64,
        (true, false) => HANDSHAKE_LEN_MAX as u64,
        (false, _) => frame,
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
        while step(&mut connection, limits, &mut pending, &mut enough, &mut outcome) {}
        if outcome.closed.is_some() {
            return outcome;
        }
    }
    outcome.closed = connection.end_of_input(pending.len()).map(|reason| (reason, None));
    outcome.left = pending.len();
    outcome
}

/// Does what the connection says to what is pending. False if it waits for more, or is closed.
fn step(
    connection: &mut Connection,
    limits: FrameLimits,
    pending: &mut Vec<u8>,
    enough: &mut u64,
    outcome: &mut Outcome,
) -> bool {
    let (left, first) = (pending.len(), pending.first().copied());
    let was_in_handshake = connection.in_handshake();
    let Step { consumed, action } = connection.receive(pending);
    assert!(consumed <= left);
    let (mut role, mut asks) = (None, None);
    let goes_on = match action {
        Action::Read { needed } => {
            *enough = needed;
            asks = Some(needed);
            false
        }
        Action::Wait => false,
        Action::Open(asked) => {
            assert!(was_in_handshake && consumed > 0);
            role = Some(opened(&asked));
            assert_eq!(outcome.asked.replace(asked), None, "one request");
            true
        }
        Action::Append(mut run) => {
            assert!(run.bytes().len() == consumed && run.frames() > 0);
            assert_eq!(run.assign_offsets(5, |_, _| ()), 5 + run.records());
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
        Action::Commit(commits) => {
            assert_eq!(commits.consumed(), consumed);
            assert!((1..=COMMITS_PER_STEP).contains(&commits.len()));
            outcome.commits.extend(commits);
            true
        }
        Action::Close(refusal) => {
            assert!(!refusal.detail.is_empty() && !refusal.message.is_empty());
            assert_ne!(refusal.status, Status::Ok);
            outcome.closed = Some((refusal.reason, Some(refusal.status)));
            false
        }
    };
    if let Some(needed) = asks {
        let most = needed_at_most(connection, limits);
        assert!(needed > (left - consumed) as u64 && needed <= most, "{needed} of {most}");
    }
    if was_in_handshake && left > 0 {
        let new = first.and_then(Dialect::of) == Some(Dialect::V1_1);
        assert_eq!(connection.speaks_1_1(), new, "the first byte tells which");
    }
    pending.drain(..consumed);
    if let Some(role) = role {
        let waits = connection.receive(pending);
        assert!(matches!((waits.consumed, waits.action), (0, Action::Wait)));
        connection.opened(role);
    }
    goes_on
}
