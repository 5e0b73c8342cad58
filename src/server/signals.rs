//! SIGTERM and SIGINT.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator;

/// Signals that ask for the end, from when it was made.
#[derive(Debug)]
pub(super) struct Signals {
    first: Receiver<&'static str>,
}

impl Signals {
    /// Begins to listen. The second signal ends the process with exit code 1, whatever the first one has started.
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = iterator::Signals::new([SIGTERM, SIGINT])?;
        let (tell, first) = channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for (count, signal) in signals.forever().enumerate() {
                if count > 0 {
                    tracing::error!(signal = name(signal), "second signal: ending at once");
                    std::process::exit(1);
                }
                let _ = tell.send(name(signal));
            }
        })?;
        Ok(Self { first })
    }

    /// Waits for the first signal; returns its name.
    pub(super) fn wait(&self) -> &'static str {
        self.first.recv().unwrap_or("none")
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        _ => "unknown",
    }
}
