//! What a client asks for when it connects.

use std::num::NonZeroU32;

use super::{Token, TraceParent};
use crate::model::limits::HANDSHAKE_FIELDS_BYTES_MAX;
use crate::model::{GroupName, Offset, PartitionId, TopicName};

/// Bytes of the longest handshake: role, length and fields.
pub const HANDSHAKE_LEN_MAX: usize = 3 + HANDSHAKE_FIELDS_BYTES_MAX as usize;

/// What a connection is for, to which partition it belongs, and who asks (`docs/PROTOCOL.md`, section "Handshake
/// (1.1)").
///
/// On the wire: role `u8`, length `u16` of what follows (at most [`HANDSHAKE_FIELDS_BYTES_MAX`]), then fields, each tag
/// `u8`, length `u16`, value. Read by [`Handshake::parse`], written by [`Handshake::write`].
///
/// ```
/// use hermitmq::model::TopicName;
/// use hermitmq::protocol::v1_1::{Durability, Handshake, Parsed, Role};
///
/// let role = Role::Produce { durability: Durability::Topic };
/// let handshake = Handshake::new(TopicName::parse("orders").unwrap(), 0, role);
/// let mut bytes = Vec::new();
/// handshake.write(&mut bytes).unwrap();
/// assert_eq!(bytes, b"\x11\x00\x09\x01\x00\x06orders");
/// assert_eq!(Handshake::parse(&bytes), Ok(Parsed::Complete(handshake, 12)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// What the connection is for, with the fields that only this role has.
    pub role: Role,
    /// Topic to append to or to read.
    pub topic: TopicName,
    /// Its partition.
    pub partition: PartitionId,
    /// Who asks, as far as a token says it.
    pub token: Option<Token>,
    /// What the client says about itself.
    pub client: Client,
}

impl Handshake {
    /// A handshake without a token, from a client that says nothing about itself.
    pub fn new(topic: TopicName, partition: PartitionId, role: Role) -> Self {
        Self { role, topic, partition, token: None, client: Client::default() }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// `0x11`: frames in, an answer for each.
    Produce {
        /// When to answer.
        durability: Durability,
    },
    /// `0x12`: frames out, commits in.
    Consume {
        /// Group that commits. Without one the connection commits nothing.
        group: Option<GroupName>,
        /// First record.
        start: Start,
        /// While nothing else is sent, a control frame this often, in milliseconds; `None` (0 on the wire): never.
        heartbeat_ms: Option<NonZeroU32>,
        /// Close, at a frame boundary, once the log end at the time of the handshake is sent.
        until_end: bool,
    },
    /// `0x13`: commits in, an answer for each.
    Commit {
        /// Group that commits.
        group: GroupName,
    },
}

/// When a frame is answered `ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Durability {
    /// When the topic's durability mode says so.
    #[default]
    Topic = 0,
    /// Once it is flushed, whatever the topic says.
    Flushed = 2,
}

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the group's committed offset, or where the fallback says if there is none.
    Committed(Fallback),
    /// At the log start.
    Earliest,
    /// At the log end: only what comes from now on.
    Latest,
    /// At this offset.
    Offset(Offset),
    /// At the first record at or after this time, in nanoseconds since the Unix epoch.
    Timestamp(u64),
}

impl Start {
    /// Where a consumer begins that does not say: at the group's committed offset, else at earliest; without a group
    /// at earliest.
    pub const fn default_of(group: Option<&GroupName>) -> Self {
        match group {
            Some(_) => Self::Committed(Fallback::Earliest),
            None => Self::Earliest,
        }
    }
}

/// Where a consumer begins whose group has committed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Fallback {
    /// At the log start.
    #[default]
    Earliest = 0,
    /// At the log end.
    Latest = 1,
}

/// What a client says about itself. None of it changes what the broker does with the records.
///
/// The texts come from the network: they may be long, empty, or hold control characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Client {
    /// Shown in listings and logs.
    pub name: Option<String>,
    /// Name and version, as in `orders-service/2.1`.
    pub software: Option<String>,
    /// The trace that the connection's span joins.
    pub traceparent: Option<TraceParent>,
}
