//! Comparing the log with its checksums, in the background: after the start, and again and again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::model::limits::MIB;
use crate::storage;

/// The thread that reads; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Scrub {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    /// Starts the thread, unless `storage.scrub_interval_hours` is 0.
    pub(super) fn start(broker: Arc<Broker>, options: &storage::Options) -> io::Result<Self> {
        if options.scrub_interval_hours == 0 {
            return Ok(Self { stop: None, thread: None });
        }
        let interval = Duration::from_secs(u64::from(options.scrub_interval_hours) * 3600);
        let bytes_per_s = u64::from(options.scrub_mb_per_s) * MIB;
        // The configuration keeps it within bounds.
        let bytes_per_s = u32::try_from(bytes_per_s).unwrap_or(u32::MAX).max(1);
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("scrub".to_owned()).spawn(move || {
            let mut pace = Pace { stopped, bytes_per_s, next: Instant::now() };
            loop {
                let begun = Instant::now();
                if !look(&broker, &mut pace) || !pace.wait_until(begun + interval) {
                    return;
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks through the whole log once; false if it was told to stop.
fn look(broker: &Broker, pace: &mut Pace) -> bool {
    let Ok(found) = broker.scrub(&mut |bytes| pace.pause(bytes)) else { return false };
    let storage::Scrubbed { bytes, damaged, summed } = found;
    if damaged > 0 {
        tracing::error!(bytes, damaged_segments = damaged, "damage was found in the log");
    } else if bytes > 0 {
        tracing::info!(bytes, new_checksums = summed, "the log is what was written");
    }
    true
}

/// Reads no faster than it may.
struct Pace {
    stopped: Receiver<()>,
    bytes_per_s: u32,
    /// When the next read may begin.
    next: Instant,
}

impl Pace {
    /// Waits until `bytes` more may be read; false if it is to stop.
    fn pause(&mut self, bytes: u64) -> bool {
        let begin = self.next.max(Instant::now());
        self.next = begin + Duration::from_secs(bytes) / self.bytes_per_s;
        self.wait_until(begin)
    }

    fn wait_until(&self, at: Instant) -> bool {
        let wait = at.saturating_duration_since(Instant::now());
        self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
    }
}
