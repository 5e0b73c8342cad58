//! The connections at a time. Who is being answered keeps its place; who is silent, before a request or between two, keeps it for as
//! long as nobody else wants one.
//!
//! So a crowd that sends nothing, or asks and stays, keeps nobody out: a probe that gets no answer has a broker ended that is well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There may be a place where there was none.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Silences so far: their numbers are in the order in which they began.
    silences: u64,
    /// Who is silent, and how it is told that its place is gone.
    silent: BTreeMap<u64, Arc<Notify>>,
}

impl State {
    fn begin_silence(&mut self, gone: &Arc<Notify>) -> u64 {
        self.silences += 1;
        self.silent.insert(self.silences, Arc::clone(gone));
        self.silences
    }
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        let state = State { free: count, silences: 0, silent: BTreeMap::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// A free place, else that of who is silent for longest, else whichever of both there is first.
    pub(super) async fn take(&self) -> Arc<Place> {
        loop {
            if let Some(place) = self.try_take() {
                return Arc::new(place);
            }
            self.0.changed.notified().await;
        }
    }

    fn try_take(&self) -> Option<Place> {
        let mut state = self.0.state.lock();
        if state.free > 0 {
            state.free -= 1;
        } else {
            state.silent.pop_first()?.1.notify_one();
        }
        let gone = Arc::new(Notify::new());
        let silence = AtomicU64::new(state.begin_silence(&gone));
        Some(Place { all: self.clone(), gone, silence })
    }
}

/// The place of one connection, which is silent at first.
#[derive(Debug)]
pub(super) struct Place {
    all: Places,
    gone: Arc<Notify>,
    /// Its last one.
    silence: AtomicU64,
}

impl Place {
    /// Waits until the place is somebody else's.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// Keeps the place for an answer. One answer at a time.
    pub(super) fn keep(self: &Arc<Self>) -> Kept {
        Kept { is_ours: self.end_silence(&mut self.all.0.state.lock()), place: Arc::clone(self) }
    }

    /// Whether the place was still its own.
    fn end_silence(&self, state: &mut State) -> bool {
        state.silent.remove(&self.silence.load(Ordering::Relaxed)).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.all.0.state.lock();
        if self.end_silence(&mut state) {
            state.free += 1;
            self.all.0.changed.notify_one();
        }
    }
}

/// A place that nobody takes, until this is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    place: Arc<Place>,
    is_ours: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.is_ours {
            let Place { all, gone, silence } = &*self.place;
            silence.store(all.0.state.lock().begin_silence(gone), Ordering::Relaxed);
            all.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn take(places: &Places) -> Arc<Place> {
        poll(places.take()).expect("a place")
    }

    fn is_gone(place: &Place) -> bool {
        poll(place.gone()).is_some()
    }

    #[test]
    fn who_comes_gets_the_place_of_who_is_silent_for_longest() {
        let places = Places::new(2);
        let (first, second) = (take(&places), take(&places));
        // Has asked and been answered since.
        drop(first.keep());
        let third = take(&places);
        assert!(is_gone(&second) && !is_gone(&first));
        let _fourth = take(&places);
        assert!(is_gone(&first) && !is_gone(&third));
        // These two have none to give back.
        drop((first, second));
        let _fifth = take(&places);
        assert!(is_gone(&third));
    }

    #[test]
    fn who_is_answered_keeps_its_place() {
        let places = Places::new(2);
        let (first, second) = (take(&places), take(&places));
        let (kept, other) = (first.keep(), second.keep());
        assert!(poll(places.take()).is_none());
        drop(kept);
        let third = take(&places);
        assert!(is_gone(&first) && !is_gone(&second));
        // Too late: the place is gone.
        drop(first.keep());
        let kept = third.keep();
        assert!(poll(places.take()).is_none());
        drop((kept, other));
        drop((first, second, third));
        let all = (take(&places), take(&places));
        assert!(!is_gone(&all.0) && !is_gone(&all.1), "both were free");
    }
}
