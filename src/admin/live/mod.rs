//! What is told to those who watch, once a second: looked at once for all of them, and not at all while nobody does.

mod snapshot;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use self::snapshot::Sampler;
use super::health;
use super::problem::{Kind, Problem};
use super::state::State;
use crate::model::limits;

/// Between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// Events that a watcher may leave unread before it is let go of.
const UNREAD_MAX: u32 = 30;

/// Those who watch.
#[derive(Debug, Default)]
pub(super) struct Feed {
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    all: Vec<Watcher>,
    /// Somebody takes the snapshots.
    is_watched: bool,
    /// The last event, for the next one who comes.
    last: Option<Bytes>,
}

#[derive(Debug)]
struct Watcher {
    events: mpsc::Sender<Bytes>,
    unread: u32,
    /// Of the rules and tokens that it was let in by ([`Access::generation`](crate::access::Access::generation)).
    generation: u64,
}

/// The body of an answer that goes on until the broker goes down: an event a second.
#[derive(Debug)]
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

impl Feed {
    fn watchers(&self) -> std::sync::MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the event to everybody who has room for it, and forgets those who are gone. Waits for nobody: who is slow
    /// misses events; who was let in by other rules than those of now has to ask anew. `false` if nobody is left.
    fn tell(&self, event: &Bytes, generation: u64) -> bool {
        let mut watchers = self.watchers();
        watchers.last = Some(event.clone());
        watchers.all.retain(|watcher| watcher.generation == generation);
        watchers.all.retain_mut(|watcher| match watcher.events.try_send(event.clone()) {
            Ok(()) => {
                watcher.unread = 0;
                true
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                watcher.unread += 1;
                watcher.unread <= UNREAD_MAX
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
        if watchers.all.is_empty() {
            *watchers = Watchers::default();
        }
        watchers.is_watched
    }

    /// Ends every stream, behind what was told.
    fn end(&self) {
        *self.watchers() = Watchers::default();
    }
}

/// Begins to watch, let in by the rules and tokens of this generation. The first one has the snapshots taken, within the runtime
/// that asks.
pub(super) fn watch(state: &Arc<State>, generation: u64) -> Result<Events, Problem> {
    if state.is_stopping() {
        return Err(Problem::new(Kind::ShuttingDown, "the broker is going down"));
    }
    let mut watchers = state.feed.watchers();
    watchers.all.retain(|watcher| !watcher.events.is_closed());
    if watchers.all.len() >= limits::EVENT_STREAMS_MAX {
        let detail = format!("{} streams of events are open", limits::EVENT_STREAMS_MAX);
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    // One event on its way, and none behind it: what comes later replaces what was not read.
    let (sender, receiver) = mpsc::channel(1);
    if let Some(last) = &watchers.last {
        let _ = sender.try_send(last.clone());
    }
    watchers.all.push(Watcher { events: sender, unread: 0, generation });
    if !std::mem::replace(&mut watchers.is_watched, true) {
        tokio::spawn(take_snapshots(Arc::clone(state)));
    }
    Ok(Events(receiver))
}

async fn take_snapshots(state: Arc<State>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sampler = Sampler::default();
    loop {
        ticks.tick().await;
        let is_last = state.is_stopping();
        let health = health::readiness(&state).await;
        let of = Arc::clone(&state);
        // Every partition is looked at: off the thread that answers everybody.
        let sampled = tokio::task::spawn_blocking(move || {
            let event = sampler.event(&of, &health);
            (sampler, event)
        });
        match sampled.await {
            Ok((same, event)) => {
                sampler = same;
                if !state.feed.tell(&event, state.about.access.generation()) {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "the state of the broker could not be told to those who watch");
                return state.feed.end();
            }
        }
        if is_last {
            return state.feed.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(feed: &Feed) -> mpsc::Receiver<Bytes> {
        let (events, receiver) = mpsc::channel(1);
        let mut watchers = feed.watchers();
        watchers.all.push(Watcher { events, unread: 0, generation: 0 });
        watchers.is_watched = true;
        receiver
    }

    #[test]
    fn who_does_not_read_misses_events_and_is_let_go_of_in_the_end() {
        let feed = Feed::default();
        let mut deaf = listen(&feed);
        let mut awake = listen(&feed);
        for number in 0..=UNREAD_MAX + 1 {
            assert!(feed.tell(&number.to_string().into(), 0));
            assert_eq!(awake.try_recv().unwrap(), number.to_string());
        }
        assert_eq!(deaf.try_recv().unwrap(), "0");
        assert_eq!(deaf.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        drop(awake);
        assert!(!feed.tell(&Bytes::new(), 0), "nobody is left");
    }

    #[test]
    fn nothing_is_looked_at_once_nobody_listens() {
        let state = State::new(crate::admin::tests::about());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut events = watch(&state, 0).unwrap();
            assert!(events.0.recv().await.is_some());
            drop(events);
            while state.feed.watchers().is_watched {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(
                watch(&state, 0).unwrap().0.recv().await.is_some(),
                "and again once somebody does"
            );
        });
    }
}
