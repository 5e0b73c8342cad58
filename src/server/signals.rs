//! SIGTERM and SIGINT end the broker, SIGHUP has it read its configuration again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

use crate::broker::OpenProgress;
use crate::telemetry;

/// What the process is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end, by the signal of this name.
    Stop(&'static str),
    /// To read its configuration again.
    Reload,
}

/// Signals, from when it was made.
#[derive(Debug)]
pub(super) struct Signals {
    wishes: Receiver<Wish>,
}

impl Signals {
    /// Begins to listen. The first signal to stop also ends an opening that is under way; the second one ends the process with
    /// exit code 1, whatever the first one has started.
    pub(super) fn listen(opening: Arc<OpenProgress>) -> io::Result<Self> {
        let mut signals = iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let (tell, wishes) = channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut stopping = false;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    let _ = tell.send(Wish::Reload);
                    continue;
                }
                if std::mem::replace(&mut stopping, true) {
                    tracing::error!(signal = name(signal), "second signal: ending at once");
                    telemetry::flush();
                    std::process::exit(1);
                }
                opening.stop();
                let _ = tell.send(Wish::Stop(name(signal)));
            }
        })?;
        Ok(Self { wishes })
    }

    /// Waits for the next signal.
    pub(super) fn wait(&self) -> Wish {
        self.wishes.recv().unwrap_or(Wish::Stop("none"))
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        _ => "unknown",
    }
}
