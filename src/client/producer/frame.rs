//! From records to frames: packing, encoding, completing.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::delivery::Outcome;
use super::epochs::Released;
use super::error::DeliveryError;
use super::options::Packing;
use super::window::Pending;
use crate::model::Offset;
use crate::record::{HEADER_LEN, Header, MAGIC_V1};

/// What is sent, acked and repeated as one.
pub(super) struct Frame {
    /// Grows with each frame: the order in which records were handed over.
    pub(super) seq: u64,
    /// Bytes on the wire.
    pub(super) bytes: usize,
    /// When the first attempt failed, if one did.
    pub(super) failing_since: Option<Instant>,
    /// More lines may join it.
    open: bool,
    records: Records,
}

enum Records {
    One(Pending),
    /// Two or more, each to be ended by a newline.
    Lines(Vec<Pending>),
}

impl Frame {
    /// The records no longer change: it is sent, or waits for a connection.
    pub(super) fn seal(&mut self) {
        self.open = false;
    }

    /// Time since the first failed attempt.
    pub(super) fn failing_for(&self, now: Instant) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Appends the frame to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (first, count) = match &self.records {
            Records::One(record) => (record, 1),
            Records::Lines(records) => (&records[0], records.len()),
        };
        // `send` has checked the sizes and the packer the count, so all of them fit.
        let field = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let header = Header {
            magic: MAGIC_V1,
            timestamp: first.timestamp,
            offset: 0,
            key_size: field(first.key.len()),
            payload_size: field(self.bytes - HEADER_LEN - first.key.len()),
            record_count: field(count),
        };
        out.extend_from_slice(&header.to_bytes());
        match &self.records {
            Records::One(record) => {
                out.extend_from_slice(&record.key);
                out.extend_from_slice(&record.payload);
            }
            Records::Lines(records) => {
                for record in records {
                    out.extend_from_slice(&record.payload);
                    out.push(b'\n');
                }
            }
        }
    }

    /// The frame is stored at `offset`.
    pub(super) fn stored(self, offset: Offset, released: &mut Released) {
        self.complete(released, |index| Ok(offset.saturating_add(index)));
    }

    /// The frame is given up.
    pub(super) fn failed(self, error: &DeliveryError, released: &mut Released) {
        self.complete(released, |_| Err(error.clone()));
    }

    fn complete(self, released: &mut Released, outcome: impl Fn(u64) -> Outcome) {
        let mut one = |record: Pending, index| {
            released.add(record.epoch, record.bytes());
            record.completion.complete(outcome(index));
        };
        match self.records {
            Records::One(record) => one(record, 0),
            Records::Lines(records) => {
                (0..).zip(records).for_each(|(index, record)| one(record, index));
            }
        }
    }
}

/// Puts records into frames.
pub(super) struct Packer {
    lines: bool,
    max_records: usize,
    max_bytes: usize,
    next_seq: u64,
}

impl Packer {
    pub(super) fn new(packing: Packing, max_bytes: usize) -> Self {
        Self {
            lines: packing.max_records() > 1,
            max_records: packing.max_records() as usize,
            max_bytes,
            next_seq: 0,
        }
    }

    /// Adds the record to the last frame of `fresh` if it can, else a frame of its own. Returns the bytes added.
    pub(super) fn add(&mut self, record: Pending, fresh: &mut VecDeque<Frame>) -> usize {
        let is_line = self.lines && record.key.is_empty() && !record.payload.contains(&b'\n');
        let mut record = Some(record);
        if is_line && let Some(last) = fresh.back_mut() {
            let before = last.bytes;
            self.join(&mut record, last);
            if record.is_none() {
                return last.bytes - before;
            }
        }
        let Some(record) = record else { return 0 };
        let bytes = record.bytes();
        fresh.push_back(Frame {
            seq: self.next_seq,
            bytes,
            failing_since: None,
            open: is_line,
            records: Records::One(record),
        });
        self.next_seq += 1;
        bytes
    }

    /// Moves the record into the frame if the frame has room for it.
    fn join(&self, record: &mut Option<Pending>, frame: &mut Frame) {
        let (count, first_newline) = match &frame.records {
            Records::One(_) => (1, 1),
            Records::Lines(records) => (records.len(), 0),
        };
        let line = record.as_ref().map_or(0, |record| record.payload.len() + 1);
        let bytes = frame.bytes + first_newline + line;
        if !frame.open || count >= self.max_records || bytes > self.max_bytes {
            return;
        }
        let Some(record) = record.take() else { return };
        frame.bytes = bytes;
        // Nothing is lost in between: an empty list stands in for the records while they are rearranged.
        let records = match std::mem::replace(&mut frame.records, Records::Lines(Vec::new())) {
            Records::One(first) => vec![first, record],
            Records::Lines(mut records) => {
                records.push(record);
                records
            }
        };
        frame.records = Records::Lines(records);
    }
}
