//! The background task: keeps a connection as long as there is something to send, and gives up what cannot be sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::conversation::{Conversation, End};
use super::options::ProducerOptions;
use super::queue::{Cause, SendQueue};
use super::window::{Orders, Pending, Window};
use crate::client::connect::{self, ConnectError, Hello, Place};
use crate::client::retry::Backoff;
use crate::client::stream::Stream;

/// What the task keeps from one connection to the next.
pub(super) struct Driver {
    pub(super) window: Arc<Window>,
    place: Place,
    hello: Hello,
    pub(super) options: ProducerOptions,
    pub(super) queue: SendQueue,
    backoff: Backoff,
    /// Nothing was stored since a warning said that the connection is lost.
    outage_told: bool,
    /// Nothing is written before then: the broker has no room.
    pub(super) paused_until: Option<Instant>,
    /// Fresh records wait for company until then.
    linger_until: Option<Instant>,
    orders: Orders,
    /// The last connection was closed without any ack. The broker refuses something, so the next one finds out what: it
    /// is given time to close by itself, then one frame, and more only after an ack.
    pub(super) careful: bool,
    /// Kept for its capacity; empty between calls.
    incoming: Vec<Pending>,
}

impl Driver {
    pub(super) fn new(
        window: Arc<Window>,
        place: Place,
        hello: Hello,
        options: ProducerOptions,
    ) -> Self {
        Self {
            window,
            place,
            hello,
            queue: SendQueue::new(&options),
            backoff: Backoff::new(&options.retry),
            options,
            outage_told: false,
            paused_until: None,
            linger_until: None,
            orders: Orders::default(),
            careful: false,
            incoming: Vec::new(),
        }
    }

    /// Runs until the producer is closed and everything handed over is acked or failed.
    pub(super) async fn run(mut self, stream: Stream) {
        let mut connected: Result<_, ConnectError> = Ok(stream);
        loop {
            let end = match connected {
                Ok(stream) => Conversation::new(stream, self.careful).run(&mut self).await,
                Err(ConnectError::Refused(refused)) if !refused.is_transient() => {
                    End::Broken(Cause::Rejected(refused))
                }
                Err(error) => End::Broken(Cause::Lost(error.to_string().into())),
            };
            let End::Broken(cause) = end else { return };
            // A connection that broke while nothing was to be sent is no reason to keep the next record waiting. One that took
            // what was to be sent with it is.
            let was_idle = self.queue.is_empty();
            self.on_lost(&cause);
            if !self.has_work().await {
                return;
            }
            if !was_idle {
                tokio::time::sleep(self.backoff.next_pause()).await;
            }
            connected = self.connect().await;
        }
    }

    async fn connect(&mut self) -> Result<Stream, ConnectError> {
        let options = &self.options.connect;
        connect::open(&self.place.addr, &self.hello, options).await.map(|(stream, _)| stream)
    }

    fn on_lost(&mut self, cause: &Cause) {
        // Records that came in meanwhile are part of the outage too.
        self.take();
        let had_work = !self.queue.is_empty();
        self.queue.lost(cause, Instant::now());
        self.paused_until = None;
        self.release();
        if !had_work {
            return;
        }
        let Place { addr, topic, partition } = &self.place;
        if std::mem::replace(&mut self.outage_told, true) {
            tracing::debug!(addr, %topic, partition, ?cause, "connection to the broker lost again");
        } else {
            tracing::warn!(addr, %topic, partition, ?cause, "connection to the broker lost");
        }
    }

    /// Waits until there is something to send: an idle producer does not knock at a broker's door. `false` at the end.
    async fn has_work(&mut self) -> bool {
        loop {
            self.take();
            if !self.queue.is_empty() {
                return true;
            }
            if self.orders.closing {
                return false;
            }
            self.window.news(1).await;
        }
    }

    /// Takes over what was handed to the producer since the last time.
    pub(super) fn take(&mut self) {
        let orders = self.window.drain(&mut self.incoming);
        let was_idle = self.queue.fresh_bytes() == 0;
        self.queue.accept(&mut self.incoming);
        if self.queue.fresh_bytes() == 0 {
            self.linger_until = None;
            self.orders.urgent = false;
        } else if was_idle && !self.options.linger.is_zero() {
            self.linger_until = Some(Instant::now() + self.options.linger);
        }
        self.orders.urgent |= orders.urgent && self.queue.fresh_bytes() > 0;
        self.orders.closing |= orders.closing;
    }

    /// Tells the window what was completed.
    pub(super) fn release(&mut self) {
        self.window.release(&mut self.queue.released);
    }

    /// The producer is closed, and every record has its outcome.
    pub(super) fn is_finished(&self) -> bool {
        self.orders.closing && self.queue.is_empty()
    }

    /// When what is queued may be written: `None` for now.
    pub(super) fn held_until(&self, now: Instant) -> Option<Instant> {
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Some(until);
        }
        let company = self.orders.urgent
            || self.queue.has_retries()
            || self.queue.fresh_bytes() >= self.options.batch_bytes;
        if company { None } else { self.linger_until.filter(|until| *until > now) }
    }

    /// At how many queued bytes a sender is to wake the task. While records linger, those that fill the batch; while
    /// nothing can be written, none do.
    pub(super) fn wake_at(&self, can_take_more: bool) -> usize {
        match (can_take_more, self.linger_until) {
            (false, _) => usize::MAX,
            (true, None) => 1,
            (true, Some(_)) => {
                self.options.batch_bytes.saturating_sub(self.queue.fresh_bytes()).max(1)
            }
        }
    }

    /// The pause before a frame that the broker has no room for is sent again. One for each bulk of refusals.
    pub(super) fn pause(&mut self, now: Instant) {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = Some(now + self.backoff.next_pause());
        }
    }

    /// Records were stored: an outage is over.
    pub(super) fn settled(&mut self) {
        self.backoff.reset();
        self.outage_told = false;
    }

    /// How many frames may be in flight.
    pub(super) fn frame_window(&self) -> usize {
        if self.careful { 1 } else { self.options.max_in_flight_frames.max(1) }
    }
}

impl Drop for Driver {
    /// However the task ends, nobody waits for it for ever: the frames it holds fail as they are dropped.
    fn drop(&mut self) {
        self.window.die();
    }
}

/// Time that a suspicious broker gets to close a connection before the first frame. Longer under test, where a broker that
/// shares its cores with other tests may be slow to close.
pub(super) const HANDSHAKE_GRACE: Duration =
    if cfg!(test) { Duration::from_secs(1) } else { Duration::from_millis(100) };
