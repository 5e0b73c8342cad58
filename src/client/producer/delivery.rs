//! How the outcome of a record gets back to who sent it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::error::DeliveryError;
use crate::model::Offset;

/// What became of a record.
pub(super) type Outcome = Result<Offset, DeliveryError>;

/// The promise that a record gets an offset, or an error. Await it, or drop it: the record is sent either way.
///
/// Many deliveries may be awaited in any order; each one resolves when its ack is read.
#[derive(Debug)]
#[must_use = "an error shows only here"]
pub struct Delivery {
    receiver: oneshot::Receiver<Outcome>,
}

impl Delivery {
    /// Waits for the outcome in a program without a runtime.
    ///
    /// # Panics
    /// Inside an asynchronous task, as every blocking wait of tokio does. Await the delivery there.
    pub fn wait(self) -> Outcome {
        self.receiver.blocking_recv().unwrap_or(Err(DeliveryError::Closed))
    }
}

impl Future for Delivery {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.receiver)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or(Err(DeliveryError::Closed)))
    }
}

/// A callback for the outcome.
pub(super) type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// The other end of a delivery, or a callback. Once the record was taken, whatever happens to it is told, even if this
/// is merely dropped.
pub(super) struct Completion {
    target: Option<Target>,
    /// Before this, the sender is told by the error of `send`, or has given up waiting.
    taken: bool,
}

enum Target {
    Delivery(oneshot::Sender<Outcome>),
    Callback(Callback),
}

impl Completion {
    pub(super) fn delivery() -> (Self, Delivery) {
        let (sender, receiver) = oneshot::channel();
        (Self { target: Some(Target::Delivery(sender)), taken: false }, Delivery { receiver })
    }

    pub(super) fn callback(callback: Callback) -> Self {
        Self { target: Some(Target::Callback(callback)), taken: false }
    }

    /// The producer answers for the record from now on.
    pub(super) fn taken(&mut self) {
        self.taken = true;
    }

    pub(super) fn complete(mut self, outcome: Outcome) {
        self.fire(outcome);
    }

    fn fire(&mut self, outcome: Outcome) {
        match self.target.take() {
            // A dropped delivery is nobody's business any more.
            Some(Target::Delivery(sender)) => drop(sender.send(outcome)),
            Some(Target::Callback(callback)) => callback(outcome),
            None => {}
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.taken {
            self.fire(Err(DeliveryError::Closed));
        }
    }
}
