//! What a program can set about a consumer of several partitions.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::client::ConsumerOptions;
use crate::model::PartitionId;

/// Which partitions of a topic a [`GroupConsumer`](super::GroupConsumer) reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Share {
    /// All, also those that the topic gets later.
    #[default]
    All,
    /// Those whose number leaves the remainder `member` when divided by `of`, also those that the topic gets later.
    /// Members are counted from 0; who has which number is decided outside, as by the ordinal of a StatefulSet's pod.
    Member {
        /// Number of this member.
        member: u32,
        /// How many there are.
        of: NonZeroU32,
    },
    /// These alone.
    Partitions(Vec<PartitionId>),
}

impl Share {
    /// Whether this partition is one of them.
    pub fn includes(&self, partition: PartitionId) -> bool {
        match self {
            Self::All => true,
            Self::Member { member, of } => partition % *of == *member,
            Self::Partitions(partitions) => partitions.contains(&partition),
        }
    }
}

/// How a [`GroupConsumer`](super::GroupConsumer) reads and commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConsumerOptions {
    /// How each partition is read.
    pub consumer: ConsumerOptions,
    /// Which partitions.
    pub share: Share,
    /// How often what was handled is committed, within [`recv`](super::GroupConsumer::recv); `None`: only by
    /// [`commit`](super::GroupConsumer::commit).
    pub auto_commit: Option<Duration>,
    /// How often the broker is asked whether the topic has got more partitions; `None`: never.
    pub discover: Option<Duration>,
}

impl Default for GroupConsumerOptions {
    /// All partitions, a commit each second, a look for new partitions every 30 s.
    fn default() -> Self {
        Self {
            consumer: ConsumerOptions::default(),
            share: Share::default(),
            auto_commit: Some(Duration::from_secs(1)),
            discover: Some(Duration::from_secs(30)),
        }
    }
}
