//! The frames of a producer and where each of them stands. No I/O, no clock: bytes out, acks in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::epochs::Released;
use super::error::DeliveryError;
use super::frame::{Frame, Packer};
use super::options::ProducerOptions;
use super::window::Pending;
use crate::client::Refused;
use crate::protocol::v1_1::Answer;

/// Why a connection, or the attempt at one, is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// It could not be made, or broke.
    Lost(Arc<str>),
    /// The broker takes nothing from this producer, and says why (1.1): not for a while, but for good.
    Rejected(Refused),
    /// The broker closed it before any frame was sent, and it had been closed without an ack before.
    HandshakeRefused,
    /// The broker closed it without an ack when the oldest frame alone had been sent.
    FrameRefused,
}

pub(super) struct SendQueue {
    packer: Packer,
    max_elapsed: Duration,
    /// Sent before and to be sent again, before anything fresh.
    retry: VecDeque<Frame>,
    /// Never sent.
    fresh: VecDeque<Frame>,
    fresh_bytes: usize,
    /// Sent on this connection; acks come in this order.
    in_flight: VecDeque<Frame>,
    /// Completed records that the window does not know of yet.
    pub(super) released: Released,
}

impl SendQueue {
    pub(super) fn new(options: &ProducerOptions) -> Self {
        Self {
            packer: Packer::new(
                options.packing,
                options.batch_bytes.min(options.max_payload_bytes as usize),
            ),
            max_elapsed: options.retry.max_elapsed,
            retry: VecDeque::new(),
            fresh: VecDeque::new(),
            fresh_bytes: 0,
            in_flight: VecDeque::new(),
            released: Released::default(),
        }
    }

    /// Takes over records, in order.
    pub(super) fn accept(&mut self, records: &mut Vec<Pending>) {
        for record in records.drain(..) {
            self.fresh_bytes += self.packer.add(record, &mut self.fresh);
        }
    }

    /// No record waits for an ack.
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && !self.has_unsent()
    }

    /// Something is to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.retry.is_empty() || !self.fresh.is_empty()
    }

    /// Something is to be sent again.
    pub(super) fn has_retries(&self) -> bool {
        !self.retry.is_empty()
    }

    /// Bytes never sent.
    pub(super) fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    /// Frames sent and not acked.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Appends frames to `out` until it holds `batch_bytes`, or `max_frames` are in flight. A frame that would exceed
    /// `batch_bytes` goes alone.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>, batch_bytes: usize, max_frames: usize) {
        while self.in_flight.len() < max_frames {
            let Some(next) = self.retry.front().or_else(|| self.fresh.front()) else { return };
            if !out.is_empty() && out.len() + next.bytes > batch_bytes {
                return;
            }
            let frame = self.retry.pop_front().or_else(|| {
                let frame = self.fresh.pop_front()?;
                self.fresh_bytes -= frame.bytes;
                Some(frame)
            });
            let Some(mut frame) = frame else { return };
            frame.seal();
            frame.encode(out);
            self.in_flight.push_back(frame);
        }
    }

    /// The ack of the oldest frame in flight. `Some(true)` if it is stored or refused for good, `Some(false)` if it is to
    /// be sent again, or was given up after that; `None` if no ack is due.
    pub(super) fn acked(&mut self, answer: Answer, now: Instant) -> Option<bool> {
        let mut frame = self.in_flight.pop_front()?;
        if answer.is_ok() {
            frame.stored(answer.value, &mut self.released);
            return Some(true);
        }
        if !answer.is_transient() {
            let error = rejected(&Refused::from_answer(answer));
            frame.failed(&error, &mut self.released);
            return Some(true);
        }
        frame.failing_since.get_or_insert(now);
        let elapsed = frame.failing_for(now);
        if elapsed >= self.max_elapsed {
            let error = DeliveryError::NotStored { code: answer.code, elapsed };
            frame.failed(&error, &mut self.released);
        } else {
            self.retry.push_back(frame);
        }
        Some(false)
    }

    /// The connection is lost, or could not be made. All that was in flight is to be sent again, in the order in which it was
    /// handed over, but for what has failed for too long.
    pub(super) fn lost(&mut self, cause: &Cause, now: Instant) {
        self.retry.append(&mut self.in_flight);
        self.retry.make_contiguous().sort_by_key(|frame| frame.seq);
        for frame in self.retry.iter_mut().chain(&mut self.fresh) {
            frame.seal();
            frame.failing_since.get_or_insert(now);
        }
        match cause {
            Cause::Lost(reason) => self.expire(now, |elapsed| DeliveryError::Disconnected {
                elapsed,
                reason: Arc::clone(reason),
            }),
            Cause::Rejected(refused) => self.reject_all(&rejected(refused)),
            Cause::HandshakeRefused => {
                self.expire(now, |elapsed| DeliveryError::HandshakeRefused { elapsed });
            }
            Cause::FrameRefused => self.expire_oldest(now),
        }
    }

    fn reject_all(&mut self, error: &DeliveryError) {
        self.fresh_bytes = 0;
        for frame in self.retry.drain(..).chain(self.fresh.drain(..)) {
            frame.failed(error, &mut self.released);
        }
    }

    /// Gives up all that has failed for too long.
    fn expire(&mut self, now: Instant, error: impl Fn(Duration) -> DeliveryError) {
        while let Some(frame) = self.pop_expired(now) {
            let error = error(frame.failing_for(now));
            frame.failed(&error, &mut self.released);
        }
    }

    /// Gives up the oldest frame if it has failed for too long. The ones behind it were held up by it alone, so their
    /// time starts again.
    fn expire_oldest(&mut self, now: Instant) {
        let Some(frame) = self.pop_expired(now) else { return };
        let error = DeliveryError::Refused { elapsed: frame.failing_for(now) };
        frame.failed(&error, &mut self.released);
        for frame in self.retry.iter_mut().chain(&mut self.fresh) {
            frame.failing_since = Some(now);
        }
    }

    fn pop_expired(&mut self, now: Instant) -> Option<Frame> {
        let max = self.max_elapsed;
        let expired = |frame: &mut Frame| frame.failing_for(now) >= max;
        if let Some(frame) = self.retry.pop_front_if(expired) {
            return Some(frame);
        }
        if !self.retry.is_empty() {
            return None;
        }
        let frame = self.fresh.pop_front_if(expired)?;
        self.fresh_bytes -= frame.bytes;
        Some(frame)
    }
}

fn rejected(refused: &Refused) -> DeliveryError {
    DeliveryError::Rejected { code: refused.code, message: refused.message.as_str().into() }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
