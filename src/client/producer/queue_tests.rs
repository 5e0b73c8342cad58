//! The queue against a model broker: whatever is refused or lost, every record has one outcome, and the order is the one promised.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::client::producer::delivery::{Completion, Outcome};
use crate::client::producer::options::Packing;
use crate::client::{Record, RetryPolicy};
use crate::protocol::Status;
use crate::record::Frames;

type Outcomes = Arc<Mutex<Vec<(usize, Outcome)>>>;

/// A queue, and a broker that stores what it accepts.
struct Model {
    queue: SendQueue,
    handed_over: usize,
    outcomes: Outcomes,
    max_frames: usize,
    /// Frames on the way: text and records.
    wire: VecDeque<(Vec<u8>, u32)>,
    stored: Vec<Vec<u8>>,
    now: Instant,
}

impl Model {
    fn new(packing: Packing, max_frames: usize, max_elapsed: Duration) -> Self {
        let retry = RetryPolicy { max_elapsed, ..RetryPolicy::default() };
        let options = ProducerOptions { packing, retry, ..ProducerOptions::default() };
        Self {
            queue: SendQueue::new(&options),
            handed_over: 0,
            outcomes: Outcomes::default(),
            max_frames,
            wire: VecDeque::new(),
            stored: Vec::new(),
            now: Instant::now(),
        }
    }

    fn hand_over(&mut self, records: usize) {
        let mut pending = Vec::new();
        for _ in 0..records {
            let (index, outcomes) = (self.handed_over, Arc::clone(&self.outcomes));
            let record = Record::new(index.to_string());
            let callback = move |outcome| outcomes.lock().unwrap().push((index, outcome));
            let completion = Completion::callback(Box::new(callback));
            pending.push(Pending::new(record, completion));
            self.handed_over += 1;
        }
        self.queue.accept(&mut pending);
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        self.queue.fill(&mut out, 200, self.max_frames);
        let frames = Frames::new(&out);
        self.wire.extend(frames.map(|(header, _, text)| (text.to_vec(), header.record_count)));
        assert!(self.queue.in_flight() <= self.max_frames);
        assert_eq!(self.queue.in_flight(), self.wire.len());
    }

    fn answer(&mut self, store: bool) {
        let Some((text, records)) = self.wire.pop_front() else { return };
        let ack = if store {
            Answer::ok(self.stored.len() as u64)
        } else {
            Answer::error(Status::NotStored, 0, "")
        };
        if store {
            self.stored.extend(crate::record::records(&text, records).map(<[u8]>::to_vec));
        }
        assert!(self.queue.acked(ack, self.now).is_some());
    }

    fn lose(&mut self, cause: &Cause) {
        self.wire.clear();
        self.queue.lost(cause, self.now);
    }

    fn finish(&mut self) {
        while !self.queue.is_empty() {
            self.send();
            self.answer(true);
        }
    }

    fn outcomes(&self) -> Vec<(usize, Outcome)> {
        self.outcomes.lock().unwrap().clone()
    }
}

#[derive(Debug, Clone)]
enum Step {
    HandOver(usize),
    Send,
    Answer(bool),
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1usize..20).prop_map(Step::HandOver),
        Just(Step::Send),
        any::<bool>().prop_map(Step::Answer),
        Just(Step::Answer(true)),
        Just(Step::Lose),
    ]
}

proptest! {
    #[test]
    fn every_record_has_one_outcome_and_lies_at_its_offset(
        steps in prop::collection::vec(step(), 0..80),
        lines in 1u32..5,
        max_frames in 1usize..6,
    ) {
        let packing = Packing::Lines { max_records: lines };
        let mut model = Model::new(packing, max_frames, Duration::from_secs(9));
        let lost = Cause::Lost("lost".into());
        for step in steps {
            match step {
                Step::HandOver(records) => model.hand_over(records),
                Step::Send => model.send(),
                Step::Answer(store) => model.answer(store),
                Step::Lose => model.lose(&lost),
            }
        }
        model.finish();
        let outcomes = model.outcomes();
        let mut seen: Vec<_> = outcomes.iter().map(|(index, _)| *index).collect();
        for (index, outcome) in &outcomes {
            let offset = usize::try_from(*outcome.as_ref().unwrap()).unwrap();
            let text = index.to_string();
            prop_assert_eq!(&model.stored[offset], text.as_bytes());
        }
        if max_frames == 1 {
            prop_assert!(seen.is_sorted(), "one frame in flight keeps the order");
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..model.handed_over).collect::<Vec<_>>());
    }
}

#[test]
fn a_loss_puts_refused_and_pipelined_frames_back_in_order() {
    let mut model = Model::new(Packing::Frames, 10, Duration::from_secs(9));
    model.hand_over(5);
    model.send();
    model.answer(true);
    model.answer(false);
    model.answer(true);
    model.lose(&Cause::Lost("lost".into()));
    model.finish();
    assert_eq!(model.stored, [&b"0"[..], b"2", b"1", b"3", b"4"]);
}

#[test]
fn what_failed_for_too_long_is_given_up_and_what_came_later_is_not() {
    let mut model = Model::new(Packing::Frames, 2, Duration::from_secs(9));
    let lost = Cause::Lost("lost".into());
    model.hand_over(3);
    model.send();
    model.lose(&lost);
    model.now += Duration::from_secs(5);
    model.hand_over(1);
    model.lose(&lost);
    assert!(model.outcomes().is_empty());
    model.now += Duration::from_secs(4);
    model.lose(&lost);
    let failed =
        Err(DeliveryError::Disconnected { elapsed: Duration::from_secs(9), reason: "lost".into() });
    assert_eq!(model.outcomes(), [0, 1, 2].map(|index| (index, failed.clone())));
    model.finish();
    assert_eq!(model.stored, [b"3"]);
    assert_eq!(model.queue.released.records(), 4);
    assert_eq!(model.queue.fresh_bytes(), 0);
}

#[test]
fn a_refused_frame_falls_alone() {
    let mut model = Model::new(Packing::Frames, 1, Duration::from_secs(9));
    model.hand_over(3);
    model.send();
    model.lose(&Cause::FrameRefused);
    model.now += Duration::from_secs(9);
    model.lose(&Cause::FrameRefused);
    let refused = Err(DeliveryError::Refused { elapsed: Duration::from_secs(9) });
    assert_eq!(model.outcomes(), [(0, refused)]);
    model.now += Duration::from_secs(8);
    model.lose(&Cause::FrameRefused);
    assert_eq!(model.outcomes().len(), 1, "the others have their own time");
    model.finish();
    assert_eq!(model.stored, [b"1", b"2"]);
}
