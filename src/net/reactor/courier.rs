//! Threads that send to consumers in place of their reactors: see `delegate`. Each has a poll of its own, and the parcels it was
//! given, in turns; one whose socket is full waits there. A reactor hears of a parcel when it is done, so that it is not woken
//! all the time while it has producers to answer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use slab::Slab;

use super::delegate::{Parcel, Progress};
use super::inbox::Message;
use crate::metrics::Metrics;

/// Enough that one slow disk access does not hold up all consumers.
const THREADS: usize = 2;

/// A consumer that takes nothing for so long waits at its reactor instead, where it costs no second descriptor.
const STALL_TIME: Duration = Duration::from_millis(100);

/// After this time a parcel goes back as far as it has come: its session is to know what its consumer takes.
const HOLD_TIME: Duration = Duration::from_secs(1);

const EVENTS: usize = 256;
const WAKER: Token = Token(usize::MAX);

/// The way to one of the threads.
#[derive(Debug)]
struct Courier {
    new: Mutex<Vec<Parcel>>,
    waker: Waker,
    /// Nobody waits for what is still to be done.
    over: AtomicBool,
}

/// The way to all of them.
#[derive(Debug, Clone)]
pub(super) struct Post {
    couriers: Arc<[Courier]>,
}

/// The threads; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Couriers {
    post: Post,
    threads: Vec<JoinHandle<()>>,
}

impl Post {
    /// Has a parcel sent.
    pub(super) fn give(&self, parcel: Parcel) {
        let courier = &self.couriers[parcel.key().slot() % self.couriers.len()];
        let was_empty = {
            let mut new = courier.new.lock();
            new.push(parcel);
            new.len() == 1
        };
        if was_empty {
            courier.rouse();
        }
    }
}

impl Courier {
    fn rouse(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a thread that sends could not be woken");
        }
    }
}

impl Couriers {
    pub(super) fn start(metrics: &Arc<Metrics>) -> io::Result<Self> {
        let mut polls = Vec::new();
        let mut couriers = Vec::new();
        for _ in 0..THREADS {
            let poll = Poll::new()?;
            let waker = Waker::new(poll.registry(), WAKER)?;
            let over = AtomicBool::new(false);
            couriers.push(Courier { new: Mutex::default(), waker, over });
            polls.push(poll);
        }
        let mut started = Self { post: Post { couriers: couriers.into() }, threads: Vec::new() };
        for (number, poll) in polls.into_iter().enumerate() {
            let (post, metrics) = (started.post.clone(), Arc::clone(metrics));
            let round = Round { poll, parcels: Slab::new(), ready: VecDeque::new(), metrics };
            let thread = thread::Builder::new().name(format!("sender-{number}"));
            let run = move || round.run(&post.couriers[number]);
            started.threads.push(thread.spawn(run)?);
        }
        Ok(started)
    }

    /// How parcels get there.
    pub(super) fn post(&self) -> Post {
        self.post.clone()
    }
}

impl Drop for Couriers {
    /// Breaks off what is under way.
    fn drop(&mut self) {
        for courier in &*self.post.couriers {
            courier.over.store(true, Ordering::Release);
            courier.rouse();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A parcel that a thread has.
#[derive(Debug)]
struct Held {
    parcel: Parcel,
    /// When it came.
    since: Instant,
    /// Since when its socket is full; `None` if it waits for its turn.
    full: Option<Instant>,
    /// Its socket is known to the poll.
    registered: bool,
}

/// One thread's work.
struct Round {
    poll: Poll,
    parcels: Slab<Held>,
    /// Those whose sockets may take something.
    ready: VecDeque<usize>,
    metrics: Arc<Metrics>,
}

impl Round {
    fn run(mut self, courier: &Courier) {
        let mut events = Events::with_capacity(EVENTS);
        let mut new = Vec::new();
        let mut looked = Instant::now();
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.timeout())
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for events failed");
            }
            for event in &events {
                self.event(event.token());
            }
            std::mem::swap(&mut new, &mut *courier.new.lock());
            for parcel in new.drain(..) {
                let since = Instant::now();
                let slot =
                    self.parcels.insert(Held { parcel, since, full: None, registered: false });
                self.ready.push_back(slot);
            }
            for _ in 0..self.ready.len() {
                if courier.over.load(Ordering::Acquire) {
                    break;
                }
                if let Some(slot) = self.ready.pop_front() {
                    self.take_turn(slot);
                }
            }
            if courier.over.load(Ordering::Acquire) {
                return;
            }
            if looked.elapsed() >= STALL_TIME {
                looked = Instant::now();
                self.return_slow(looked);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.ready.is_empty() {
            (!self.parcels.is_empty()).then_some(STALL_TIME)
        } else {
            Some(Duration::ZERO)
        }
    }

    fn event(&mut self, token: Token) {
        let held = self.parcels.get_mut(token.0).filter(|_| token != WAKER);
        if held.is_some_and(|held| held.full.take().is_some()) {
            self.ready.push_back(token.0);
        }
    }

    fn take_turn(&mut self, slot: usize) {
        let Some(held) = self.parcels.get_mut(slot) else { return };
        match held.parcel.send(&self.metrics) {
            Progress::Turn if held.since.elapsed() < HOLD_TIME => self.ready.push_back(slot),
            Progress::Full => {
                held.full = Some(Instant::now());
                if !held.registered {
                    // What has become writable meanwhile is told at once.
                    let socket = held.parcel.socket();
                    let token = Token(slot);
                    let result = self.poll.registry().register(socket, token, Interest::WRITABLE);
                    held.registered = result.is_ok();
                    if let Err(error) = result {
                        tracing::debug!(%error, "a consumer is sent to by its reactor");
                        self.finish(slot, Progress::Full);
                    }
                }
            }
            done => self.finish(slot, done),
        }
    }

    /// Gives back what waits for its socket, and has for long.
    fn return_slow(&mut self, now: Instant) {
        let age = |since| now.saturating_duration_since(since);
        let is_slow = |held: &Held| {
            let full = held.full.map(age);
            full.is_some_and(|full| full >= STALL_TIME || age(held.since) >= HOLD_TIME)
        };
        let slow: Vec<usize> =
            self.parcels.iter().filter_map(|(slot, held)| is_slow(held).then_some(slot)).collect();
        for slot in slow {
            self.finish(slot, Progress::Full);
        }
    }

    /// Tells the reactor, when the second descriptor is gone.
    fn finish(&mut self, slot: usize, progress: Progress) {
        let Held { mut parcel, registered, .. } = self.parcels.remove(slot);
        if registered {
            // Closing would not do: the session has the socket, too.
            let _ = self.poll.registry().deregister(parcel.socket());
        }
        let (key, inbox, delivery) = parcel.end(progress);
        inbox.send(Message::Sent(key, delivery));
    }
}
