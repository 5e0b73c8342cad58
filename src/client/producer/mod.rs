//! Sending records: pipelined, in order, at least once.
//!
//! A record's way: [`Producer::send`] puts it into the [`window`], the background task ([`driver`]) takes all that
//! are there, [packs](frame) them into frames, writes many frames at once and matches the acks that come back to them
//! ([`conversation`]). [`queue`] knows which frame stands where.

mod conversation;
mod delivery;
mod driver;
mod epochs;
mod error;
mod frame;
mod options;
mod queue;
mod window;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tracing::Instrument as _;

pub use delivery::Delivery;
pub use error::{DeliveryError, SendError};
pub use options::{Packing, ProducerOptions};

use super::connect::{self, ConnectError, Hello, Place};
use super::message::Record;
use crate::model::{Offset, PartitionId, TopicName, limits};
use delivery::Completion;
use driver::Driver;
use window::{Offer, Pending, Window};

/// Sends records to one partition. It can be shared by reference between tasks.
///
/// **Order.** Records are sent in the order in which they were handed over, without waiting for acks. The order that
/// counts is that of the offsets. It is the order of handing over unless the broker has to refuse a frame for lack of
/// room: frames behind it on the way may be stored, and the refused one is sent again *after* them.
/// With `max_in_flight_frames` = 1 there is no frame behind it, and the order always holds, at one round trip for each
/// frame.
///
/// **At least once.** When the connection breaks, frames without an ack are sent again on the next one, in order. The
/// broker may have stored some of them before the break, so that records can be there twice.
///
/// **Ends.** Call [`close`](Self::close), or at least [`flush`](Self::flush), before a program ends. A producer that is
/// dropped finishes what was handed over in the background, for as long as its runtime lives; what the runtime's end
/// cuts off is reported as [`DeliveryError::Closed`] to deliveries and callbacks that are still there to hear it.
pub struct Producer {
    window: Arc<Window>,
    max_payload_bytes: u32,
}

impl Producer {
    /// Connects to the broker at `addr` (`host:port`) and starts the background task on the current tokio runtime, which
    /// needs I/O and time enabled.
    ///
    /// One attempt, within `connect.timeout`; only later breaks are repaired without being asked. Protocol 1.0 does
    /// not answer a handshake: a partition that does not exist shows in the deliveries.
    pub async fn connect(
        addr: impl Into<String>,
        topic: TopicName,
        partition: PartitionId,
        options: ProducerOptions,
    ) -> Result<Self, ConnectError> {
        let place = Place { addr: addr.into(), topic, partition };
        let hello = Hello::produce(&place, options.durability, &options.connect)?;
        let (stream, _) = connect::open(&place.addr, &hello, &options.connect).await?;
        let max_records =
            options.max_in_flight_frames.saturating_mul(options.packing.max_records() as usize);
        let window = Arc::new(Window::new(options.max_in_flight_bytes, max_records));
        let max_payload_bytes = options.max_payload_bytes;
        // It outlives whatever has made it.
        let (topic, partition) = (&place.topic, place.partition);
        let span =
            tracing::debug_span!(parent: None, "producer", addr = place.addr, %topic, partition);
        let driver = Driver::new(Arc::clone(&window), place, hello, options);
        tokio::spawn(driver.run(stream).instrument(span));
        Ok(Self { window, max_payload_bytes })
    }

    /// Hands a record over, waiting for room in the window. The delivery resolves to its offset.
    ///
    /// Waiting for the delivery before the next `send` costs a round trip for each record; collect deliveries,
    /// or use [`send_with`](Self::send_with). A delivery may be dropped; the record is sent all the same.
    ///
    /// Cancel-safe: dropped while it waits, the record was not handed over.
    pub async fn send(&self, record: Record) -> Result<Delivery, SendError> {
        self.check(&record)?;
        let (completion, delivery) = Completion::delivery();
        self.window.push(Pending::new(record, completion)).await?;
        Ok(delivery)
    }

    /// As [`send`](Self::send), with a callback for the outcome.
    ///
    /// The callback runs on the background task, so it must be quick and must not block or panic. It is called exactly once if this
    /// returns `Ok`, and never otherwise.
    pub async fn send_with(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
    ) -> Result<(), SendError> {
        self.check(&record)?;
        let completion = Completion::callback(Box::new(callback));
        self.window.push(Pending::new(record, completion)).await
    }

    /// Waits until every record handed over so far is acked or failed. What lingers is sent at once.
    ///
    /// Failures show in the deliveries. Bounded by `retry.max_elapsed`, the time-outs and the broker's pace.
    pub async fn flush(&self) {
        self.window.flushed().await;
    }

    /// Takes no more records, waits until those handed over are acked or failed, and closes the connection.
    ///
    /// Later sends fail with [`SendError::Closed`]. Calling it again waits for the same end.
    pub async fn close(&self) {
        self.window.close();
        self.window.ended().await;
    }

    fn check(&self, record: &Record) -> Result<(), SendError> {
        if record.key.len() > limits::KEY_BYTES_MAX as usize {
            return Err(SendError::KeyTooLarge {
                bytes: record.key.len(),
                max: limits::KEY_BYTES_MAX,
            });
        }
        if record.payload.len() > self.max_payload_bytes as usize {
            return Err(SendError::PayloadTooLarge {
                bytes: record.payload.len(),
                max: self.max_payload_bytes,
            });
        }
        Ok(())
    }

    /// As `send`, for callers outside a runtime: they enter it only if they have to wait.
    pub(super) fn send_blocking(
        &self,
        record: Record,
        runtime: &Runtime,
    ) -> Result<Delivery, SendError> {
        self.check(&record)?;
        let (completion, delivery) = Completion::delivery();
        self.push_blocking(Pending::new(record, completion), runtime)?;
        Ok(delivery)
    }

    /// As `send_with`, for callers outside a runtime.
    pub(super) fn send_with_blocking(
        &self,
        record: Record,
        callback: impl FnOnce(Result<Offset, DeliveryError>) + Send + 'static,
        runtime: &Runtime,
    ) -> Result<(), SendError> {
        self.check(&record)?;
        let completion = Completion::callback(Box::new(callback));
        self.push_blocking(Pending::new(record, completion), runtime)
    }

    fn push_blocking(&self, pending: Pending, runtime: &Runtime) -> Result<(), SendError> {
        let mut slot = Some(pending);
        match (self.window.offer(&mut slot), slot) {
            (Offer::Full, Some(pending)) => runtime.block_on(self.window.push(pending)),
            (Offer::Closed, _) => Err(SendError::Closed),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.window.close();
    }
}
