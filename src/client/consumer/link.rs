//! A consumer's connection: made, read, found broken, made again.

use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tracing::Instrument as _;

use super::error::ConsumeError;
use super::options::ConsumerOptions;
use crate::client;
use crate::client::connect::{self, ConnectError, ConnectOptions, Hello, Place, Protocol, Wish};
use crate::client::retry::Backoff;
use crate::client::stream::Stream;
use crate::model::{GroupName, Offset};
use crate::protocol::Status;
use crate::protocol::v1_1::{Start, write_commit};

/// A connection that was open for longer was not refused, even if no byte came.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// A connection that was open for longer ended the outage before it, even if it brought nothing new.
const RECOVERY_TIME: Duration = Duration::from_secs(5);

/// Heartbeats that may be missing before a connection counts as broken.
const HEARTBEATS_MISSING: u32 = 3;

/// What comes after an attempt that failed.
pub(super) enum Ended {
    /// The same again.
    Again,
    /// The place is not there; the nearest one is.
    GoOnAt(Offset),
}

/// A connection, where the broker begins on it, and where the consumer is to end, if it is.
type Opened = (Stream, Offset, Option<Offset>);

/// All that outlives a wait is kept here, so that a wait may be dropped at any time and begun again.
pub(super) struct Link {
    place: Place,
    group: Option<GroupName>,
    options: ConsumerOptions,
    /// Where it ends, if it does: the log end when it first connected.
    end: Option<Offset>,
    stream: Option<Stream>,
    /// The pause and the attempt to connect that run: a task, which goes on while nobody waits for it.
    opening: Option<JoinHandle<Result<Opened, ConnectError>>>,
    backoff: Backoff,
    /// When the connection broke, if no byte has come since.
    failing_since: Option<Instant>,
    connected_at: Instant,
    /// When a byte came last, or the connection was made.
    heard_at: Instant,
    /// Goes off no later than the silence has lasted too long.
    silence: Pin<Box<Sleep>>,
}

impl Link {
    pub(super) fn new(place: Place, group: Option<GroupName>, options: ConsumerOptions) -> Self {
        let now = Instant::now();
        Self {
            place,
            group,
            end: None,
            stream: None,
            opening: None,
            backoff: Backoff::new(&options.retry),
            options,
            failing_since: None,
            connected_at: now,
            heard_at: now,
            silence: Box::pin(sleep_until(now)),
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn options(&self) -> &ConsumerOptions {
        &self.options
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.options.connect.protocol
    }

    pub(super) fn end(&self) -> Option<Offset> {
        self.end
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects, to go on at `from` (1.1), or else to begin; returns where the broker begins. After a failure there is a
    /// pause first.
    pub(super) fn poll_open(
        &mut self,
        from: Option<Offset>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Offset, ConnectError>> {
        let mut opening = match self.opening.take() {
            Some(opening) => opening,
            None => self.begin_to_open(from)?,
        };
        let Poll::Ready(opened) = Pin::new(&mut opening).poll(cx) else {
            self.opening = Some(opening);
            return Poll::Pending;
        };
        // A task that does not end by itself was ended with its runtime.
        let (stream, first, end) = opened.map_err(|ended| {
            let addr = self.place.addr.clone();
            ConnectError::Io { addr, source: ended.into() }
        })??;
        self.stream = Some(stream);
        self.end = end;
        self.connected_at = Instant::now();
        self.heard_at = self.connected_at;
        Poll::Ready(Ok(first))
    }

    fn begin_to_open(
        &mut self,
        from: Option<Offset>,
    ) -> Result<JoinHandle<Result<Opened, ConnectError>>, ConnectError> {
        let group = self.group.clone();
        let begin = || self.options.start.unwrap_or(Start::default_of(group.as_ref()));
        let start = match (from, self.protocol()) {
            (Some(offset), Protocol::V1_1) => Start::Offset(offset),
            _ => begin(),
        };
        let heartbeat_ms = self.options.heartbeat.and_then(|every| {
            NonZeroU32::new(u32::try_from(every.as_millis()).unwrap_or(u32::MAX).max(1))
        });
        let until_end = self.options.until_end;
        let wish = Wish { group: self.group.clone(), start, heartbeat_ms, until_end };
        let hello = Hello::consume(&self.place, wish, &self.options.connect)?;
        let (place, options) = (self.place.clone(), self.options.connect.clone());
        let known_end = self.end;
        let pause = self.failing_since.map(|_| self.backoff.next_pause());
        let opening = async move {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            let end = match known_end {
                None if until_end => Some(end_of(&place, &options).await?),
                end => end,
            };
            let (stream, first) = connect::open(&place.addr, &hello, &options).await?;
            Ok((stream, first, end))
        };
        Ok(tokio::spawn(opening.in_current_span()))
    }

    /// Something new came: an outage is over.
    pub(super) fn alive(&mut self) {
        if self.failing_since.take().is_some() {
            self.backoff.reset();
        }
    }

    /// What came makes no sense, or is the last that comes: the next call connects again, after a pause.
    pub(super) fn reset(&mut self) {
        self.stream = None;
        self.failing_since = Some(Instant::now());
    }

    /// The log that was read is gone: the next connection is the first to another.
    pub(super) fn begin_anew(&mut self) {
        self.options.read_as_new();
        self.end = None;
    }

    /// Reads some bytes; a time without any is an error.
    pub(super) fn poll_read(
        &mut self,
        buf: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let Poll::Ready(read) = pin!(stream.read_buf(buf)).poll(cx) else {
            return self.poll_silence(cx).map(Err);
        };
        if read? == 0 {
            let text = "the broker closed the connection";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        self.heard_at = Instant::now();
        Poll::Ready(Ok(()))
    }

    /// Waits until nothing has come for too long. The timer is set anew only when it goes off, not with each read.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(limit) = self.silence_allowed() else { return Poll::Pending };
        let due = self.heard_at + limit;
        loop {
            ready!(self.silence.as_mut().poll(cx));
            if self.silence.deadline() >= due {
                let text = format!("no byte within {} ms", limit.as_millis());
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.silence.as_mut().reset(due);
        }
    }

    fn silence_allowed(&self) -> Option<Duration> {
        let of_heartbeat = match self.protocol() {
            Protocol::V1_0 => None,
            Protocol::V1_1 => self.options.heartbeat.map(|every| every * HEARTBEATS_MISSING),
        };
        [self.options.idle_timeout, of_heartbeat].into_iter().flatten().min()
    }

    /// Sends a commit upstream; false if there is no connection that takes it.
    pub(super) async fn send_commit(&mut self, offset: Offset) -> bool {
        // Taken out: one that has half a commit in it is of no use.
        let Some(mut stream) = self.stream.take() else { return false };
        let mut bytes = Vec::new();
        write_commit(offset, &mut bytes);
        let sent = stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok();
        if sent {
            self.stream = Some(stream);
        } else {
            self.failing_since.get_or_insert_with(Instant::now);
        }
        sent
    }

    /// The connection broke.
    pub(super) fn broken(&mut self, error: &io::Error) -> Result<(), ConsumeError> {
        self.stream = None;
        let silence = error.kind() == io::ErrorKind::TimedOut;
        let lived = self.connected_at.elapsed();
        // In 1.1 a refusal has words.
        let refused = self.protocol() == Protocol::V1_0 && !silence && lived < REFUSAL_TIME;
        // One that was cut off sooner may have brought repetitions only, as before damage in the log.
        if silence || lived >= RECOVERY_TIME {
            self.failing_since = None;
            self.backoff.reset();
        }
        self.fail(error.to_string().into(), refused)
    }

    /// An attempt to connect failed.
    pub(super) fn refused(&mut self, error: ConnectError) -> Result<Ended, ConsumeError> {
        match error {
            ConnectError::Refused(refused)
                if refused.status() == Some(Status::OffsetOutOfRange) =>
            {
                Ok(Ended::GoOnAt(refused.value))
            }
            ConnectError::Refused(refused) if !refused.is_transient() => {
                self.failing_since.get_or_insert_with(Instant::now);
                Err(ConsumeError::Rejected(refused))
            }
            error => self.fail(error.to_string().into(), false).map(|()| Ended::Again),
        }
    }

    /// Notes a failure. An error once it has lasted too long; the next call then begins a new outage.
    fn fail(&mut self, reason: Arc<str>, refused: bool) -> Result<(), ConsumeError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let elapsed = since.elapsed();
        tracing::debug!(place = ?self.place, %reason, "connection to the broker lost");
        if elapsed < self.options.retry.max_elapsed {
            return Ok(());
        }
        self.failing_since = None;
        self.backoff.reset();
        if refused {
            return Err(ConsumeError::Refused { elapsed });
        }
        Err(ConsumeError::Disconnected { elapsed, reason })
    }
}

/// The log end now: where a consumer stops that is to.
async fn end_of(place: &Place, options: &ConnectOptions) -> Result<Offset, ConnectError> {
    client::offset_of(&place.addr, &place.topic, place.partition, Start::Latest, options).await
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(opening) = &self.opening {
            opening.abort();
        }
    }
}
