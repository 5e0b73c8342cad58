//! Random lives of a compacted log against what compaction is: a list of frames, and which of them are superseded.

use proptest::prelude::*;

use super::*;

const KEYS: u8 = 6;

#[derive(Debug, Clone)]
enum Do {
    /// Appends a run: key (the last one is none), bytes of payload and record count of each frame.
    Append(Vec<(u8, usize, u32)>),
    Seal,
    Time(u64),
    Compact,
    /// One pass with room for few keys.
    SmallPass(u64),
    /// Reads on with a cursor that is kept, one slice of at most so many bytes.
    Follow(u64),
    Reopen,
    Kill,
}

fn step() -> impl Strategy<Value = Do> {
    let payload = prop_oneof![2 => Just(0usize), 5 => 1usize..60, 1 => 3000usize..9000];
    let frame = (0..=KEYS, payload, 0u32..4);
    prop_oneof![
        10 => prop::collection::vec(frame, 1..5).prop_map(Do::Append),
        2 => Just(Do::Seal),
        3 => (1..STAYS).prop_map(Do::Time),
        3 => Just(Do::Compact),
        2 => (0u64..200).prop_map(Do::SmallPass),
        6 => (1u64..5000).prop_map(Do::Follow),
        1 => Just(Do::Reopen),
        1 => Just(Do::Kill),
    ]
}

#[derive(Debug, Clone)]
struct Kept {
    offset: Offset,
    key: Vec<u8>,
    tombstone: bool,
    bytes: Vec<u8>,
    /// When it may have been compacted first, and when it was.
    may_since: Option<u64>,
    since: Option<u64>,
}

fn now_of(world: &World) -> u64 {
    super::super::super::Clock::now_ns(&*world.clock)
}

/// The log, what should be in it, and a reader that moves on bit by bit.
struct Life {
    world: World,
    frames: Vec<Kept>,
    cursor: Cursor,
    followed: Vec<u8>,
}

impl Life {
    fn new(segment_bytes: u64) -> Self {
        let world = World::new(segment_bytes);
        let cursor = world.log.locate(0).unwrap();
        Self { world, frames: Vec::new(), cursor, followed: Vec::new() }
    }

    fn append(&mut self, frames: &[(u8, usize, u32)]) {
        let mut run = Vec::new();
        for &(key, payload, count) in frames {
            let key: &[u8] = if key == KEYS { b"" } else { &[key; 3] };
            let fill = u8::try_from((self.frames.len() + run.len()) % 251).unwrap();
            run.extend(frame(key, &vec![fill; payload], count));
        }
        let stored = append(&self.world.log, run).unwrap();
        self.world.log.flush().unwrap();
        for ((header, key, payload), (.., range)) in Frames::new(&stored).zip(frames_of(&stored)) {
            self.frames.push(Kept {
                offset: header.offset,
                key: key.to_vec(),
                tombstone: !key.is_empty() && payload.is_empty(),
                bytes: stored[range].to_vec(),
                may_since: None,
                since: None,
            });
        }
    }

    /// Takes out what compaction does, of what is sealed. What is compared afterwards is the log: tombstones may stay a
    /// quarter longer than they must.
    fn compact(&mut self) {
        let now = now_of(&self.world);
        self.world.compact();
        let sealed = *bases(&self.world.disk).last().unwrap();
        let found = self.world.bytes();
        let there = |offset| Frames::new(&found).any(|(header, ..)| header.offset == offset);
        let newest: HashMap<Vec<u8>, Offset> = self
            .frames
            .iter()
            .filter(|frame| frame.offset < sealed)
            .map(|frame| (frame.key.clone(), frame.offset))
            .collect();
        let age = |since: Option<u64>| since.map_or(0, |since| now - since);
        self.frames.retain(|frame| {
            let stays = age(frame.may_since) < STAYS;
            let may_stay = age(frame.since) <= STAYS + STAYS / 4 && there(frame.offset);
            frame.offset >= sealed
                || frame.key.is_empty()
                || newest[&frame.key] == frame.offset && (!frame.tombstone || stays || may_stay)
        });
        for frame in self.frames.iter_mut().filter(|frame| frame.offset < sealed) {
            frame.may_since.get_or_insert(now);
            frame.since.get_or_insert(now);
        }
        self.compare();
        self.world.check();
    }

    fn compare(&self) {
        let expected: Vec<_> = self.frames.iter().flat_map(|frame| frame.bytes.clone()).collect();
        assert!(self.world.bytes() == expected, "the log is what the model says");
    }

    /// A pass that may not come to the end of what is dirty: nothing that counts may be missing, but for tombstones that may
    /// have been there for their time.
    fn small_pass(&mut self, memory_bytes: u64) {
        let now = now_of(&self.world);
        let before = newest_of(&self.world.bytes());
        let rules = CompactionRules { memory_bytes, ..RULES };
        self.world.log.compact(&rules, &mut |_| true).unwrap();
        let after = self.world.bytes();
        let there: Vec<_> = Frames::new(&after).map(|(header, ..)| header.offset).collect();
        for (header, ..) in Frames::new(&before) {
            let frame = self.frames.iter().find(|frame| frame.offset == header.offset).unwrap();
            let old = frame.may_since.is_some_and(|since| now - since >= STAYS);
            assert!(frame.tombstone && old || there.contains(&frame.offset), "{frame:?}");
        }
        self.frames.retain(|frame| there.contains(&frame.offset));
        self.compare();
        let sealed = *bases(&self.world.disk).last().unwrap();
        for frame in self.frames.iter_mut().filter(|frame| frame.offset < sealed) {
            frame.may_since.get_or_insert(now);
        }
    }

    fn follow(&mut self, max: u64) -> bool {
        match self.world.log.fetch(&mut self.cursor, max) {
            Fetch::Slice(slice) => {
                let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
                assert_eq!(slice.read(&mut buf).unwrap(), buf.len());
                self.cursor.advance(slice.len());
                self.followed.extend(buf);
                true
            }
            Fetch::Tail => {
                self.check_followed();
                false
            }
            Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged"),
        }
    }

    /// A reader that has come to the end has got everything that is in the log, in order, and each once.
    fn check_followed(&mut self) {
        assert_eq!(self.cursor.take_moved(), None);
        let frames = frames_of(&self.followed);
        assert!(frames.windows(2).all(|pair| pair[0].1 <= pair[1].0), "offsets grow");
        let got: HashMap<Offset, &[u8]> = frames
            .iter()
            .map(|(offset, _, range)| (*offset, &self.followed[range.clone()]))
            .collect();
        for kept in &self.frames {
            assert!(got.get(&kept.offset) == Some(&&*kept.bytes), "offset {}", kept.offset);
        }
    }

    fn reopen(&mut self, disk: SimDisk) {
        self.world.reopen(disk);
        assert_eq!(self.world.metrics.segments_damaged.get(), 0);
        assert_eq!(self.world.metrics.indexes_rebuilt.get(), 0, "a right index is kept");
        assert_eq!(self.world.metrics.offset_gaps.get(), 0);
        // A cursor does not outlive its log: the reader begins again.
        self.cursor = self.world.log.locate(self.world.log.start_offset()).unwrap();
        self.followed.clear();
        self.compare();
        self.world.check();
    }

    fn step(&mut self, step: &Do) {
        match step {
            Do::Append(frames) => self.append(frames),
            Do::Seal => {
                self.world.log.roll_if(|_| true).unwrap();
                self.world.log.flush().unwrap();
            }
            Do::Time(ns) => self.world.clock.pass(*ns),
            Do::Compact => self.compact(),
            Do::SmallPass(memory_bytes) => self.small_pass(*memory_bytes),
            Do::Follow(max) => drop(self.follow(*max)),
            Do::Reopen => {
                self.world.log.close().unwrap();
                self.reopen(self.world.disk.clone());
            }
            Do::Kill => self.reopen(self.world.disk.kill()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_compacted_log_equals_its_model(
        segment_bytes in prop_oneof![Just(1u64), 100u64..600, 600u64..3000, 9000u64..30_000],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut life = Life::new(segment_bytes);
        for step in &steps {
            life.step(step);
        }
        life.compact();
        while life.follow(700) {}
    }
}
