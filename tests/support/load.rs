//! Producers, consumers and committers that work until they are stopped or the broker is gone.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hermitmq::record::{Check, FrameLimits, Frames, HEADER_LEN, check, wire};

use super::journal::LARGEST;
use super::raw::{COMMIT, CONSUME, PRODUCE, handshake};
use super::{Frame, Journal, Place, Random, RawClient, Stamp, drain, wait_for};

/// The group that commits what was acked.
pub const GROUP: &str = "follower";

/// What a load consists of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where each producer writes; a place may stand here more than once.
    pub producers: Vec<Place>,
    /// Places with a consumer.
    pub watched: Vec<Place>,
    /// Places whose acks are committed.
    pub committed: Vec<Place>,
    /// Length of most payloads, at most.
    pub usual: u32,
    /// Bytes that each producer sends, at most.
    pub budget: u64,
}

/// An ack: what for, and when it came.
#[derive(Debug, Clone, Copy)]
struct Acked {
    code: u8,
    offset: u64,
    stamp: Stamp,
    at: Instant,
}

/// Commits of a group in a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Commits {
    /// The last one that was answered.
    pub answered: Option<u64>,
    /// The one after it, which was sent and not answered.
    pub unanswered: Option<u64>,
}

/// What a load has brought to light.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Acks that say stored.
    pub stored: usize,
    /// Acks that say not stored.
    pub refused: usize,
    pub commits: BTreeMap<Place, Commits>,
}

/// A load under way.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    /// Producers end once their budget is used up.
    last: Arc<AtomicBool>,
    /// Some frame was refused.
    refused: Arc<AtomicBool>,
    producers: Vec<(Place, JoinHandle<Vec<Acked>>)>,
    watchers: Vec<(Place, JoinHandle<Watched>)>,
    committers: Vec<(Place, JoinHandle<Commits>)>,
}

impl Load {
    /// Connects everyone, as far as the broker is still there, and begins. Writers are entered in the journal.
    pub fn start(addr: SocketAddr, plan: &Plan, seed: u64, journal: &mut Journal) -> Self {
        let [stop, last, refused] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        let mut ends = BTreeMap::<Place, Arc<AtomicU64>>::new();
        let mut producers = Vec::new();
        for (place, number) in plan.producers.iter().zip(0..) {
            let writer = seed.wrapping_mul(1000).wrapping_add(number);
            journal.writer(writer, place);
            let hello = handshake(PRODUCE, &[&place.0], place.1);
            let Some(client) = RawClient::try_begin(addr, &hello) else { continue };
            let producer = Producer {
                client,
                writer,
                // Every second one waits for each ack.
                window: if number % 2 == 0 { 64 } else { 1 },
                usual: plan.usual,
                budget: plan.budget,
                stop: Arc::clone(&stop),
                last: Arc::clone(&last),
                refused: Arc::clone(&refused),
                end: Arc::clone(ends.entry(place.clone()).or_default()),
            };
            producers.push((place.clone(), std::thread::spawn(move || producer.run())));
        }
        let watch = |place: &Place| {
            let hello = handshake(CONSUME, &["watcher", &place.0], place.1);
            let client = RawClient::try_begin(addr, &hello)?;
            Some((place.clone(), std::thread::spawn(move || Watched::until_gone(&client))))
        };
        let watchers = plan.watched.iter().filter_map(watch).collect();
        let mut commit = |place: &Place| {
            let end = Arc::clone(ends.entry(place.clone()).or_default());
            let stop = Arc::clone(&stop);
            let to = place.clone();
            (place.clone(), std::thread::spawn(move || commit_until_gone(addr, &to, &end, &stop)))
        };
        let committers = plan.committed.iter().map(&mut commit).collect();
        Self { stop, last, refused, producers, watchers, committers }
    }

    /// Waits until some frame was refused.
    pub fn wait_refused(&self) {
        wait_for("a refusal", || self.refused.load(Ordering::Relaxed).then_some(()));
    }

    /// Lets producers and committers come to an end; those who watch go on.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// As [`Load::finish`], once every producer has used up its budget and got its acks.
    pub fn spend(self, journal: &mut Journal) -> Outcome {
        self.last.store(true, Ordering::Relaxed);
        self.finish(journal)
    }

    /// Waits for everyone, and enters into the journal what they know. The broker is gone, or [`Load::stop`] was called
    /// and nobody watches.
    pub fn finish(self, journal: &mut Journal) -> Outcome {
        let mut outcome = Outcome::default();
        for (place, producer) in self.producers {
            let acks = producer.join().unwrap();
            let stored = || acks.iter().filter(|ack| ack.code == 0);
            assert!(stored().is_sorted_by(|a, b| a.offset < b.offset), "acks of a connection grow");
            stored().for_each(|ack| journal.hold(&place, ack.offset, ack.stamp, ack.at));
            outcome.stored += stored().count();
            outcome.refused += acks.len() - stored().count();
        }
        // Where nothing was acked, nothing is committed: nobody there would notice that the broker is gone.
        self.stop.store(true, Ordering::Relaxed);
        for (place, watcher) in self.watchers {
            let watched = watcher.join().unwrap();
            let frames = whole_frames(&watched.bytes);
            let stamps = journal.stamps(&frames, &place, "a consumer");
            let mut end = 0;
            for frame in &frames {
                end += frame.bytes.len();
                let offset = frame.header.offset;
                journal.hold(&place, offset, stamps[&offset], watched.had(end));
            }
        }
        for (place, committer) in self.committers {
            outcome.commits.insert(place, committer.join().unwrap());
        }
        outcome
    }
}

/// What a consumer was sent.
#[derive(Debug, Default)]
struct Watched {
    bytes: Vec<u8>,
    /// How many bytes there were at some moments.
    moments: Vec<(usize, Instant)>,
}

impl Watched {
    fn until_gone(client: &RawClient) -> Self {
        let mut watched = Self::default();
        let mut chunk = vec![0; 1 << 18];
        while let Ok(len @ 1..) = (&mut client.stream()).read(&mut chunk) {
            watched.bytes.extend_from_slice(&chunk[..len]);
            watched.moments.push((watched.bytes.len(), Instant::now()));
        }
        watched
    }

    /// When it had this many bytes.
    fn had(&self, bytes: usize) -> Instant {
        self.moments[self.moments.partition_point(|(len, _)| *len < bytes)].1
    }
}

/// The frames at the beginning of `bytes`; what follows them must be the beginning of a frame.
fn whole_frames(bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Frames::new(bytes);
    let mut found = Vec::new();
    let mut at = 0;
    for (header, ..) in frames.by_ref() {
        let end = at + usize::try_from(header.frame_len()).unwrap();
        found.push(Frame { header, bytes: bytes[at..end].to_vec() });
        at = end;
    }
    let rest = frames.rest();
    let cut = rest.len() < HEADER_LEN
        || matches!(check(rest, &FrameLimits::STORED), Ok(Check::Incomplete { .. }));
    assert!(cut, "a consumer was sent bytes that are no frame, behind {} frames", found.len());
    found
}

struct Producer {
    client: RawClient,
    writer: u64,
    window: usize,
    usual: u32,
    budget: u64,
    stop: Arc<AtomicBool>,
    last: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
    /// Offset after the last ack, of all who write there.
    end: Arc<AtomicU64>,
}

impl Producer {
    fn run(mut self) -> Vec<Acked> {
        let (sent, in_flight) = sync_channel(self.window);
        let over = Arc::new(AtomicBool::new(false));
        let sender = Sender {
            client: self.client.split(),
            writer: self.writer,
            usual: self.usual,
            budget: self.budget,
            stop: Arc::clone(&self.stop),
            last: Arc::clone(&self.last),
            over: Arc::clone(&over),
        };
        let sending = std::thread::spawn(move || sender.run(&sent));
        let acks = self.take_acks(&in_flight);
        over.store(true, Ordering::Relaxed);
        drop(in_flight);
        drop(self.client);
        sending.join().unwrap();
        acks
    }

    fn take_acks(&mut self, in_flight: &Receiver<Stamp>) -> Vec<Acked> {
        let mut acks = Vec::new();
        while let Some(ack) = self.client.try_read_ack() {
            let at = Instant::now();
            let stamp = in_flight.recv().expect("an ack for each frame and no more");
            if ack.code == 0 {
                self.end.fetch_max(ack.offset + 1, Ordering::Relaxed);
            } else {
                self.refused.store(true, Ordering::Relaxed);
            }
            acks.push(Acked { code: ack.code, offset: ack.offset, stamp, at });
        }
        acks
    }
}

/// The sending half of a producer.
struct Sender {
    client: RawClient,
    writer: u64,
    usual: u32,
    budget: u64,
    stop: Arc<AtomicBool>,
    last: Arc<AtomicBool>,
    /// No ack will come any more.
    over: Arc<AtomicBool>,
}

impl Sender {
    fn run(mut self, sent: &SyncSender<Stamp>) {
        let mut random = Random::from(self.writer);
        let mut bytes = Vec::new();
        for number in 0.. {
            while self.budget == 0 && !self.is_done() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if self.is_done() {
                break;
            }
            let longest = if random.below(50) == 0 { LARGEST } else { self.usual };
            let len = u32::try_from(random.below(u64::from(longest))).unwrap();
            let stamp = Stamp { writer: self.writer, number, len };
            bytes.clear();
            stamp.write(&mut bytes);
            if sent.send(stamp).is_err() || !self.client.try_send(&bytes) {
                return;
            }
            self.budget = self.budget.saturating_sub(bytes.len() as u64);
        }
        self.client.try_finish_sending();
    }

    fn is_done(&self) -> bool {
        let spent = self.budget == 0 && self.last.load(Ordering::Relaxed);
        spent || self.stop.load(Ordering::Relaxed) || self.over.load(Ordering::Relaxed)
    }
}

/// Commits the end of what was acked, again and again.
fn commit_until_gone(
    addr: SocketAddr,
    place: &Place,
    end: &AtomicU64,
    stop: &AtomicBool,
) -> Commits {
    let mut commits = Commits::default();
    while !stop.load(Ordering::Relaxed) {
        let offset = end.load(Ordering::Relaxed);
        if offset > 0 {
            commits.unanswered = Some(offset);
            if !try_commit(addr, place, offset) {
                break;
            }
            commits = Commits { answered: Some(offset), unanswered: None };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    commits
}

fn try_commit(addr: SocketAddr, place: &Place, offset: u64) -> bool {
    let mut bytes = handshake(COMMIT, &[GROUP, &place.0], place.1);
    bytes.extend_from_slice(&wire::u64_bytes(offset));
    let client = RawClient::try_begin(addr, &bytes);
    client.is_some_and(|client| client.stream().read_exact(&mut [0]).is_ok())
}

/// The group resumes where it committed; after a loss, before that or at the end of what is left. From there on it gets
/// everything, also what is appended next. Returns the offset of the frame it resumes at.
pub fn assert_group_resumes(
    addr: SocketAddr,
    place: &Place,
    journal: &mut Journal,
    commits: Commits,
    lossless: bool,
    what: &str,
) -> u64 {
    let all = drain(addr, "oracle", &place.0, place.1);
    let next = journal.append(addr, place);
    let got = drain(addr, GROUP, &place.0, place.1);
    let resumed =
        got.first().unwrap_or_else(|| panic!("{what}: {place:?}: the group gets nothing"));
    let (last, before) = got.split_last().unwrap();
    assert_eq!(last.header.offset, next, "{what}: {place:?}: what is appended next");
    assert!(
        all.ends_with(before),
        "{what}: {place:?}: the group gets all there is from its place on"
    );
    let holds =
        |offset: u64| (resumed.header.offset..resumed.header.next_offset()).contains(&offset);
    let known = [commits.answered, commits.unanswered];
    let there = known.into_iter().flatten().any(holds);
    let earlier = !lossless && known.into_iter().flatten().any(|to| to >= resumed.header.offset);
    let never = commits.answered.is_none() && resumed.header.offset == 0;
    assert!(
        there || earlier || never,
        "{what}: {place:?}: the group resumes at {}, its commits: {commits:?}",
        resumed.header.offset
    );
    resumed.header.offset
}
