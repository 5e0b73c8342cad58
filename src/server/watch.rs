//! Looking at the broker once a second: at its disk space, and whether anything has gone wrong.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::broker::{Broker, Health, Problem};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The thread that looks; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(broker: Arc<Broker>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let mut known = Health::default();
            loop {
                let now = broker.health();
                tell(&known, &now);
                known = now;
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                broker.check_space();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Logs what has begun and what has ended.
fn tell(before: &Health, now: &Health) {
    for problem in now.problems.iter().filter(|problem| !before.problems.contains(problem)) {
        match problem {
            Problem::LowSpace { .. } => tracing::error!("{problem}"),
            // What led to these was logged as an error where it happened, with its cause.
            Problem::ReadOnly { .. } | Problem::Damaged { .. } | Problem::Compaction { .. } => {
                tracing::warn!("{problem}");
            }
        }
    }
    let low = |health: &Health| {
        health.problems.iter().any(|problem| matches!(problem, Problem::LowSpace { .. }))
    };
    if low(before) && !low(now) {
        tracing::info!("there is enough disk space again; records are stored");
    }
}
