//! Deleting what is not kept any longer, in the background, again and again; and at once what is left of deleted topics.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::broker::{Broker, WaiterId, Wake};
use crate::storage;

/// What the thread is told.
#[derive(Debug)]
enum Message {
    /// A topic was deleted.
    Deleted,
    Stop,
}

/// The thread that deletes; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Cleanup {
    bell: Arc<Bell>,
    /// It was told to stop, in the middle of something perhaps.
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Bell(SyncSender<Message>);

impl Wake for Bell {
    fn wake(&self, _waiter: WaiterId) {
        // If there is no room, a message is there already.
        let _ = self.0.try_send(Message::Deleted);
    }
}

impl Cleanup {
    pub(super) fn start(broker: Arc<Broker>, options: &storage::Options) -> io::Result<Self> {
        let interval = Duration::from_secs(u64::from(options.cleanup_interval_min) * 60);
        let (sender, messages) = sync_channel(1);
        let bell = Arc::new(Bell(sender));
        let wake: Arc<dyn Wake> = Arc::<Bell>::clone(&bell);
        broker.watch_deletions(&wake, WaiterId(0));
        let stopping = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stopping);
        let thread = thread::Builder::new().name("cleanup".to_owned()).spawn(move || {
            let stop = || stopped.load(Ordering::Acquire);
            // What an earlier process has left.
            remove_deleted(&broker, &stop);
            // The rest not at once: a start has enough to do.
            let mut next = Instant::now() + interval;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                match messages.recv_timeout(wait) {
                    Ok(Message::Deleted) => remove_deleted(&broker, &stop),
                    Err(RecvTimeoutError::Timeout) => {
                        retain(&broker, &stop);
                        remove_deleted(&broker, &stop);
                        next = Instant::now() + interval;
                    }
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { bell, stopping, thread: Some(thread) })
    }
}

fn retain(broker: &Broker, stop: &dyn Fn() -> bool) {
    let storage::Deleted { segments, bytes } = broker.retain(stop);
    if segments > 0 {
        tracing::info!(segments, bytes, "what is not kept any longer was deleted");
    }
}

fn remove_deleted(broker: &Broker, stop: &dyn Fn() -> bool) {
    match broker.remove_deleted(stop) {
        Ok(0) => {}
        Ok(directories) => {
            tracing::info!(directories, "directories of deleted topics were removed");
        }
        Err(error) => {
            tracing::warn!(%error, "directories of deleted topics cannot be looked for; they will be later");
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let _ = self.bell.0.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
