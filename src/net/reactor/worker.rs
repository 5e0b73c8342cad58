//! Threads for what may wait for a disk: creating topics, finding a consumer's place.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::inbox::{Inbox, Key, Message};
use crate::broker::Broker;
use crate::net::open::open;
use crate::protocol::Request;

/// Enough that one slow disk access does not hold up every handshake.
const THREADS: usize = 2;

/// One handshake to act upon.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) key: Key,
    pub(super) inbox: Arc<Inbox>,
}

/// The threads; they end when every sender of jobs is gone.
#[derive(Debug)]
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(broker: &Arc<Broker>) -> io::Result<(Self, Sender<Job>)> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (broker, receiver) = (Arc::clone(broker), Arc::clone(&receiver));
            let name = format!("opener-{number}");
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
        let Ok(Job { request, key, inbox }) = job else { return };
        inbox.send(Message::Opened(key, Box::new(open(broker, &request))));
    }
}
