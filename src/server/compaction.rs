//! Taking superseded records out of the topics that ask for it, in the background, again and again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::pace::Pace;
use crate::broker::Broker;
use crate::storage::CompactionOptions;

/// The thread that compacts; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Compaction {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Compaction {
    /// Starts the thread, unless `compaction.interval_sec` is 0.
    pub(super) fn start(broker: Arc<Broker>, options: &CompactionOptions) -> io::Result<Self> {
        if options.interval_sec == 0 {
            return Ok(Self { stop: None, thread: None });
        }
        let interval = Duration::from_secs(u64::from(options.interval_sec));
        let mb_per_s = options.mb_per_s;
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("compaction".to_owned()).spawn(move || {
            let mut pace = Pace::new(stopped, mb_per_s);
            // Not at once: a start has enough to do.
            while pace.wait_until(Instant::now() + interval) {
                if broker.compact(&mut |bytes| pace.pause(bytes)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
