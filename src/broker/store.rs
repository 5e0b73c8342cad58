//! Storing one record for somebody who is no connection: for people and their tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::AppendError;
use super::partition::Partition;
use super::wake::{WaiterId, Wake};
use crate::model::{Offset, limits};
use crate::record::{FrameBuilder, FrameLimits, Run};

/// Longest time that is waited for a flush.
const FLUSH_TIME: Duration = Duration::from_secs(20);

/// A record was not stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The topic belongs to the broker.
    #[error("records cannot be produced to the broker's own topics")]
    Reserved,
    /// The key is too large.
    #[error("the key has {bytes} bytes, the limit is {max}")]
    KeyTooLarge {
        /// Bytes it has.
        bytes: usize,
        /// Bytes it may have.
        max: u32,
    },
    /// The payload is too large for the topic.
    #[error("the payload has {bytes} bytes, the limit of the topic is {max}")]
    PayloadTooLarge {
        /// Bytes it has.
        bytes: usize,
        /// Bytes it may have.
        max: u32,
    },
    /// The log did not take it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It is in the log, and the disk does not have it.
    #[error("the flush of the record failed; it does not count as stored")]
    FlushFailed,
    /// It is in the log, and the disk may have it one day.
    #[error("the record was not flushed within {} s; it may be stored later", FLUSH_TIME.as_secs())]
    Unflushed,
}

/// Rung by a flush.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(&self, _: WaiterId) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }
}

impl Bell {
    /// False if it was not rung by then.
    fn wait_until(&self, at: Instant) -> bool {
        let mut rung = self.rung.lock();
        while !*rung {
            if self.changed.wait_until(&mut rung, at).timed_out() {
                return std::mem::take(&mut *rung);
            }
        }
        std::mem::take(&mut *rung)
    }
}

impl Partition {
    /// Stores a record, as [`Partition::durability`] says, and gives its offset. Waits for the disk: not for a reactor.
    pub fn store(
        self: &Arc<Self>,
        timestamp_ns: u64,
        key: &[u8],
        payload: &[u8],
    ) -> Result<Offset, StoreError> {
        if self.name().topic.is_reserved() {
            return Err(StoreError::Reserved);
        }
        if key.len() > limits::KEY_BYTES_MAX as usize {
            return Err(StoreError::KeyTooLarge { bytes: key.len(), max: limits::KEY_BYTES_MAX });
        }
        let max = self.max_payload_bytes();
        let too_large = || StoreError::PayloadTooLarge { bytes: payload.len(), max };
        if payload.len() > max as usize {
            return Err(too_large());
        }
        let mut frame = Vec::new();
        FrameBuilder::new(timestamp_ns)
            .key(key)
            .write(payload, &mut frame)
            .map_err(|_| too_large())?;
        let mut run = Run::parse(&mut frame, &FrameLimits::STORED).ok_or_else(too_large)?;
        let appended = self.append(&mut run)?;
        let bell = Arc::new(Bell::default());
        let wake: Arc<dyn Wake> = Arc::<Bell>::clone(&bell);
        let until = Instant::now() + FLUSH_TIME;
        loop {
            self.await_flush(&wake, WaiterId(0));
            let settled = self.settled();
            let done = settled.covers(appended) || settled.failed;
            if done || !bell.wait_until(until) {
                self.forget_flush(&wake, WaiterId(0));
                return match (done, settled.covers(appended)) {
                    (true, true) => Ok(appended.first),
                    (true, false) => Err(StoreError::FlushFailed),
                    (false, _) => Err(StoreError::Unflushed),
                };
            }
        }
    }
}
