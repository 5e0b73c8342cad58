//! Committing offsets: where a group resumes.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Instrument as _;

use super::connect::{self, ConnectError, ConnectOptions, Hello, Place, Protocol, Refused};
use super::stream::Stream;
use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::protocol::v1_1::{AnswerTo, NO_COMMIT, write_commit};
use crate::protocol::{COMMIT_ACK, Request};

/// Time for a whole commit by [`commit`]: connection, request and answer.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a commit is not confirmed. It may still have been stored: committing the same offset again is harmless, so
/// the caller can repeat it, or go on and commit a later message.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// There is no connection; nothing was committed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke before the answer.
    #[error("the connection broke before the commit was confirmed: {0}")]
    Io(#[source] io::Error),
    /// The broker answered that it did not commit (1.1): `offset_out_of_range` is beyond the log end, which is the value.
    #[error("not committed: {0}")]
    Rejected(#[source] Refused),
    /// The broker closed without an answer, which is how protocol 1.0 refuses. Repeating it helps only if the broker
    /// was just going down.
    #[error(
        "the broker closed without confirming the commit: the partition does not exist, a name is not allowed, \
         or the broker is going down"
    )]
    Refused,
    /// The consumer has no group to commit for.
    #[error("there is no group to commit for")]
    NoGroup,
    /// No answer within the time allowed.
    #[error("the commit was not confirmed within {} ms", after.as_millis())]
    Timeout {
        /// How long.
        after: Duration,
    },
    /// The answer is not the one of protocol 1.0: the address belongs to something else.
    #[error("unexpected answer 0x{0:02x} to a commit: is the address that of a broker?")]
    UnexpectedAnswer(u8),
}

/// Sets where `group` resumes: `offset` is the first record that it has *not* handled.
///
/// Takes at most [`COMMIT_TIMEOUT`]. The group's position may also go back; running consumers do not notice. An
/// offset inside a batch makes the group resume with that whole batch. One beyond the log end is refused by protocol 1.1,
/// and lowered to it by 1.0.
pub async fn commit(
    addr: &str,
    group: &GroupName,
    topic: &TopicName,
    partition: PartitionId,
    offset: Offset,
) -> Result<(), CommitError> {
    let options = ConnectOptions { timeout: COMMIT_TIMEOUT, ..ConnectOptions::default() };
    let mut committer = Committer::new(addr, group.clone(), topic.clone(), partition, options);
    committer.commit(offset).await
}

/// Commits for one group and partition, over a connection that is kept (1.1), or one for each commit (1.0).
///
/// Connects with the first call, and again after a break.
pub struct Committer {
    place: Place,
    group: GroupName,
    options: ConnectOptions,
    /// A connection on which every commit has its answer.
    stream: Option<Stream>,
}

impl Committer {
    /// Prepares to commit. `options.timeout` bounds each call.
    pub fn new(
        addr: impl Into<String>,
        group: GroupName,
        topic: TopicName,
        partition: PartitionId,
        options: ConnectOptions,
    ) -> Self {
        let place = Place { addr: addr.into(), topic, partition };
        Self { place, group, options, stream: None }
    }

    /// Where the group resumes; `None` if it has committed nothing. Needs protocol 1.1.
    pub async fn committed(&mut self) -> Result<Option<Offset>, CommitError> {
        if self.options.protocol == Protocol::V1_0 {
            return Err(ConnectError::NotIn1_0("way to ask for the committed offset").into());
        }
        let (stream, value) = self.open().await?;
        self.stream = Some(stream);
        Ok(Some(value).filter(|&value| value != NO_COMMIT))
    }

    /// Makes the group resume at `offset`, the first record that it has not handled, and waits until the broker has it.
    ///
    /// Dropped while it waits, the commit may have been done or not.
    pub async fn commit(&mut self, offset: Offset) -> Result<(), CommitError> {
        let after = self.options.timeout;
        let Place { topic, partition, .. } = &self.place;
        let span = tracing::debug_span!("commit", group = %self.group, %topic, partition, offset);
        let committing = async {
            match self.options.protocol {
                Protocol::V1_0 => self.commit_1_0(offset).await,
                Protocol::V1_1 => self.commit_1_1(offset).await,
            }
        };
        let committing = committing.instrument(span);
        tokio::time::timeout(after, committing).await.unwrap_or(Err(CommitError::Timeout { after }))
    }

    async fn open(&self) -> Result<(Stream, Offset), ConnectError> {
        let hello = Hello::commit(&self.place, self.group.clone(), &self.options);
        connect::open(&self.place.addr, &hello, &self.options).await
    }

    async fn commit_1_1(&mut self, offset: Offset) -> Result<(), CommitError> {
        // Taken out: one whose answer was not waited for is not used again.
        if let Some(stream) = self.stream.take() {
            match self.exchange(stream, offset).await {
                // It may have been closed while nobody looked: once more, on a new one.
                Err(CommitError::Io(_)) => {}
                ended => return ended,
            }
        }
        let (stream, _) = self.open().await?;
        self.exchange(stream, offset).await
    }

    async fn exchange(&mut self, mut stream: Stream, offset: Offset) -> Result<(), CommitError> {
        let mut bytes = Vec::new();
        write_commit(offset, &mut bytes);
        stream.write_all(&bytes).await.map_err(CommitError::Io)?;
        stream.flush().await.map_err(CommitError::Io)?;
        bytes.clear();
        let answer = connect::read_answer(&mut stream, AnswerTo::Commit, &mut bytes).await;
        let answer = answer.map_err(CommitError::Io)?;
        self.stream = Some(stream);
        if answer.is_ok() {
            return Ok(());
        }
        let mut refused = Refused::from_answer(answer);
        refused.message = format!("offset {offset} of group {} is not committed", self.group);
        Err(CommitError::Rejected(refused))
    }

    async fn commit_1_0(&self, offset: Offset) -> Result<(), CommitError> {
        let Place { addr, topic, partition } = self.place.clone();
        let request = Request::Commit { group: self.group.clone(), topic, partition, offset };
        let (mut stream, _) = connect::open(&addr, &Hello::V1_0(request), &self.options).await?;
        let mut answer = [0; COMMIT_ACK.len()];
        match stream.read_exact(&mut answer).await {
            Ok(_) if answer == COMMIT_ACK => Ok(()),
            Ok(_) => Err(CommitError::UnexpectedAnswer(answer[0])),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CommitError::Refused),
            Err(error) => Err(CommitError::Io(error)),
        }
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer")
            .field("place", &self.place)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
