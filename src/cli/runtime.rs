//! What the client commands need of the process: an asynchronous runtime and the signals that end a command.

use std::future::Future;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::watch;

use super::failure::Failure;
use super::scratch::clean_up_and;

/// Exit code of a command that a signal ended, as shells have it for SIGINT.
const EXIT_SIGNAL: i32 = 130;

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

/// The signals that ask a command to end; that of a terminal that closes is one of them, unless the command was started to
/// outlive it.
fn ending_signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if hangs_up() {
        signals.push(SIGHUP);
    }
    signals
}

/// Whether SIGHUP would end this process, as it does not after `nohup`. Where nothing tells it is left alone.
fn hangs_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut ignored = status.lines().filter_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.next().and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) == 0)
}

/// Has a thread of its own wait for them.
fn on_signals(
    work: impl FnOnce(&mut dyn Iterator<Item = i32>) + Send + 'static,
) -> Result<(), Failure> {
    let cannot = |error| Failure::runtime("cannot catch signals", &error);
    let mut signals = Signals::new(ending_signals()).map_err(cannot)?;
    let wait = move || work(&mut signals.forever());
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(cannot)?;
    Ok(())
}

/// For a command that has nothing to finish: the first of these signals cleans up, and ends the process.
pub(super) fn clean_up_on_signals() -> Result<(), Failure> {
    on_signals(|signals| {
        if signals.next().is_some() {
            clean_up_and(|| std::process::exit(EXIT_SIGNAL));
        }
    })
}

/// Tells when the operator asked the command to end.
#[derive(Debug)]
pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens for the [signals that end a command](ending_signals). The second one ends the process at once, whatever it
    /// waits for, and leaves no temporary directory.
    pub(super) fn listen() -> Result<Self, Failure> {
        let (sender, receiver) = watch::channel(false);
        on_signals(move |signals| {
            if signals.next().is_none() {
                return;
            }
            // Nobody listens any more if this fails. The channel is kept: its end would say "asked" as well, but only by chance.
            let _ = sender.send(true);
            if let Some(signal) = signals.next() {
                clean_up_and(|| {
                    // It ends the process, or nothing does.
                    let _ = emulate_default_handler(signal);
                });
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
