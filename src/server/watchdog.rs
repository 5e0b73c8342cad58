//! Signs of life for the service manager, as long as every reactor turns.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use super::notify::Notify;
use crate::net::Pulse;

/// The thread that gives them; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    unconditional: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Gives a sign twice in the time that the manager waits, if it wants any. Each time the reactors are asked whether they
    /// turn; while one has not answered for half of that period, there is none.
    pub(super) fn start(notify: &Arc<Notify>, pulse: Pulse) -> io::Result<Option<Self>> {
        let Some(timeout) = notify.watchdog() else { return Ok(None) };
        let period = timeout / 2;
        let unconditional = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = channel::<()>();
        let (notify, always) = (Arc::clone(notify), Arc::clone(&unconditional));
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut silent = false;
            loop {
                let silence = pulse.silence().filter(|(_, silence)| *silence >= period / 2);
                let silence = silence.filter(|_| !always.load(Ordering::Relaxed));
                match silence {
                    None => notify.alive(),
                    // Said once: the manager says the rest.
                    Some((reactor, silence)) if !silent => tracing::error!(
                        reactor,
                        millis = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
                        "a reactor does not turn; the service manager gets no sign of life"
                    ),
                    Some(_) => {}
                }
                silent = silence.is_some();
                pulse.ask();
                if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Some(Self { unconditional, stop: Some(stop), thread: Some(thread) }))
    }

    /// The broker is going down: reactors end, each when it is done. The manager's timeout for the stop counts now.
    pub(super) fn set_stopping(&self) {
        self.unconditional.store(true, Ordering::Relaxed);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
