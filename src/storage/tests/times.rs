//! Looking a record up by its time, whoever set it.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::{DIR, LogOptions, append, options};
use crate::metrics::Metrics;
use crate::record::{FrameBuilder, FrameLimits, Frames, Run};
use crate::storage::clock::Clock;
use crate::storage::sim_disk::SimDisk;
use crate::storage::time::GradualClock;
use crate::storage::{Disk as _, Environment, Log, ManualClock, Timestamps};

/// A log of small segments, with the clock that it goes by.
fn log(timestamps: Timestamps) -> (Log, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1));
    (open(&empty_disk(), Arc::clone(&clock) as _, timestamps), clock)
}

fn empty_disk() -> SimDisk {
    let disk = SimDisk::default();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk
}

fn open(disk: &SimDisk, clock: Arc<dyn Clock>, timestamps: Timestamps) -> Log {
    let metrics = Arc::new(Metrics::default());
    let env = Environment { disk: Arc::new(disk.clone()), clock, metrics };
    Log::open(env, Path::new(DIR), LogOptions { timestamps, ..options(20_000) }).unwrap()
}

/// The time that the next record gets.
fn stamp(log: &Log) -> u64 {
    Frames::new(&append(log, frame(1, 10)).unwrap()).next().unwrap().0.timestamp
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

#[test]
fn records_carry_the_time_of_the_machine_after_a_broker_was_down() {
    let disk = empty_disk();
    let wall = Arc::new(ManualClock::new(90_000));
    // Ages go on from where they stood.
    let clock = Arc::new(GradualClock::resume(Arc::clone(&wall) as _, Some(1_000)));
    let log = open(&disk, Arc::clone(&clock) as _, Timestamps::Append);
    assert_eq!((stamp(&log), clock.now_ns()), (90_000, 1_000));
}

#[test]
fn times_do_not_go_back_with_the_clock_of_the_machine() {
    let (disk, clock) = (empty_disk(), Arc::new(ManualClock::new(1_000)));
    let log = open(&disk, Arc::clone(&clock) as _, Timestamps::Append);
    assert_eq!(stamp(&log), 1_000);
    clock.set(990);
    assert_eq!(stamp(&log), 1_000);
    drop(log);
    clock.set(900);
    let log = open(&disk, Arc::clone(&clock) as _, Timestamps::Append);
    assert_eq!(stamp(&log), 1_000, "nor from one process to the next");
    clock.set(1_100);
    assert_eq!(stamp(&log), 1_100);
    assert_eq!((found(&log, 1_000), found(&log, 1_001), found(&log, 1_101)), (0, 3, 4));
}

#[test]
fn a_senders_time_far_ahead_does_not_hold_the_brokers() {
    let (disk, clock) = (empty_disk(), Arc::new(ManualClock::new(1_000)));
    let log = open(&disk, Arc::clone(&clock) as _, Timestamps::Create);
    append(&log, frame(u64::MAX, 10)).unwrap();
    drop(log);
    let log = open(&disk, Arc::clone(&clock) as _, Timestamps::Append);
    assert_eq!(stamp(&log), 1_000);
}
