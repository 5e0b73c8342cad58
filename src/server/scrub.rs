//! Comparing the log with its checksums, in the background: after the start, and again and again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::pace::Pace;
use crate::broker::Broker;
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
        let mb_per_s = options.scrub_mb_per_s;
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("scrub".to_owned()).spawn(move || {
            let mut pace = Pace::new(stopped, mb_per_s);
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
