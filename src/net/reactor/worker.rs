//! Threads for what may wait for a disk: creating topics, finding a consumer's place, reading what is not in the
//! page cache.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tracing::Span;

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

/// What may wait for a disk.
#[derive(Debug)]
pub(super) enum Work {
    /// Act upon a handshake, in the connection's span.
    Open(Asked, Span),
    /// Read into the page cache what is to be sent.
    Warm(FileSlice),
}

/// The threads; they end when every sender of jobs is gone.
#[derive(Debug)]
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts threads named `name-N` for one kind of work: a crowd of readers must not hold up handshakes.
    pub(super) fn start(name: &str, broker: &Arc<Broker>) -> io::Result<(Self, Sender<Job>)> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (broker, receiver) = (Arc::clone(broker), Arc::clone(&receiver));
            let name = format!("{name}-{number}");
            threads.push(thread::Builder::new().name(name).spawn(move || run(&broker, &receiver))?);
        }
        Ok((Self { threads }, sender))
    }

    pub(super) fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn run(broker: &Broker, jobs: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is held while waiting: the other thread waits for the lock instead.
        let job = jobs.lock().recv();
        let Ok(Job { work, key, inbox }) = job else { return };
        inbox.send(match work {
            Work::Open(asked, span) => {
                Message::Opened(key, Box::new(span.in_scope(|| open(broker, &asked))))
            }
            Work::Warm(slice) => {
                // What cannot be read is met again, and judged, when it is sent.
                let _ = slice.warm();
                Message::Warmed(key)
            }
        });
    }
}
