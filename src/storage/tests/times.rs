//! Looking a record up by its time, whoever set it.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::{DIR, LogOptions, append, options};
use crate::metrics::Metrics;
use crate::record::{FrameBuilder, FrameLimits, Frames, Run};
use crate::storage::sim_disk::SimDisk;
use crate::storage::{Disk as _, Environment, Log, ManualClock, Timestamps};

/// A log of small segments, with the clock that it goes by.
fn log(timestamps: Timestamps) -> (Log, Arc<ManualClock>) {
    let disk = SimDisk::default();
    disk.create_dir(Path::new(DIR)).unwrap();
    let clock = Arc::new(ManualClock::new(1));
    let env = Environment {
        disk: Arc::new(disk),
        clock: Arc::clone(&clock) as _,
        metrics: Arc::new(Metrics::default()),
    };
    let options = LogOptions { timestamps, ..options(20_000) };
    (Log::open(env, Path::new(DIR), options).unwrap(), clock)
}

fn frame(timestamp: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameBuilder::new(timestamp).write(&vec![b'x'; len], &mut bytes).unwrap();
    bytes
}

/// The offset of the first record at or after a time, by reading all of them.
fn expected(times: &[u64], time: u64) -> u64 {
    times.iter().position(|&at| at >= time).unwrap_or(times.len()) as u64
}

fn found(log: &Log, time: u64) -> u64 {
    let mut cursor = log.locate_time(time).unwrap();
    log.offset_at(&mut cursor).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The sender's times, in any order.
    #[test]
    fn of_the_senders(records in prop::collection::vec((0u64..50, 1usize..6_000), 1..60)) {
        let (log, _) = log(Timestamps::Create);
        for &(time, len) in &records {
            append(&log, frame(time, len)).unwrap();
        }
        let times: Vec<u64> = records.iter().map(|(time, _)| *time).collect();
        // Twice: what was remembered of a segment says the same.
        for time in (0..52).chain(0..52) {
            prop_assert_eq!(found(&log, time), expected(&times, time), "{}", time);
        }
    }

    /// The broker's times, which the senders' do not change.
    #[test]
    fn of_the_broker(records in prop::collection::vec((0u64..4, 1usize..6_000), 1..60)) {
        let (log, clock) = log(Timestamps::Append);
        let (mut now, mut times) = (100, Vec::new());
        for &(passes, len) in &records {
            now += passes;
            clock.set(now);
            let stored = append(&log, frame(u64::MAX, len)).unwrap();
            let (header, ..) = Frames::new(&stored).next().unwrap();
            prop_assert_eq!(header.timestamp, now);
            times.push(now);
        }
        for time in (90..now + 3).chain(90..now + 3) {
            prop_assert_eq!(found(&log, time), expected(&times, time), "{}", time);
        }
    }
}

#[test]
fn frames_of_a_run_share_the_time_of_their_append() {
    let (log, clock) = log(Timestamps::Append);
    clock.set(55);
    let mut bytes = [frame(1, 10), frame(2, 20)].concat();
    log.append(&mut Run::parse(&mut bytes, &FrameLimits::STORED).unwrap()).unwrap();
    assert_eq!(
        Frames::new(&bytes).map(|(header, ..)| header.timestamp).collect::<Vec<_>>(),
        [55, 55]
    );
    // Back to the senders'.
    log.alter(options(20_000)).unwrap();
    let stored = append(&log, frame(7, 10)).unwrap();
    assert_eq!(Frames::new(&stored).next().unwrap().0.timestamp, 7);
}
