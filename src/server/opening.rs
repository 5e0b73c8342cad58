//! Saying how far a recovery is that takes long.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::notify::Notify;
use crate::broker::OpenProgress;

/// Time between two reports, and before the first one: a start that is quick says nothing.
const PERIOD: Duration = Duration::from_secs(1);

/// How much longer the service manager is to wait, each time, whatever has moved. One partition whose files have to be read
/// whole may take hours, and nothing tells it from one that hangs: to be ended for it, at each start anew, would be worse. So the
/// service manager finds out a process that is stopped, and the number of partitions that stays is for people.
const MORE: Duration = Duration::from_secs(30);

/// The thread that reports; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Opening {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Opening {
    pub(super) fn start(progress: Arc<OpenProgress>, notify: Arc<Notify>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("opening".to_owned()).spawn(move || {
            notify.starting("recovering the log", MORE);
            let mut said = (0, 0);
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let (done, all) = progress.get();
                notify.starting(&format!("recovering the log: {done} of {all} partitions"), MORE);
                if (done, all) != said {
                    tracing::info!(done, all, "recovering the log, partition by partition");
                    said = (done, all);
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
