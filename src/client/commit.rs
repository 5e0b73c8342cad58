//! Committing an offset: one short connection, one byte back.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::connect::{self, ConnectError};
use crate::model::{GroupName, Offset, PartitionId, TopicName};
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
    /// The broker closed without an answer, which is how protocol 1.0 refuses. Repeating it helps only if the broker
    /// was just going down.
    #[error(
        "the broker closed without confirming the commit: the partition does not exist, a name is not allowed, \
         or the broker is going down"
    )]
    Refused,
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
/// offset inside a batch makes the group resume with that whole batch.
pub async fn commit(
    addr: &str,
    group: &GroupName,
    topic: &TopicName,
    partition: PartitionId,
    offset: Offset,
) -> Result<(), CommitError> {
    let request = Request::Commit { group: group.clone(), topic: topic.clone(), partition, offset };
    send(addr, &request, COMMIT_TIMEOUT).await
}

pub(super) async fn send(
    addr: &str,
    request: &Request,
    timeout: Duration,
) -> Result<(), CommitError> {
    let exchange = async {
        let mut stream = connect::open(addr, request, timeout).await?;
        let mut answer = [0; COMMIT_ACK.len()];
        match stream.read_exact(&mut answer).await {
            Ok(_) if answer == COMMIT_ACK => Ok(()),
            Ok(_) => Err(CommitError::UnexpectedAnswer(answer[0])),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CommitError::Refused),
            Err(error) => Err(CommitError::Io(error)),
        }
    };
    match tokio::time::timeout(timeout, exchange).await {
        Ok(result) => result,
        Err(_) => Err(CommitError::Timeout { after: timeout }),
    }
}
