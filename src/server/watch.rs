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

/// The threads that look; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Vec<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(broker: Arc<Broker>, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let mut known = Health::default();
        let (stop, thread) = every_second("watch", move || {
            broker.check_space();
            let now = broker.health();
            tell(&known, &now);
            known = now;
        })?;
        let mut watch = Self { stop: vec![stop], thread: Some(thread) };
        if let Some(tls) = tls {
            let mut expiry = Expiry::Fine;
            // On a thread of its own, whose end nothing waits for: the file system of these files may not answer.
            let (stop, _) = every_second("certificate", move || {
                renew(&tls);
                let now = tls.expiry();
                tell_expiry(expiry, now);
                expiry = now;
            })?;
            watch.stop.push(stop);
        }
        Ok(watch)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.clear();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a thread that looks until the sender is dropped.
fn every_second(
    name: &str,
    mut look: impl FnMut() + Send + 'static,
) -> io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel::<()>();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        loop {
            look();
            if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok((stop, thread))
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
