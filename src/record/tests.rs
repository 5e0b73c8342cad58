use proptest::prelude::*;

use super::*;

const LIMITS: FrameLimits = FrameLimits { key_bytes: 64, payload_bytes: 4096, record_count: 1000 };

fn frame(key: &[u8], payload: &[u8], count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    FrameBuilder::new(7).key(key).record_count(count).write(payload, &mut out).unwrap();
    out
}

#[test]
fn header_bytes_are_the_documented_ones() {
    let header = Header {
        magic: 1,
        timestamp: 0x0102_0304_0506_0708,
        offset: 9,
        key_size: 2,
        payload_size: 3,
        record_count: 4,
    };
    let bytes = header.to_bytes();
    assert_eq!(
        bytes,
        [1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]
    );
    assert_eq!(Header::read(&bytes), Some(header));
    assert_eq!(Header::read(&bytes[..28]), None);
}

#[test]
fn incomplete_is_not_malformed() {
    let whole = frame(b"k", b"payload", 1);
    for len in 0..whole.len() {
        let needed = if len < HEADER_LEN { HEADER_LEN } else { whole.len() } as u64;
        assert_eq!(check(&whole[..len], &LIMITS), Ok(Check::Incomplete { needed }), "{len}");
    }
    assert!(matches!(check(&whole, &LIMITS), Ok(Check::Complete(_))));
    assert_eq!(check(&[2], &LIMITS), Err(FrameError::Magic(2)));
}

#[test]
fn claims_over_the_limit_are_refused_with_the_header_alone() {
    let header = Header {
        magic: MAGIC_V1,
        timestamp: 0,
        offset: u64::MAX,
        key_size: 0,
        payload_size: 0,
        record_count: 1,
    };
    let refused = |header: Header| check(&header.to_bytes(), &LIMITS).unwrap_err();
    assert_eq!(
        refused(Header { key_size: u32::MAX, ..header }),
        FrameError::KeyTooLarge { size: u32::MAX, max: 64 }
    );
    assert_eq!(
        refused(Header { payload_size: u32::MAX, ..header }),
        FrameError::PayloadTooLarge { size: u32::MAX, max: 4096 }
    );
    assert_eq!(
        refused(Header { record_count: u32::MAX, ..header }),
        FrameError::TooManyRecords { count: u32::MAX, max: 1000 }
    );
    // Sums of u32 sizes do not overflow.
    let widest = Header { key_size: u32::MAX, payload_size: u32::MAX, ..header };
    assert_eq!(widest.frame_len(), 29 + 2 * u64::from(u32::MAX));
    assert_eq!(widest.next_offset(), u64::MAX);
    assert_eq!(
        check(&widest.to_bytes(), &FrameLimits::STORED),
        Ok(Check::Incomplete { needed: widest.frame_len() })
    );
}

#[test]
fn good_frames_before_a_bad_one_are_kept() {
    let mut buf = frame(b"", b"one", 1);
    let good = buf.len();
    buf.push(0xee);
    let found = scan(&mut buf, &LIMITS);
    assert_eq!((found.len, found.frames), (good, 1));
    assert_eq!(found.rest, Err(FrameError::Magic(0xee)));
}

#[test]
fn record_count_zero_is_stored_as_one() {
    let mut buf = frame(b"", b"x", 0);
    let run = Run::parse(&mut buf, &LIMITS).unwrap();
    assert_eq!(run.records(), 1);
    assert_eq!(buf, frame(b"", b"x", 1));
}

#[test]
fn batches_split_only_where_every_record_shows() {
    let split = |payload: &'static [u8], count| records(payload, count).collect::<Vec<_>>();
    assert_eq!(split(b"a\nb\n", 2), [&b"a"[..], b"b"]);
    assert_eq!(split(b"\n\n", 2), [&b""[..], b""]);
    assert_eq!(split(b"a\nb\n", 1), [&b"a\nb\n"[..]]);
    assert_eq!(split(b"a\nb\n", 3), [&b"a\nb\n"[..]]);
    assert_eq!(split(b"a\nb", 2), [&b"a\nb"[..]]);
    assert_eq!(split(b"", 0), [&b""[..]]);
}

proptest! {
    /// Scanning finds the same frames however the stream is cut, and patching changes the offsets alone.
    #[test]
    fn scan_and_patch_equal_the_model(
        frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..8), prop::collection::vec(any::<u8>(), 0..64), 0u32..50),
            0..20,
        ),
        cut in any::<prop::sample::Index>(),
        first in 0u64..1_000_000,
    ) {
        let whole: Vec<u8> = frames.iter().flat_map(|(k, p, n)| frame(k, p, *n)).collect();
        let cut = cut.index(whole.len() + 1);
        let mut buf = whole[..cut].to_vec();
        let found = scan(&mut buf, &LIMITS);
        prop_assert!(found.rest.is_ok());
        prop_assert!(found.len <= cut);
        let complete = frames.iter().scan(0, |end, (k, p, _)| {
            *end += HEADER_LEN + k.len() + p.len();
            Some(*end)
        }).take_while(|end| *end <= cut).count();
        prop_assert_eq!(found.frames, complete);

        if found.frames > 0 {
            let mut run = Run::found(&mut buf, &found);
            let mut expected = first;
            let next = run.assign_offsets(first, |_, _| ());
            for ((header, key, payload), (k, p, n)) in run.iter().zip(&frames) {
                prop_assert_eq!(header.offset, expected);
                prop_assert_eq!(header.record_count, (*n).max(1));
                prop_assert_eq!(header.timestamp, 7);
                prop_assert_eq!((key, payload), (&k[..], &p[..]));
                expected += u64::from((*n).max(1));
            }
            prop_assert_eq!(next, expected);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        if let Some(first) = bytes.first_mut() { *first %= 3; }
        let len = bytes.len();
        let found = scan(&mut bytes, &LIMITS);
        prop_assert!(found.len <= len);
        let _ = records(&bytes, 3).count();
    }
}
