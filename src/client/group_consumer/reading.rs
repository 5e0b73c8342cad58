//! One of the partitions that are read: what was given of it, and what came of that.

use crate::client::{CommitError, ConsumeError, Consumer, Message};
use crate::model::{Offset, PartitionId};

/// Why a [`GroupConsumer`](super::GroupConsumer) has no message: what happened to one of its partitions. The next call goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {partition}: {source}")]
pub struct PartitionError {
    /// Which.
    pub partition: PartitionId,
    /// What happened.
    pub source: ConsumeError,
}

/// A partition that is read.
pub(super) struct Reading {
    pub(super) consumer: Consumer,
    /// The offset after the last message given.
    pub(super) given: Option<Offset>,
    pub(super) committed: Option<Offset>,
    /// It was read to the end that was asked for, or is read no more.
    pub(super) ended: bool,
}

/// What comes of a partition.
pub(super) type Received = Result<(PartitionId, Message), PartitionError>;

impl Reading {
    /// What has been read already.
    pub(super) fn buffered(&mut self, partition: PartitionId) -> Option<Received> {
        let received = self.consumer.try_next().transpose()?;
        Some(self.note(partition, received))
    }

    pub(super) async fn commit(&mut self) -> Result<(), CommitError> {
        if let Some(given) = self.given {
            self.consumer.commit_offset(given).await?;
            self.committed = Some(given);
        }
        Ok(())
    }

    pub(super) fn note(
        &mut self,
        partition: PartitionId,
        received: Result<Message, ConsumeError>,
    ) -> Received {
        match received {
            Ok(message) => {
                self.given = Some(message.next_offset);
                Ok((partition, message))
            }
            Err(source) => {
                // Without a place its log is gone, and what was given of it is nothing to commit into the next of that name.
                if self.consumer.position().is_none() {
                    (self.given, self.committed) = (None, None);
                }
                Err(PartitionError { partition, source })
            }
        }
    }
}
