//! The threads that make appended records durable: those of some topics at once, the others within the flush interval.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::partition::Partition;

/// Enough that one slow disk access does not hold up all other partitions.
const THREADS: usize = 4;

/// Partitions with unflushed records. While nothing is due, nobody wakes up.
#[derive(Debug)]
pub(super) struct FlushQueue {
    interval: Duration,
    state: Mutex<State>,
    /// Rung for a thread that waits for anything.
    idle: Condvar,
    /// Rung for the thread that waits for the first of `later`.
    timer: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// To be flushed at once, in this order.
    urgent: VecDeque<Arc<Partition>>,
    /// To be flushed when they are due.
    later: BinaryHeap<Reverse<Timed>>,
    /// Threads that wait for anything.
    idle: usize,
    /// A thread waits for the first of `later`. One is enough.
    timed: bool,
    stop: bool,
}

#[derive(Debug)]
struct Timed {
    due: Instant,
    partition: Arc<Partition>,
}

impl FlushQueue {
    pub(super) fn new(interval: Duration) -> Self {
        let (idle, timer) = (Condvar::new(), Condvar::new());
        Self { interval, state: Mutex::default(), idle, timer }
    }

    /// Longest time that a record waits for the beginning of its flush, if the disk keeps up.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Has a partition flushed by the next thread that is free.
    pub(super) fn push_urgent(&self, partition: Arc<Partition>) {
        let mut state = self.state.lock();
        state.urgent.push_back(partition);
        self.ring(&state);
    }

    /// Has a partition flushed one interval after `since`.
    pub(super) fn push_later(&self, partition: Arc<Partition>, since: Instant) {
        let due = since + self.interval;
        let mut state = self.state.lock();
        let first = state.later.peek().is_none_or(|Reverse(first)| due < first.due);
        state.later.push(Reverse(Timed { due, partition }));
        if !state.timed {
            self.ring(&state);
        } else if first {
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

    /// Waits for a partition that is due; `None` once stopped.
    fn take(&self) -> Option<Arc<Partition>> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(partition) = state.urgent.pop_front() {
                self.pass_on(&state);
                return Some(partition);
            }
            let due = state.later.peek().map(|Reverse(first)| first.due);
            match due {
                Some(due) if due <= Instant::now() => {
                    let Reverse(Timed { partition, .. }) = state.later.pop()?;
                    self.pass_on(&state);
                    return Some(partition);
                }
                Some(due) if !state.timed => {
                    state.timed = true;
                    self.timer.wait_until(&mut state, due);
                    state.timed = false;
                }
                _ => {
                    state.idle += 1;
                    self.idle.wait(&mut state);
                    state.idle -= 1;
                }
            }
        }
    }

    /// A thread goes to work: another one takes over if there is more to be done or waited for.
    fn pass_on(&self, state: &State) {
        if !state.urgent.is_empty() || !state.timed && !state.later.is_empty() {
            self.ring(state);
        }
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.idle.notify_all();
        self.timer.notify_all();
    }

    /// Forgets what is queued: partitions and their queue hold each other.
    fn clear(&self) {
        let mut state = self.state.lock();
        let queued = (std::mem::take(&mut state.urgent), std::mem::take(&mut state.later));
        drop(state);
        drop(queued);
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
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
                while let Some(partition) = queue.take() {
                    partition.flush();
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
