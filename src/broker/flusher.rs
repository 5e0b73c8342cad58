//! The thread that makes appended records durable within the flush interval.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::partition::Partition;

/// Partitions with unflushed records. While it is empty, nobody wakes up.
#[derive(Debug, Default)]
pub(super) struct FlushQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    dirty: Vec<Arc<Partition>>,
    stop: bool,
}

impl FlushQueue {
    pub(super) fn push(&self, partition: Arc<Partition>) {
        let mut state = self.state.lock();
        state.dirty.push(partition);
        if state.dirty.len() == 1 {
            self.changed.notify_all();
        }
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for a first dirty partition, then `interval` for more of them. `None` once stopped.
    fn next(&self, interval: Duration) -> Option<Vec<Arc<Partition>>> {
        let mut state = self.state.lock();
        while state.dirty.is_empty() && !state.stop {
            self.changed.wait(&mut state);
        }
        let deadline = std::time::Instant::now() + interval;
        while !state.stop && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        if state.stop { None } else { Some(std::mem::take(&mut state.dirty)) }
    }
}

/// The running thread; stops when dropped.
#[derive(Debug)]
pub(super) struct Flusher {
    queue: Arc<FlushQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(super) fn start(queue: Arc<FlushQueue>, interval: Duration) -> std::io::Result<Self> {
        let work = Arc::clone(&queue);
        let thread = thread::Builder::new().name("flusher".to_owned()).spawn(move || {
            while let Some(partitions) = work.next(interval) {
                for partition in partitions {
                    // The partition has said what went wrong: it takes no more records, or is queued again.
                    let _ = partition.flush();
                }
            }
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
