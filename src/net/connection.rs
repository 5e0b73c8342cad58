//! The protocol state machine of one connection: bytes in, actions out. No sockets, no partitions.
//!
//! The reactor feeds it what has arrived and does what it says; so it is tested, and can be fuzzed, without either.

use crate::metrics::CloseReason;
use crate::protocol::v1_1::{self, Commits, Handshake};
use crate::protocol::{self, Ack, Dialect, HANDSHAKE_LEN_MAX, Parsed, Request};
use crate::record::{FrameLimits, Frames, Run, Scan, scan};

use super::status::{self, Refusal};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The handshake has not all arrived.
    Handshake,
    /// The handshake is being acted upon; what arrives meanwhile waits.
    Opening,
    /// Frames come in.
    Producing,
    /// Frames go out; what comes in means nothing here.
    Consuming,
    /// Commits come in, to be answered.
    Committing,
    /// Nothing more is read.
    Closing,
}

/// A connection of either version of the protocol: its first byte tells which.
#[derive(Debug)]
pub struct Connection {
    phase: Phase,
    limits: FrameLimits,
    dialect: Dialect,
}

/// What a handshake asks for, in either version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// By a handshake of version 1.0.
    V1_0(Request),
    /// By one of version 1.1.
    V1_1(Box<Handshake>),
}

/// What to do next.
#[derive(Debug)]
pub enum Action<'a> {
    /// Keep what is left of the input; go on when there are at least `needed` bytes of it.
    Read {
        /// Bytes counted from the start of what is left.
        needed: u64,
    },
    /// Find the partition, then say [`Connection::opened`].
    Open(Asked),
    /// Store the run and answer with [`acks`].
    Append(Run<'a>),
    /// Commit these offsets, at most [`COMMITS_PER_STEP`], in order.
    Commit(Commits<'a>),
    /// Keep what is left of the input and do not read more for now.
    Wait,
    /// Close the connection, after what was already answered has been sent, and in version 1.1 why.
    Close(Box<Refusal>),
}

/// Commits that are acted upon at once: a connection that sends many takes its turns.
pub const COMMITS_PER_STEP: usize = 256;

/// An action, and how much of the input it takes.
#[derive(Debug)]
pub struct Step<'a> {
    /// Bytes at the start of the input that are done with.
    pub consumed: usize,
    /// What to do.
    pub action: Action<'a>,
}

/// What a connection turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// It produces.
    Producer,
    /// It consumes.
    Consumer,
    /// It commits.
    Committer,
    /// Its commit is done: the answer is all there is.
    Committed,
}

impl Connection {
    /// A new connection, whose frames must keep within `limits`.
    pub fn new(limits: FrameLimits) -> Self {
        Self { phase: Phase::Handshake, limits, dialect: Dialect::V1_0 }
    }

    /// Whether the peer is told why: it speaks version 1.1, as far as is known.
    pub fn speaks_1_1(&self) -> bool {
        self.dialect == Dialect::V1_1
    }

    /// Whether the handshake has not all arrived: what the handshake deadline is about.
    pub fn in_handshake(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Takes what has arrived and not been consumed. Call again with the rest until it says `Read`, `Wait` or `Close`.
    pub fn receive<'a>(&mut self, input: &'a mut [u8]) -> Step<'a> {
        match self.phase {
            Phase::Handshake => self.handshake(input),
            Phase::Opening => Step { consumed: 0, action: Action::Wait },
            Phase::Producing => self.frames(input),
            Phase::Committing => Self::commits(input),
            Phase::Consuming => Step { consumed: input.len(), action: Action::Read { needed: 1 } },
            Phase::Closing => Step { consumed: input.len(), action: Action::Wait },
        }
    }

    fn handshake(&mut self, input: &[u8]) -> Step<'static> {
        if let Some(dialect) = input.first().and_then(|first| Dialect::of(*first)) {
            self.dialect = dialect;
        }
        if self.speaks_1_1() { self.handshake_1_1(input) } else { self.handshake_1_0(input) }
    }

    fn handshake_1_0(&mut self, input: &[u8]) -> Step<'static> {
        let error = match protocol::parse(input) {
            Ok(Parsed::Complete(request, consumed)) => {
                self.phase = Phase::Opening;
                return Step { consumed, action: Action::Open(Asked::V1_0(request)) };
            }
            Ok(Parsed::Incomplete) => {
                debug_assert!(input.len() < HANDSHAKE_LEN_MAX);
                let needed = input.len() as u64 + 1;
                return Step { consumed: 0, action: Action::Read { needed } };
            }
            Err(error) => error,
        };
        self.close(status::of_handshake(&error))
    }

    fn handshake_1_1(&mut self, input: &[u8]) -> Step<'static> {
        match Handshake::parse(input) {
            Ok(v1_1::Parsed::Complete(handshake, consumed)) => {
                self.phase = Phase::Opening;
                Step { consumed, action: Action::Open(Asked::V1_1(Box::new(handshake))) }
            }
            Ok(v1_1::Parsed::Incomplete { needed }) => {
                debug_assert!(needed <= v1_1::HANDSHAKE_LEN_MAX);
                Step { consumed: 0, action: Action::Read { needed: needed as u64 } }
            }
            Err(error) => self.close(status::of_handshake_1_1(&error)),
        }
    }

    fn commits(input: &[u8]) -> Step<'_> {
        let most = input.len().min(COMMITS_PER_STEP * v1_1::COMMIT_LEN);
        let commits = v1_1::commits(&input[..most]);
        match commits.consumed() {
            0 => Step { consumed: 0, action: Action::Read { needed: v1_1::COMMIT_LEN as u64 } },
            consumed => Step { consumed, action: Action::Commit(commits) },
        }
    }

    fn frames<'a>(&mut self, input: &'a mut [u8]) -> Step<'a> {
        let found = scan(input, &self.limits);
        match found {
            Scan { frames: 0, rest: Ok(needed), .. } => {
                Step { consumed: 0, action: Action::Read { needed } }
            }
            Scan { frames: 0, rest: Err(error), .. } => self.close(status::of_frame(&error)),
            // Frames before a bad one are good. The next call comes to what follows them.
            Scan { len, .. } => {
                Step { consumed: len, action: Action::Append(Run::found(input, &found)) }
            }
        }
    }

    fn close(&mut self, refusal: Refusal) -> Step<'static> {
        self.phase = Phase::Closing;
        Step { consumed: 0, action: Action::Close(Box::new(refusal)) }
    }

    /// The largest payload that the topic allows, in bytes; before the first frame is looked at.
    pub fn limit_payload(&mut self, bytes: u32) {
        self.limits.payload_bytes = bytes;
    }

    /// The request was carried out.
    pub fn opened(&mut self, opened: Opened) {
        debug_assert_eq!(self.phase, Phase::Opening);
        self.phase = match opened {
            Opened::Producer => Phase::Producing,
            Opened::Consumer => Phase::Consuming,
            Opened::Committer => Phase::Committing,
            Opened::Committed => Phase::Closing,
        };
    }

    /// The peer will send no more, with `left` bytes not consumed. A reason if it left in the middle of something.
    pub fn end_of_input(&self, left: usize) -> Option<CloseReason> {
        let truncated = match self.phase {
            Phase::Handshake | Phase::Producing | Phase::Committing => left > 0,
            Phase::Opening | Phase::Consuming | Phase::Closing => false,
        };
        truncated.then_some(CloseReason::Truncated)
    }
}

/// Appends the acks of frames to `out`, in order: the offsets they were given if they were stored, else `not_stored`.
pub fn acks(frames: Frames<'_>, stored: bool, out: &mut Vec<u8>) {
    for (header, ..) in frames {
        let ack = if stored { Ack::stored(header.offset) } else { Ack::NOT_STORED };
        out.extend_from_slice(&ack.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::TopicName;
    use crate::protocol::ACK_LEN;
    use crate::record::FrameBuilder;

    const LIMITS: FrameLimits = FrameLimits { key_bytes: 64, payload_bytes: 512, record_count: 64 };

    fn produce_bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        Request::Produce { topic: TopicName::parse("t").unwrap(), partition: 0 }.write(&mut bytes);
        bytes
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        FrameBuilder::new(1).write(payload, &mut frame).unwrap();
        frame
    }

    /// Feeds `chunks` as a reactor would; returns the payloads appended and the reason for closing.
    fn feed(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Option<CloseReason>) {
        let mut connection = Connection::new(LIMITS);
        let (mut pending, mut payloads) = (Vec::new(), Vec::new());
        for chunk in chunks {
            pending.extend_from_slice(chunk);
            loop {
                let step = connection.receive(&mut pending);
                let consumed = step.consumed;
                let mut done = false;
                let mut opened = false;
                match step.action {
                    Action::Read { .. } | Action::Wait => done = true,
                    Action::Open(_) => opened = true,
                    Action::Append(run) => {
                        payloads.extend(run.iter().map(|(_, _, payload)| payload.to_vec()));
                    }
                    Action::Commit(_) => {}
                    Action::Close(refusal) => return (payloads, Some(refusal.reason)),
                }
                pending.drain(..consumed);
                if opened {
                    connection.opened(Opened::Producer);
                }
                if done {
                    break;
                }
            }
        }
        let reason = connection.end_of_input(pending.len());
        (payloads, reason)
    }

    #[test]
    fn frames_sent_with_the_handshake_are_appended() {
        let bytes = [produce_bytes(), frame(b"a"), frame(b"b")].concat();
        assert_eq!(feed(&[&bytes]), (vec![b"a".to_vec(), b"b".to_vec()], None));
    }

    #[test]
    fn good_frames_before_a_bad_one_are_appended_then_it_closes() {
        let bytes = [produce_bytes(), frame(b"a"), vec![0x02; 40]].concat();
        assert_eq!(feed(&[&bytes]), (vec![b"a".to_vec()], Some(CloseReason::BadMagic)));
        let bytes = [produce_bytes(), frame(&[0; 513])].concat();
        assert_eq!(feed(&[&bytes]), (vec![], Some(CloseReason::TooLarge)));
    }

    #[test]
    fn leaving_in_the_middle_is_told_from_leaving() {
        let bytes = [produce_bytes(), frame(b"abc")].concat();
        assert_eq!(feed(&[&bytes[..bytes.len() - 1]]), (vec![], Some(CloseReason::Truncated)));
        assert_eq!(feed(&[&bytes[..3]]), (vec![], Some(CloseReason::Truncated)));
        assert_eq!(feed(&[]), (vec![], None));
        assert_eq!(feed(&[&[9]]), (vec![], Some(CloseReason::UnknownRole)));
    }

    #[test]
    fn what_a_consumer_sends_is_discarded_and_what_arrives_while_opening_is_kept() {
        let mut connection = Connection::new(LIMITS);
        let mut bytes = produce_bytes();
        assert!(matches!(connection.receive(&mut bytes).action, Action::Open(_)));
        let step = connection.receive(&mut bytes);
        assert!(matches!((step.consumed, step.action), (0, Action::Wait)));
        connection.opened(Opened::Consumer);
        let step = connection.receive(&mut bytes);
        assert!(matches!((step.consumed, step.action), (7, Action::Read { .. })));
    }

    #[test]
    fn a_handshake_of_version_1_1_is_taken_in_any_pieces_and_its_faults_are_told() {
        let bytes = [&b"\x11\x00\x04\x01\x00\x01t"[..], &frame(b"a")].concat();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(feed(&pieces), (vec![b"a".to_vec()], None));
        assert_eq!(feed(&[&bytes[..5]]), (vec![], Some(CloseReason::Truncated)));
        assert_eq!(feed(&[b"\x11\xff\xff"]), (vec![], Some(CloseReason::Malformed)));
        assert_eq!(feed(&[b"\x12\x00\x03\x20\x00\x00"]), (vec![], Some(CloseReason::Unsupported)));
        let mut connection = Connection::new(LIMITS);
        let mut bytes = [0x13, 0xff, 0xff];
        let Action::Close(refusal) = connection.receive(&mut bytes).action else { panic!() };
        assert!(connection.speaks_1_1() && refusal.status == crate::protocol::Status::Malformed);
    }

    #[test]
    fn commits_come_in_portions() {
        let mut bytes = b"\x13\x00\x08\x01\x00\x01t\x03\x00\x01g".to_vec();
        let mut connection = Connection::new(LIMITS);
        assert!(matches!(connection.receive(&mut bytes).action, Action::Open(_)));
        connection.opened(Opened::Committer);
        let mut sent = vec![0; COMMITS_PER_STEP * v1_1::COMMIT_LEN + 9];
        let portion = sent.len() - 9;
        let Step { consumed, action } = connection.receive(&mut sent);
        let Action::Commit(commits) = action else { panic!() };
        assert_eq!((commits.len(), consumed), (COMMITS_PER_STEP, portion));
        let step = connection.receive(&mut sent[..5]);
        assert!(matches!((step.consumed, step.action), (0, Action::Read { needed: 8 })));
        assert_eq!(connection.end_of_input(5), Some(CloseReason::Truncated));
    }

    #[test]
    fn acks_follow_the_run() {
        let mut bytes = [frame(b"a"), frame(b"b")].concat();
        let mut run = Run::parse(&mut bytes, &LIMITS).unwrap();
        run.assign_offsets(7, |_, _| ());
        let mut out = Vec::new();
        acks(run.iter(), true, &mut out);
        assert_eq!(out, [Ack::stored(7).to_bytes(), Ack::stored(8).to_bytes()].concat());
        out.clear();
        acks(run.iter(), false, &mut out);
        assert_eq!(out, [Ack::NOT_STORED.to_bytes(); 2].concat());
        assert_eq!(out.len(), 2 * ACK_LEN);
    }

    proptest! {
        /// However the stream is cut, the same frames come out.
        #[test]
        fn cuts_do_not_matter(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
                              cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let mut bytes = produce_bytes();
            for payload in &payloads { bytes.extend(frame(payload)); }
            let mut cuts: Vec<_> = cuts.iter().map(|c| c.index(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(feed(&chunks), (payloads, None));
        }

        #[test]
        fn garbage_never_panics(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8), role in 0u8..0x15) {
            let mut chunks = chunks;
            if let Some(first) = chunks.first_mut() { first.insert(0, role); }
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let _ = feed(&chunks);
        }
    }
}
