//! The oracle of the fault tests: records that carry who wrote them, and a journal of those that must be there.
//!
//! Everything in a record follows from its [`Stamp`], which its key holds. So any record that is served can be compared,
//! byte for byte, with the one that was sent, acked or not.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use hermitmq::record::{FrameBuilder, wire};

use super::raw::{PRODUCE, handshake};
use super::{Frame, Random, RawClient, assert_offsets_follow, drain, names_in_use};

/// Longest payload of a stamped record.
pub const LARGEST: u32 = 64 << 10;

/// Bytes that payloads are cut from.
fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| Random::from(1).bytes(2 * LARGEST as usize))
}

/// A topic and one of its partitions.
pub type Place = (String, u32);

/// Which record it is: its writer, its number there, and the length of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub writer: u64,
    pub number: u64,
    pub len: u32,
}

impl Stamp {
    fn mix(self) -> u64 {
        let mixed = (self.writer ^ self.number.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    fn payload(self) -> &'static [u8] {
        let start = usize::try_from(self.mix() % u64::from(LARGEST)).unwrap();
        &noise()[start..start + self.len as usize]
    }

    /// One frame in eight is a batch.
    fn record_count(self) -> u32 {
        if self.number.is_multiple_of(8) { 1 + u32::try_from(self.mix() % 5).unwrap() } else { 1 }
    }

    fn key(self) -> [u8; 20] {
        let mut key = [0; 20];
        key[..8].copy_from_slice(&wire::u64_bytes(self.writer));
        key[8..16].copy_from_slice(&wire::u64_bytes(self.number));
        key[16..].copy_from_slice(&wire::u32_bytes(self.len));
        key
    }

    /// Appends the frame that a producer sends.
    pub fn write(self, out: &mut Vec<u8>) {
        let frame = FrameBuilder::new(self.number).record_count(self.record_count());
        frame.key(&self.key()).write(self.payload(), out).unwrap();
    }

    /// The stamp of a frame; `None` if these are not, to the last bit, the bytes that were sent with it.
    pub fn of(frame: &Frame) -> Option<Self> {
        let key = frame.key();
        let stamp = Self {
            writer: wire::get_u64(key, 0)?,
            number: wire::get_u64(key, 8)?,
            len: wire::get_u32(key, 16)?,
        };
        let header = frame.header;
        let same = key.len() == 20
            && stamp.len <= LARGEST
            && header.timestamp == stamp.number
            && header.record_count == stamp.record_count()
            && frame.payload() == stamp.payload();
        same.then_some(stamp)
    }
}

/// A record that must be there.
#[derive(Debug, Clone, Copy)]
struct Held {
    stamp: Stamp,
    /// When the client knew.
    since: Instant,
}

/// What may be missing after a fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    Nothing,
    /// The end of a log, but nothing known before this moment, and nothing below these offsets.
    Suffix {
        known_before: Instant,
        durable: HashMap<Place, u64>,
    },
}

/// Where each log in a data directory is durable up to, by the names of its files: a segment gets its name for good once
/// the one before it has been flushed.
pub fn durable_ends(data: &Path, places: &[Place]) -> HashMap<Place, u64> {
    let mut ends = HashMap::new();
    for place in places {
        let dir = data.join(format!("{}_{}", place.0, place.1));
        let is_log = |name: &str| name.strip_suffix(".wal").is_some();
        let names = if dir.exists() { names_in_use(&dir, is_log) } else { Vec::new() };
        let bases = names.iter().filter_map(|name| name.strip_suffix(".wal")?.parse().ok());
        ends.insert(place.clone(), bases.max().unwrap_or(0));
    }
    ends
}

/// Records that a client has heard of, by an ack or as a consumer, and who wrote where.
#[derive(Debug, Default, Clone)]
pub struct Journal {
    logs: BTreeMap<Place, BTreeMap<u64, Held>>,
    writers: HashMap<u64, Place>,
}

impl Journal {
    /// A writer's records go to this place alone.
    pub fn writer(&mut self, writer: u64, place: &Place) {
        assert_eq!(self.writers.insert(writer, place.clone()), None, "writer {writer} twice");
        self.logs.entry(place.clone()).or_default();
    }

    /// From now on the record must be there, at this offset.
    pub fn hold(&mut self, place: &Place, offset: u64, stamp: Stamp, since: Instant) {
        let log = self.logs.entry(place.clone()).or_default();
        let held = log.entry(offset).or_insert(Held { stamp, since });
        assert_eq!(held.stamp, stamp, "offset {offset} of {place:?} stands for two records");
        held.since = held.since.min(since);
    }

    /// Appends a record on a connection of its own, and waits until it is stored. Returns its offset.
    pub fn append(&mut self, addr: SocketAddr, place: &Place) -> u64 {
        self.try_append(addr, place).unwrap_or_else(|| panic!("{place:?} takes no record"))
    }

    /// As [`Journal::append`]; `None` if it is not stored.
    pub fn try_append(&mut self, addr: SocketAddr, place: &Place) -> Option<u64> {
        let writer = u64::MAX - self.writers.len() as u64;
        self.writer(writer, place);
        let stamp = Stamp { writer, number: 0, len: 100 };
        let mut bytes = Vec::new();
        stamp.write(&mut bytes);
        let mut client = RawClient::try_begin(addr, &handshake(PRODUCE, &[&place.0], place.1))?;
        let acked = client.try_send(&bytes).then(|| client.try_read_ack()).flatten();
        let offset = acked.filter(|ack| ack.code == 0)?.offset;
        self.hold(place, offset, stamp, Instant::now());
        Some(offset)
    }

    /// Records that must be there.
    pub fn len(&self) -> usize {
        self.logs.values().map(BTreeMap::len).sum()
    }

    /// Places that were written to.
    pub fn places(&self) -> Vec<Place> {
        self.logs.keys().cloned().collect()
    }

    /// The offset after the last record that must be there, of each place that has one.
    pub fn ends(&self) -> HashMap<Place, u64> {
        let last = |log: &BTreeMap<u64, Held>| log.last_key_value().map(|(&offset, _)| offset);
        let ends =
            self.logs.iter().filter_map(|(place, log)| Some((place.clone(), last(log)? + 1)));
        ends.collect()
    }

    /// Drains every partition and compares; what the loss covers is forgotten. Returns the records that were lost.
    pub fn check(&mut self, addr: SocketAddr, loss: &Loss, what: &str) -> usize {
        let places = self.places();
        places.iter().map(|place| self.check_log(addr, place, loss, what)).sum()
    }

    fn check_log(&mut self, addr: SocketAddr, place: &Place, loss: &Loss, what: &str) -> usize {
        let frames = drain(addr, "oracle", &place.0, place.1);
        let end = assert_offsets_follow(&frames, 0);
        let found = self.stamps(&frames, place, what);
        let log = self.logs.get_mut(place).unwrap();
        let mut lost = 0;
        log.retain(|&offset, held| {
            if found.get(&offset) == Some(&held.stamp) {
                return true;
            }
            let allowed = match loss {
                Loss::Nothing => false,
                Loss::Suffix { known_before, durable } => {
                    let durable = durable.get(place).copied().unwrap_or(0);
                    offset >= end && held.since > *known_before && offset >= durable
                }
            };
            let age = held.since.elapsed();
            assert!(
                allowed,
                "{what}: offset {offset} of {place:?} is not what it was: {held:?}, known for {age:?}; there is \
                 {:?}, the log ends at {end}; allowed: {loss:?}",
                found.get(&offset)
            );
            lost += 1;
            false
        });
        lost
    }

    /// The stamps of frames: each is exactly as it was sent, to this place, and those of a writer keep their order.
    pub fn stamps(&self, frames: &[Frame], place: &Place, what: &str) -> HashMap<u64, Stamp> {
        let mut last = HashMap::new();
        let stamp = |frame: &Frame| {
            let offset = frame.header.offset;
            let stamp = Stamp::of(frame).unwrap_or_else(|| {
                panic!("{what}: offset {offset} of {place:?} was never sent: {:?}", frame.header)
            });
            let to = self.writers.get(&stamp.writer);
            assert_eq!(to, Some(place), "{what}: offset {offset}: {stamp:?} was sent elsewhere");
            if let Some(before) = last.insert(stamp.writer, stamp.number) {
                assert!(before < stamp.number, "{what}: {offset}: {stamp:?} stands after {before}");
            }
            (offset, stamp)
        };
        frames.iter().map(stamp).collect()
    }
}
