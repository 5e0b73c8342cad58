//! Messages as a [`Stream`], for programs that are made of streams.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::Notify;

use super::consumer::{ConsumeError, Consumer};
use super::group_consumer::{GroupConsumer, PartitionError};
use super::message::Message;
use crate::model::PartitionId;

/// What a [`Messages`] takes messages from: [`Consumer`] and [`GroupConsumer`].
pub trait Source: sealed::Source {}

impl Source for Consumer {}
impl Source for GroupConsumer {}

/// What comes out of a source.
type Received<C> = Result<<C as sealed::Source>::Item, <C as sealed::Source>::Error>;

/// A wait for a message, which has the consumer meanwhile; `None` if it was called back.
type Waiting<C> = Pin<Box<dyn Future<Output = (C, Option<Received<C>>)> + Send>>;

/// The messages of a consumer as a [`Stream`]; made by [`Consumer::into_stream`] and [`GroupConsumer::into_stream`].
///
/// **Errors** are items, and the stream goes on behind them as the consumer does: nothing is lost. A program that does not
/// want to wait for a broker stops at the first. The stream ends only if the consumer does
/// ([`until_end`](super::ConsumerOptions::until_end)).
///
/// **Committing.** [`consumer`](Self::consumer) gives the consumer back between two messages. A [`GroupConsumer`] that
/// commits by itself takes a message for handled once the next one is asked for: adapters that ask ahead (`buffered`,
/// `ready_chunks`) break that, so set `auto_commit` to `None` with them and commit what is done.
///
/// Messages that were read already are given without an allocation; each wait is one.
pub struct Messages<C: Source> {
    state: State<C>,
    recall: Arc<Notify>,
}

enum State<C: Source> {
    Idle(C),
    Waiting(Waiting<C>),
    /// A message that came while the consumer was called back.
    Came(C, Received<C>),
    /// A wait has panicked.
    Gone,
}

impl<C: Source> Messages<C> {
    pub(super) fn new(consumer: C) -> Self {
        Self { state: State::Idle(consumer), recall: Arc::new(Notify::new()) }
    }

    /// The consumer, to commit with or to ask for gaps. A wait for a message is broken off, and goes on with the next poll.
    ///
    /// Cancel-safe. `None` only after a panic inside a poll.
    pub async fn consumer(&mut self) -> Option<&mut C> {
        if let State::Waiting(waiting) = &mut self.state {
            self.recall.notify_one();
            let (consumer, received) = waiting.await;
            self.state = match received {
                Some(received) => State::Came(consumer, received),
                None => State::Idle(consumer),
            };
        }
        match &mut self.state {
            State::Idle(consumer) | State::Came(consumer, _) => Some(consumer),
            State::Waiting(_) | State::Gone => None,
        }
    }

    /// The next item of what was read already or has come.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Option<Received<C>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Gone) {
                State::Came(consumer, received) => {
                    self.state = State::Idle(consumer);
                    return Poll::Ready(Some(received));
                }
                State::Idle(mut consumer) => {
                    if let Some(received) = consumer.ready().transpose() {
                        self.state = State::Idle(consumer);
                        return Poll::Ready(Some(received));
                    }
                    self.state = State::Waiting(Box::pin(wait(consumer, Arc::clone(&self.recall))));
                }
                State::Waiting(mut waiting) => match waiting.as_mut().poll(cx) {
                    Poll::Pending => {
                        self.state = State::Waiting(waiting);
                        return Poll::Pending;
                    }
                    Poll::Ready((consumer, Some(received))) => {
                        self.state = State::Came(consumer, received);
                    }
                    Poll::Ready((consumer, None)) => self.state = State::Idle(consumer),
                },
                State::Gone => return Poll::Ready(None),
            }
        }
    }
}

async fn wait<C: Source>(mut consumer: C, recall: Arc<Notify>) -> (C, Option<Received<C>>) {
    let received = tokio::select! {
        received = consumer.receive() => Some(received),
        () = recall.notified() => None,
    };
    (consumer, received)
}

impl<C: Source> Stream for Messages<C> {
    type Item = Received<C>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let received = ready!(self.poll_received(cx));
        Poll::Ready(received.filter(|received| !received.as_ref().is_err_and(C::is_end)))
    }
}

// A consumer is moved about as it is; only the boxed wait is pinned.
impl<C: Source> Unpin for Messages<C> {}

impl<C: Source> fmt::Debug for Messages<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}

mod sealed {
    /// A consumer, as far as a stream of its messages goes.
    pub trait Source: Sized + Send + 'static {
        type Item: Send;
        type Error: Send;

        /// The next message; cancel-safe.
        fn receive(&mut self) -> impl Future<Output = Result<Self::Item, Self::Error>> + Send;

        /// The next message that has been read already.
        fn ready(&mut self) -> Result<Option<Self::Item>, Self::Error>;

        /// Whether this is the end that was asked for.
        fn is_end(error: &Self::Error) -> bool;
    }
}

impl sealed::Source for Consumer {
    type Item = Message;
    type Error = ConsumeError;

    async fn receive(&mut self) -> Result<Message, ConsumeError> {
        self.recv().await
    }

    fn ready(&mut self) -> Result<Option<Message>, ConsumeError> {
        self.try_next()
    }

    fn is_end(error: &ConsumeError) -> bool {
        matches!(error, ConsumeError::End)
    }
}

impl sealed::Source for GroupConsumer {
    type Item = (PartitionId, Message);
    type Error = PartitionError;

    async fn receive(&mut self) -> Result<Self::Item, PartitionError> {
        self.recv().await
    }

    fn ready(&mut self) -> Result<Option<Self::Item>, PartitionError> {
        self.try_next()
    }

    fn is_end(error: &PartitionError) -> bool {
        matches!(error.source, ConsumeError::End)
    }
}
