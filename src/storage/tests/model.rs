//! The log against the simplest thing it could be: a vector of bytes.

use proptest::prelude::*;

use super::super::LocateError;
use super::super::sim_disk::SimDisk;
use super::*;

#[derive(Debug, Clone)]
enum Do {
    /// Appends one run: key length, payload length and record count of each frame.
    Append(Vec<(usize, usize, u32)>),
    /// Reads from an offset (this part of those there are), at most so many bytes at once.
    Read(prop::sample::Index, u64),
    /// Reads on with a cursor kept from the start, one slice of at most so many bytes.
    Follow(u64),
    Flush,
    Reopen,
    Kill,
}

fn payload_len() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..80, 2 => 80usize..900, 1 => 4000usize..9000]
}

fn step() -> impl Strategy<Value = Do> {
    let frame = (0usize..12, payload_len(), 0u32..5);
    prop_oneof![
        8 => prop::collection::vec(frame, 1..6).prop_map(Do::Append),
        3 => (any::<prop::sample::Index>(), 1u64..3000).prop_map(|(at, max)| Do::Read(at, max)),
        6 => (0u64..2000).prop_map(Do::Follow),
        1 => Just(Do::Flush),
        1 => Just(Do::Reopen),
        1 => Just(Do::Kill),
    ]
}

/// The log, its model, and a reader that began at the start and moves on bit by bit.
struct World {
    disk: SimDisk,
    segment_bytes: u64,
    opened: Opened,
    bytes: Vec<u8>,
    next: Offset,
    followed: usize,
    cursor: Cursor,
}

impl World {
    fn new(segment_bytes: u64) -> Self {
        let disk = SimDisk::default();
        let opened = open(&disk, segment_bytes);
        let cursor = opened.log.locate(0).unwrap();
        Self { disk, segment_bytes, opened, bytes: Vec::new(), next: 0, followed: 0, cursor }
    }

    fn append(&mut self, frames: &[(usize, usize, u32)]) {
        let mut run = Vec::new();
        for &(key, payload, count) in frames {
            let fill = u8::try_from((self.bytes.len() + run.len()) % 251).unwrap();
            run.extend(frame(&vec![b'k'; key], &vec![fill; payload], count));
        }
        let stored = append(&self.opened.log, run).unwrap();
        // Nothing but the offset may change, and a count of 0 becomes 1.
        let mut next = self.next;
        for ((first, after, range), &(key, payload, count)) in frames_of(&stored).iter().zip(frames)
        {
            assert_eq!((*first, *after), (next, next + u64::from(count.max(1))));
            assert_eq!(range.len(), 29 + key + payload);
            next = *after;
        }
        self.next = next;
        self.bytes.extend(stored);
        assert_eq!(self.opened.log.end_offset(), self.next);
    }

    fn read(&self, at: prop::sample::Index, max: u64) {
        let offset = at.index(usize::try_from(self.next).unwrap() + 1) as u64;
        let frame = frames_of(&self.bytes).into_iter().find(|(_, after, _)| *after > offset);
        let expected = frame.map_or(&[][..], |(.., range)| &self.bytes[range.start..]);
        let (found, end) = read_on(&self.opened.log, self.opened.log.locate(offset).unwrap(), max);
        assert_eq!(end, End::Tail);
        assert!(found == expected, "reading from {offset}, at most {max} bytes at once");
    }

    fn follow(&mut self, max: u64) {
        match self.opened.log.fetch(&mut self.cursor, max) {
            Fetch::Slice(slice) => {
                assert!(slice.len() <= max);
                let mut buf = vec![0; usize::try_from(slice.len()).unwrap()];
                assert_eq!(slice.read(&mut buf).unwrap(), buf.len());
                assert!(self.bytes[self.followed..].starts_with(&buf));
                self.cursor.advance(slice.len());
                self.followed += buf.len();
            }
            Fetch::Tail => assert_eq!(self.followed, self.bytes.len(), "nothing is skipped"),
            Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged or deleted"),
        }
    }

    fn reopen(&mut self) {
        self.opened = open(&self.disk, self.segment_bytes);
        assert_eq!(self.opened.metrics.torn_bytes.get(), 0);
        assert_eq!(self.opened.metrics.segments_damaged.get(), 0);
        assert_eq!(self.opened.metrics.indexes_rebuilt.get(), 0, "a right index is kept");
        assert_eq!(self.opened.log.end_offset(), self.next);
        // A cursor does not outlive its log: the reader begins again where it was.
        (self.cursor, self.followed) = (self.opened.log.locate(0).unwrap(), 0);
    }

    fn step(&mut self, step: &Do) {
        match step {
            Do::Append(frames) => self.append(frames),
            Do::Read(at, max) => self.read(*at, *max),
            Do::Follow(max) => self.follow(*max),
            Do::Flush => self.opened.log.flush().unwrap(),
            Do::Reopen => {
                self.opened.log.close().unwrap();
                self.reopen();
            }
            Do::Kill => {
                self.disk = self.disk.kill();
                self.reopen();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_log_equals_a_vector_of_bytes(
        segment_bytes in prop_oneof![Just(1u64), 60u64..400, 1000u64..3000, 9000u64..30_000],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(segment_bytes);
        for step in &steps {
            world.step(step);
        }
        assert_log_is(&world.opened.log, &world.bytes);
        let past = world.opened.log.locate(world.next + 1);
        let out_of_range = matches!(past, Err(LocateError::OutOfRange { .. }));
        prop_assert!(out_of_range);
    }
}

#[test]
fn a_run_larger_than_a_segment_gets_one_of_its_own() {
    let disk = SimDisk::default();
    let Opened { log, .. } = open(&disk, 100);
    let mut bytes = append(&log, record(&[1; 500])).unwrap();
    bytes.extend(append(&log, record(&[2; 10])).unwrap());
    bytes.extend(append(&log, record(&[3; 500])).unwrap());
    assert_eq!(bases(&disk), [0, 1, 2]);
    assert_log_is(&log, &bytes);
}
