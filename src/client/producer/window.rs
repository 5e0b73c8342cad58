//! Where senders and the background task meet: the queue, its bounds, and who is woken when.
//!
//! One short lock for each record handed over, and one for each *bulk* that the task takes or completes. A sender wakes
//! the task only if the task asked for it, so a busy producer pays for no wake-ups.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::delivery::Completion;
use super::epochs::{Epochs, Released};
use super::error::SendError;
use crate::client::message::{Record, now_ns};
use crate::record::HEADER_LEN;

/// A record that waits for its ack.
pub(super) struct Pending {
    pub(super) key: Bytes,
    pub(super) payload: Bytes,
    pub(super) timestamp: u64,
    pub(super) epoch: u64,
    pub(super) completion: Completion,
}

impl Pending {
    pub(super) fn new(record: Record, completion: Completion) -> Self {
        let timestamp = record.timestamp.unwrap_or_else(now_ns);
        Self { key: record.key, payload: record.payload, timestamp, epoch: 0, completion }
    }

    /// What the record counts against the window, in bytes: a frame of its own.
    pub(super) fn bytes(&self) -> usize {
        HEADER_LEN + self.key.len() + self.payload.len()
    }
}

/// What came of offering a record to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Taken,
    Full,
    Closed,
}

/// What the background task is to know besides the records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Orders {
    /// Send what is there, whatever the linger.
    pub(super) urgent: bool,
    /// No record comes any more.
    pub(super) closing: bool,
}

pub(super) struct Window {
    state: Mutex<State>,
    max_bytes: usize,
    max_records: usize,
    /// The task waits here for records and orders.
    wake: Notify,
    /// Senders wait here for room, `flush` and `close` for the end.
    changed: Notify,
}

struct State {
    queue: Vec<Pending>,
    queued_bytes: usize,
    /// Handed over and not completed, queued or not.
    bytes: usize,
    records: usize,
    epochs: Epochs,
    /// Queued bytes at which a sender wakes the task; `usize::MAX` while the task will look by itself.
    wake_at: usize,
    orders: Orders,
    /// The task is gone.
    dead: bool,
}

impl Window {
    pub(super) fn new(max_bytes: usize, max_records: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queue: Vec::new(),
                queued_bytes: 0,
                bytes: 0,
                records: 0,
                epochs: Epochs::default(),
                wake_at: usize::MAX,
                orders: Orders::default(),
                dead: false,
            }),
            max_bytes: max_bytes.max(1),
            max_records: max_records.max(1),
            wake: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// No code that can panic runs under the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the record out of `slot` if there is room. A record is taken while less than the limits is handed over, so
    /// that a large one is neither starved by small ones nor stuck for being larger than the window.
    pub(super) fn offer(&self, slot: &mut Option<Pending>) -> Offer {
        let mut state = self.lock();
        if state.dead || state.orders.closing {
            return Offer::Closed;
        }
        if state.bytes >= self.max_bytes || state.records >= self.max_records {
            // Nothing more will come that the linger could wait for.
            state.orders.urgent = true;
            self.wake_if(state, true);
            return Offer::Full;
        }
        if let Some(mut pending) = slot.take() {
            let bytes = pending.bytes();
            pending.completion.taken();
            pending.epoch = state.epochs.enter();
            state.bytes += bytes;
            state.records += 1;
            state.queued_bytes += bytes;
            state.queue.push(pending);
            let due = state.queued_bytes >= state.wake_at;
            self.wake_if(state, due);
        }
        Offer::Taken
    }

    fn wake_if(&self, mut state: MutexGuard<'_, State>, due: bool) {
        if due && state.wake_at != usize::MAX {
            state.wake_at = usize::MAX;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Hands a record over, waiting for room. Dropped while it waits, the record was not handed over.
    pub(super) async fn push(&self, pending: Pending) -> Result<(), SendError> {
        let mut slot = Some(pending);
        // A loop of sends that never has to wait must not keep the other tasks of its thread from running.
        tokio::task::coop::consume_budget().await;
        let mut offer = self.offer(&mut slot);
        while offer == Offer::Full {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking again, so that room made in between is not missed.
            changed.as_mut().enable();
            offer = self.offer(&mut slot);
            if offer == Offer::Full {
                changed.await;
                offer = self.offer(&mut slot);
            }
        }
        if offer == Offer::Taken { Ok(()) } else { Err(SendError::Closed) }
    }

    /// Moves all queued records to `into`, which must be empty. Senders do not wake the task until it arms the window.
    pub(super) fn drain(&self, into: &mut Vec<Pending>) -> Orders {
        debug_assert!(into.is_empty());
        let mut state = self.lock();
        std::mem::swap(&mut state.queue, into);
        state.queued_bytes = 0;
        state.wake_at = usize::MAX;
        let orders = state.orders;
        state.orders.urgent = false;
        orders
    }

    /// The task sleeps until there are `bytes` queued bytes or an urgent order; not at all if they are there.
    pub(super) async fn news(&self, bytes: usize) {
        if self.arm(bytes) {
            self.wake.notified().await;
        }
    }

    fn arm(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        let ready = state.queued_bytes >= bytes || state.orders.urgent;
        if !ready {
            state.wake_at = bytes;
        }
        !ready
    }

    /// Gives back the room of completed records, once for a whole bulk.
    pub(super) fn release(&self, released: &mut Released) {
        if released.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(released.bytes());
        state.records = state.records.saturating_sub(released.records());
        released.leave(&mut state.epochs);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until every record handed over before now is completed.
    pub(super) async fn flushed(&self) {
        let mark = {
            let mut state = self.lock();
            state.orders.urgent = true;
            state.epochs.mark()
        };
        self.wake.notify_one();
        self.until(|state| state.epochs.is_over(mark)).await;
    }

    /// Takes no more records; the task ends when it has completed those it has.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.orders = Orders { urgent: true, closing: true };
        drop(state);
        self.wake.notify_one();
        self.changed.notify_waiters();
    }

    /// Waits until the task is gone.
    pub(super) async fn ended(&self) {
        self.until(|_| false).await;
    }

    async fn until(&self, done: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let over = {
                let state = self.lock();
                state.dead || done(&state)
            };
            if over {
                return;
            }
            changed.await;
        }
    }

    /// The task ends, or was ended: what is still queued is failed, and nobody waits any more.
    pub(super) fn die(&self) {
        let mut state = self.lock();
        state.dead = true;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        // Outside the lock: completions run callbacks.
        drop(queue);
        self.changed.notify_waiters();
    }
}
