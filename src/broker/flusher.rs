//! The threads that make appended records durable: those of some topics at once, the others within the flush interval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::partition::Partition;

/// Enough that one slow disk access does not hold up all other partitions.
const THREADS: usize = 4;

/// Partitions with unflushed records, each until it is due: at once, or an interval after it became dirty. So nobody
/// passes anybody who has waited longer. While nothing is due, nobody wakes up.
#[derive(Debug, Default)]
pub(super) struct FlushQueue {
    state: Mutex<State>,
    /// Rung for a thread that waits for anything.
    idle: Condvar,
    /// Rung for the thread that waits until the first partition is due.
    timer: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By when they are due, and by their number.
    queue: BTreeMap<(Instant, usize), Arc<Partition>>,
    /// Threads that wait for anything.
    idle: usize,
    /// A thread waits until the first partition is due. One is enough.
    timed: bool,
    stop: bool,
}

impl FlushQueue {
    /// Has a partition flushed at `at`, or as soon as possible if that is over.
    pub(super) fn push(&self, partition: Arc<Partition>, at: Instant) {
        self.add(self.state.lock(), partition, at);
    }

    /// Has a partition flushed at `at` that is queued until `later`.
    pub(super) fn hurry(&self, partition: Arc<Partition>, later: Instant, at: Instant) {
        let mut state = self.state.lock();
        state.queue.remove(&(later, partition.ordinal()));
        self.add(state, partition, at);
    }

    fn add(&self, mut state: MutexGuard<'_, State>, partition: Arc<Partition>, at: Instant) {
        let first = state.first().is_none_or(|first| at < first);
        state.queue.insert((at, partition.ordinal()), partition);
        if !state.timed || at <= Instant::now() {
            self.ring(&state);
        } else if first {
            // It waits for another one, which comes later.
            self.timer.notify_one();
        }
    }

    /// Has one of the threads that wait look at the queue.
    fn ring(&self, state: &State) {
        if state.idle > 0 {
            self.idle.notify_one();
        } else if state.timed {
            self.timer.notify_one();
        }
    }

    /// Waits for a partition that is due, and says since when it is; `None` once stopped.
    fn take(&self) -> Option<(Arc<Partition>, Instant)> {
        let mut state = self.state.lock();
        while !state.stop {
            let now = Instant::now();
            match state.first() {
                Some(at) if at <= now => {
                    let ((at, _), partition) = state.queue.pop_first()?;
                    // This thread goes to work: another one takes over what is left to be done or waited for.
                    if state.first().is_some_and(|next| next <= now || !state.timed) {
                        self.ring(&state);
                    }
                    return Some((partition, at));
                }
                Some(at) if !state.timed => {
                    state.timed = true;
                    self.timer.wait_until(&mut state, at);
                    state.timed = false;
                }
                _ => {
                    state.idle += 1;
                    self.idle.wait(&mut state);
                    state.idle -= 1;
                }
            }
        }
        None
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.idle.notify_all();
        self.timer.notify_all();
    }

    /// Forgets what is queued: partitions and their queue hold each other.
    fn clear(&self) {
        let queued = std::mem::take(&mut self.state.lock().queue);
        drop(queued);
    }
}

impl State {
    /// When the first partition is due.
    fn first(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }
}

/// The running threads; they stop when this is dropped, without flushing what is queued.
#[derive(Debug)]
pub(super) struct Flusher {
    queue: Arc<FlushQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Flusher {
    pub(super) fn start(queue: Arc<FlushQueue>) -> std::io::Result<Self> {
        let mut flusher = Self { queue, threads: Vec::new() };
        for number in 0..THREADS {
            let queue = Arc::clone(&flusher.queue);
            let thread = thread::Builder::new().name(format!("flusher-{number}"));
            flusher.threads.push(thread.spawn(move || {
                while let Some((partition, at)) = queue.take() {
                    partition.flush(at);
                }
            })?);
        }
        Ok(flusher)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.queue.clear();
    }
}
