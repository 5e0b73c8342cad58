//! Deleting what is not kept any longer, in the background, again and again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::broker::Broker;
use crate::storage;

/// The thread that deletes; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Cleanup {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Cleanup {
    pub(super) fn start(broker: Arc<Broker>, options: &storage::Options) -> io::Result<Self> {
        let interval = Duration::from_secs(u64::from(options.cleanup_interval_min) * 60);
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("cleanup".to_owned()).spawn(move || {
            // Not at once: a start has enough to do.
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let deleted = broker.retain();
                if deleted.segments > 0 {
                    let storage::Deleted { segments, bytes } = deleted;
                    tracing::info!(segments, bytes, "what is not kept any longer was deleted");
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
