//! Threads for what may wait for a disk: creating topics, finding a consumer's place, reading what is not in the
//! page cache.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tracing::Span;

use super::inbox::{Inbox, Key, Message};
use crate::access::Access;
use crate::broker::Broker;
use crate::net::admit::{Admitted, Visitor, admit};
use crate::net::connection::Asked;
use crate::net::open::{Opened, open};
use crate::storage::file_slice::FileSlice;

/// Enough that one slow disk access does not hold up all others.
const THREADS: usize = 2;

/// Something to do, and whom to tell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) key: Key,
    pub(super) inbox: Arc<Inbox>,
    /// Whether the session is there still: nobody wants what one has asked for that is gone.
    pub(super) asker: Weak<()>,
}

/// What may wait for a disk.
#[derive(Debug)]
pub(super) enum Work {
    /// Let somebody in, if that is not done, and act upon the handshake, in the connection's span.
    Open { asked: Asked, visitor: Option<Visitor>, span: Span },
    /// Read into the page cache what is to be sent.
    Warm(FileSlice),
}

/// The threads; they end when every sender of jobs is gone, or what they do is over.
#[derive(Debug)]
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
    /// Nobody waits for what is still to be done.
    over: Arc<AtomicBool>,
}

impl Workers {
    /// Starts threads named `name-N` for one kind of work: a crowd of readers must not hold up handshakes.
    pub(super) fn start(
        name: &str,
        broker: &Arc<Broker>,
        access: &Arc<Access>,
    ) -> io::Result<(Self, Sender<Job>)> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (broker, access) = (Arc::clone(broker), Arc::clone(access));
            let (receiver, over) = (Arc::clone(&receiver), Arc::clone(&over));
            let name = format!("{name}-{number}");
            let work = move || run(&broker, &access, &receiver, &over);
            threads.push(thread::Builder::new().name(name).spawn(work)?);
        }
        Ok((Self { threads, over }, sender))
    }

    /// Ends the threads once the senders of jobs are gone. What was not begun is not done.
    pub(super) fn join(self) {
        self.over.store(true, Ordering::Release);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn run(broker: &Broker, access: &Access, jobs: &Mutex<Receiver<Job>>, over: &AtomicBool) {
    loop {
        // The lock is held while waiting: the other thread waits for the lock instead.
        let job = jobs.lock().recv();
        let Ok(Job { work, key, inbox, asker }) = job else { return };
        if over.load(Ordering::Acquire) {
            return;
        }
        if asker.strong_count() == 0 {
            continue;
        }
        inbox.send(match work {
            Work::Open { asked, visitor, span } => {
                let opened =
                    span.in_scope(|| admit_and_open(broker, access, &asked, visitor.as_ref()));
                Message::Opened(key, Box::new(opened))
            }
            Work::Warm(slice) => {
                // What cannot be read is met again, and judged, when it is sent.
                let _ = slice.warm();
                Message::Warmed(key)
            }
        });
    }
}

fn admit_and_open(
    broker: &Broker,
    access: &Access,
    asked: &Asked,
    visitor: Option<&Visitor>,
) -> (Option<Admitted>, Opened) {
    match visitor.map(|visitor| admit(access, asked, visitor)).transpose() {
        Ok(admitted) => (admitted, open(broker, asked)),
        Err(refusal) => (None, Err(refusal)),
    }
}
