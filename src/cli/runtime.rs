//! What the client commands need of the process: an asynchronous runtime and the signals that end a command.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

use super::failure::Failure;

/// Runs a command that talks to a broker, on this thread.
pub(super) fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    value_of(command)
}

/// As [`block_on`], for one that gives something.
pub(super) fn value_of<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::runtime("cannot start", &error))?;
    runtime.block_on(command)
}

/// Tells when the operator asked the command to end.
#[derive(Debug)]
pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM. The second one ends the process at once, whatever it waits for.
    pub(super) fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal arms the default action for the second.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked))?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (sender, receiver) = watch::channel(false);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if signals.forever().next().is_some() {
                // Nobody listens any more if this fails.
                let _ = sender.send(true);
                // Keep the channel: its end would say "asked" as well, but only by chance.
                for _ in signals.forever() {}
            }
        })?;
        Ok(Self(receiver))
    }

    /// Waits until the command is asked to end.
    pub(super) async fn asked(&mut self) {
        // The sender lives as long as its thread; without it nobody can ask.
        if self.0.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the command was asked to end.
    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }
}
