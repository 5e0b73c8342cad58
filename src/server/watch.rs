//! Looking at the broker once a second: at its disk space, at the files of its certificate, and whether anything has gone wrong.

use std::io;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::broker::{Broker, Health, Problem};
use crate::tls::{Expiry, Tls};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The thread that looks; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(broker: Arc<Broker>, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let mut known = Health::default();
            let mut expiry = Expiry::Fine;
            loop {
                if let Some(tls) = &tls {
                    renew(tls);
                    let now = tls.expiry();
                    tell_expiry(expiry, now);
                    expiry = now;
                }
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

/// Takes the certificate's files over if they have changed.
fn renew(tls: &Tls) {
    match tls.reload_if_changed() {
        Ok(false) => {}
        Ok(true) => tracing::info!("the certificate was read again, for connections from now on"),
        Err(error) => tracing::error!(%error, "the certificate stays as it was"),
    }
}

/// Logs what has become worse.
fn tell_expiry(before: Expiry, now: Expiry) {
    if discriminant(&before) == discriminant(&now) {
        return;
    }
    match now {
        Expiry::Fine => {}
        Expiry::Soon { .. } => tracing::warn!("the broker's certificate {now}"),
        Expiry::Expired => tracing::error!("the broker's certificate {now}"),
    }
}
