//! Handshakes of protocol 1.0.

use crate::model::{GroupName, InvalidName, Offset, PartitionId, TopicName};
use crate::record::wire;

/// Bytes of the longest 1.0 handshake: role, two strings of 255 bytes, partition and offset.
pub const HANDSHAKE_LEN_MAX: usize = 1 + 2 * 256 + 4 + 8;

const ROLE_PRODUCE: u8 = 0x01;
const ROLE_CONSUME: u8 = 0x02;
const ROLE_COMMIT: u8 = 0x03;

/// What a connection is for. All integers big-endian, strings a `u8` length (1–255) and the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `0x01`, topic, `u32` partition: frames in, acks out.
    Produce {
        /// Topic to append to.
        topic: TopicName,
        /// Its partition.
        partition: PartitionId,
    },
    /// `0x02`, group, topic, `u32` partition: frames out, from where the group stands.
    Consume {
        /// Group whose committed offset is the start.
        group: GroupName,
        /// Topic to read.
        topic: TopicName,
        /// Its partition.
        partition: PartitionId,
    },
    /// `0x03`, group, topic, `u32` partition, `u64` offset: answered by [`COMMIT_ACK`](super::COMMIT_ACK).
    Commit {
        /// Group that commits.
        group: GroupName,
        /// Topic it has read.
        topic: TopicName,
        /// Its partition.
        partition: PartitionId,
        /// Where the group resumes.
        offset: Offset,
    },
}

/// Why the bytes are not a handshake, whatever may follow them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first byte is not a role.
    #[error("unknown role byte 0x{0:02x}")]
    UnknownRole(u8),
    /// A string of length 0.
    #[error("empty {0} name")]
    EmptyName(&'static str),
    /// A topic or group name outside the allow-list.
    #[error("illegal {field} name: {source}")]
    InvalidName {
        /// Which name.
        field: &'static str,
        /// What is wrong with it.
        source: InvalidName,
    },
}

/// What [`parse`] found at the start of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A whole handshake, and how many bytes it takes.
    Complete(Request, usize),
    /// The start of one.
    Incomplete,
}

/// Reads a handshake. What is wrong is said as soon as the bytes show it.
pub fn parse(bytes: &[u8]) -> Result<Parsed, HandshakeError> {
    let mut input = Input { bytes, at: 0 };
    let request = match input.request() {
        Ok(request) => request,
        Err(Stop::Incomplete) => return Ok(Parsed::Incomplete),
        Err(Stop::Error(error)) => return Err(error),
    };
    Ok(Parsed::Complete(request, input.at))
}

enum Stop {
    Incomplete,
    Error(HandshakeError),
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn request(&mut self) -> Result<Request, Stop> {
        let role = *self.bytes.first().ok_or(Stop::Incomplete)?;
        self.at = 1;
        match role {
            ROLE_PRODUCE => Ok(Request::Produce { topic: self.topic()?, partition: self.u32()? }),
            ROLE_CONSUME => Ok(Request::Consume {
                group: self.group()?,
                topic: self.topic()?,
                partition: self.u32()?,
            }),
            ROLE_COMMIT => Ok(Request::Commit {
                group: self.group()?,
                topic: self.topic()?,
                partition: self.u32()?,
                offset: self.u64()?,
            }),
            other => Err(Stop::Error(HandshakeError::UnknownRole(other))),
        }
    }

    fn topic(&mut self) -> Result<TopicName, Stop> {
        TopicName::parse(self.string("topic")?).map_err(|source| invalid("topic", source))
    }

    fn group(&mut self) -> Result<GroupName, Stop> {
        GroupName::parse(self.string("group")?).map_err(|source| invalid("group", source))
    }

    fn string(&mut self, field: &'static str) -> Result<&[u8], Stop> {
        let len = usize::from(*self.bytes.get(self.at).ok_or(Stop::Incomplete)?);
        if len == 0 {
            return Err(Stop::Error(HandshakeError::EmptyName(field)));
        }
        let start = self.at + 1;
        let string = self.bytes.get(start..start + len).ok_or(Stop::Incomplete)?;
        self.at = start + len;
        Ok(string)
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        let value = wire::get_u32(self.bytes, self.at).ok_or(Stop::Incomplete)?;
        self.at += 4;
        Ok(value)
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        let value = wire::get_u64(self.bytes, self.at).ok_or(Stop::Incomplete)?;
        self.at += 8;
        Ok(value)
    }
}

fn invalid(field: &'static str, source: InvalidName) -> Stop {
    Stop::Error(HandshakeError::InvalidName { field, source })
}

impl Request {
    /// The topic.
    pub fn topic(&self) -> &TopicName {
        match self {
            Self::Produce { topic, .. }
            | Self::Consume { topic, .. }
            | Self::Commit { topic, .. } => topic,
        }
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Produce { partition, .. }
            | Self::Consume { partition, .. }
            | Self::Commit { partition, .. } => *partition,
        }
    }

    /// Appends the handshake to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let string = |out: &mut Vec<u8>, text: &str| {
            // Names have at most 249 bytes.
            out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(text.as_bytes());
        };
        match self {
            Self::Produce { topic, partition } => {
                out.push(ROLE_PRODUCE);
                string(out, topic.as_str());
                out.extend_from_slice(&wire::u32_bytes(*partition));
            }
            Self::Consume { group, topic, partition } => {
                out.push(ROLE_CONSUME);
                string(out, group.as_str());
                string(out, topic.as_str());
                out.extend_from_slice(&wire::u32_bytes(*partition));
            }
            Self::Commit { group, topic, partition, offset } => {
                out.push(ROLE_COMMIT);
                string(out, group.as_str());
                string(out, topic.as_str());
                out.extend_from_slice(&wire::u32_bytes(*partition));
                out.extend_from_slice(&wire::u64_bytes(*offset));
            }
        }
    }
}
