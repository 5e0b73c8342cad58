//! Threads for what may wait for a disk, or takes long: creating topics, finding a consumer's place, reading what is not in
//! the page cache, sending much.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tracing::Span;

use super::delegate::Parcel;
use super::inbox::{Inbox, Key, Message};
use crate::broker::Broker;
use crate::net::connection::Asked;
use crate::net::open::open;
use crate::storage::file_slice::FileSlice;

/// Enough that one slow disk access does not hold up all others.
const THREADS: usize = 2;

/// Something to do, and whom to tell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) key: Key,
    pub(super) inbox: Arc<Inbox>,
}

/// What may wait for a disk, or takes long.
#[derive(Debug)]
pub(super) enum Work {
    /// Act upon a handshake, in the connection's span.
    Open(Asked, Span),
    /// Read into the page cache what is to be sent.
    Warm(FileSlice),
    /// Send to a consumer that catches up.
    Send(Parcel),
}

/// The threads; they end when every sender of jobs is gone.
#[derive(Debug)]
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
    /// Nobody waits for what is still to be done.
    over: Arc<AtomicBool>,
}

impl Workers {
    /// Starts threads named `name-N` for one kind of work: a crowd of readers must not hold up handshakes.
    pub(super) fn start(name: &str, broker: &Arc<Broker>) -> io::Result<(Self, Sender<Job>)> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (broker, receiver) = (Arc::clone(broker), Arc::clone(&receiver));
            let over = Arc::clone(&over);
            let name = format!("{name}-{number}");
            let thread = thread::Builder::new().name(name);
            threads.push(thread.spawn(move || run(&broker, &receiver, &over))?);
        }
        Ok((Self { threads, over }, sender))
    }

    /// Ends the threads once nobody waits for them: what they were to do yet is dropped.
    pub(super) fn join(self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn run(broker: &Broker, jobs: &Mutex<Receiver<Job>>, over: &AtomicBool) {
    loop {
        // The lock is held while waiting: the other thread waits for the lock instead.
        let job = jobs.lock().recv();
        let Ok(Job { work, key, inbox }) = job else { return };
        if over.load(Ordering::Relaxed) {
            return;
        }
        inbox.send(match work {
            Work::Open(asked, span) => {
                Message::Opened(key, Box::new(span.in_scope(|| open(broker, &asked))))
            }
            Work::Warm(slice) => {
                // What cannot be read is met again, and judged, when it is sent.
                let _ = slice.warm();
                Message::Warmed(key)
            }
            Work::Send(parcel) => Message::Sent(key, parcel.deliver(broker.metrics(), over)),
        });
    }
}
