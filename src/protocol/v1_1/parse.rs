//! Reading a handshake.

use std::num::NonZeroU32;

use super::handshake::{Client, Durability, Fallback, Handshake, Role, Start};
use super::{HandshakeError, Parsed, Tag, Token, TokenTooLong, TraceParent};
use crate::model::limits::{HANDSHAKE_FIELDS_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::model::{GroupName, InvalidName, PartitionId, TopicName};
use crate::record::wire;

/// Role and length.
pub(super) const PREFIX_LEN: usize = 3;
/// Tag and length of a field.
const FIELD_PREFIX_LEN: usize = 3;

/// A role byte that is known.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum RoleByte {
    Produce = 0x11,
    Consume = 0x12,
    Commit = 0x13,
}

impl Handshake {
    /// Reads a handshake. A role or a length that is not allowed is refused as soon as it is there, anything else once
    /// the handshake is complete; of several faults the first in the order of the bytes is told.
    ///
    /// A known field that means nothing to the role must be well-formed and is then ignored, and so is a traceparent
    /// that is not valid.
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, HandshakeError> {
        let role = match bytes.first() {
            None => return Ok(Parsed::Incomplete { needed: PREFIX_LEN }),
            Some(0x11) => RoleByte::Produce,
            Some(0x12) => RoleByte::Consume,
            Some(0x13) => RoleByte::Commit,
            Some(&other) => return Err(HandshakeError::UnknownRole(other)),
        };
        let Some(len) = wire::get_u16(bytes, 1) else {
            return Ok(Parsed::Incomplete { needed: PREFIX_LEN });
        };
        if len > HANDSHAKE_FIELDS_BYTES_MAX {
            return Err(HandshakeError::TooLong { len });
        }
        let end = PREFIX_LEN + usize::from(len);
        let Some(input) = bytes.get(PREFIX_LEN..end) else {
            return Ok(Parsed::Incomplete { needed: end });
        };
        Ok(Parsed::Complete(Fields::read(input)?.into_handshake(role)?, end))
    }
}

/// The values of the fields that stood in a handshake.
#[derive(Default)]
struct Fields {
    topic: Option<TopicName>,
    partition: PartitionId,
    group: Option<GroupName>,
    start: Option<Start>,
    token: Option<Token>,
    durability: Durability,
    heartbeat_ms: Option<NonZeroU32>,
    until_end: bool,
    client: Client,
}

impl Fields {
    fn read(mut input: &[u8]) -> Result<Self, HandshakeError> {
        let mut fields = Self::default();
        let mut seen = [false; 256];
        while let Some(&tag) = input.first() {
            let (tag, left) = (Tag(tag), input.len());
            let Some(len) = wire::get_u16(input, 1) else {
                return Err(HandshakeError::CutOff { left });
            };
            let (value, rest) = input[FIELD_PREFIX_LEN..]
                .split_at_checked(usize::from(len))
                .ok_or(HandshakeError::RunsOver { tag, len, left: left - FIELD_PREFIX_LEN })?;
            if std::mem::replace(&mut seen[usize::from(tag.0)], true) {
                return Err(HandshakeError::Twice(tag));
            }
            fields.take(tag, value)?;
            input = rest;
        }
        Ok(fields)
    }

    fn take(&mut self, tag: Tag, value: &[u8]) -> Result<(), HandshakeError> {
        let invalid = |source: InvalidName| HandshakeError::InvalidName { tag, source };
        match tag {
            Tag::TOPIC => self.topic = Some(TopicName::parse(value).map_err(invalid)?),
            Tag::PARTITION => self.partition = u32_of(tag, value)?,
            Tag::GROUP => self.group = Some(GroupName::parse(value).map_err(invalid)?),
            Tag::START => self.start = Some(start_of(value)?),
            Tag::TOKEN => self.token = Some(token_of(value)?),
            Tag::DURABILITY => {
                self.durability = match byte_of(tag, value)? {
                    0 => Durability::Topic,
                    2 => Durability::Flushed,
                    other => return Err(wrong(tag, "the value", other, "0 and 2")),
                }
            }
            Tag::HEARTBEAT => self.heartbeat_ms = NonZeroU32::new(u32_of(tag, value)?),
            Tag::UNTIL_END => {
                self.until_end = match byte_of(tag, value)? {
                    1 => true,
                    other => return Err(wrong(tag, "the value", other, "1")),
                }
            }
            Tag::CLIENT_NAME => self.client.name = Some(text_of(tag, value)?),
            Tag::CLIENT_SOFTWARE => self.client.software = Some(text_of(tag, value)?),
            Tag::TRACEPARENT => self.client.traceparent = TraceParent::parse(value),
            unknown if unknown.may_be_skipped() => {}
            unknown => return Err(HandshakeError::Unsupported(unknown)),
        }
        Ok(())
    }

    fn into_handshake(self, role: RoleByte) -> Result<Handshake, HandshakeError> {
        let purpose = match role {
            RoleByte::Produce => "produce",
            RoleByte::Consume => "consume",
            RoleByte::Commit => "commit",
        };
        let missing = |tag| HandshakeError::Missing { tag, purpose };
        let topic = self.topic.ok_or_else(|| missing(Tag::TOPIC))?;
        let role = match role {
            RoleByte::Produce => Role::Produce { durability: self.durability },
            RoleByte::Consume => Role::Consume {
                start: self.start.unwrap_or(Start::default_of(self.group.as_ref())),
                group: self.group,
                heartbeat_ms: self.heartbeat_ms,
                until_end: self.until_end,
            },
            RoleByte::Commit => {
                Role::Commit { group: self.group.ok_or_else(|| missing(Tag::GROUP))? }
            }
        };
        let Self { partition, token, client, .. } = self;
        Ok(Handshake { role, topic, partition, token, client })
    }
}

fn start_of(value: &[u8]) -> Result<Start, HandshakeError> {
    let tag = Tag::START;
    let (Some(&kind), Some(number), 9) = (value.first(), wire::get_u64(value, 1), value.len())
    else {
        return Err(HandshakeError::WrongLength { tag, len: value.len(), expected: 9 });
    };
    Ok(match (kind, number) {
        (0, 0) => Start::Committed(Fallback::Earliest),
        (0, 1) => Start::Committed(Fallback::Latest),
        (0, value) => {
            let (what, allowed) = ("kind 0 and the value", "0 and 1");
            return Err(HandshakeError::WrongValue { tag, what, value, allowed });
        }
        // The value of these two means nothing.
        (1, _) => Start::Earliest,
        (2, _) => Start::Latest,
        (3, offset) => Start::Offset(offset),
        (4, timestamp) => Start::Timestamp(timestamp),
        (other, _) => return Err(wrong(tag, "the kind", other, "0 to 4")),
    })
}

fn token_of(value: &[u8]) -> Result<Token, HandshakeError> {
    Token::new(value).map_err(|TokenTooLong { len }| HandshakeError::TooManyBytes {
        tag: Tag::TOKEN,
        len,
        max: TOKEN_BYTES_MAX,
    })
}

fn byte_of(tag: Tag, value: &[u8]) -> Result<u8, HandshakeError> {
    match *value {
        [byte] => Ok(byte),
        _ => Err(HandshakeError::WrongLength { tag, len: value.len(), expected: 1 }),
    }
}

fn u32_of(tag: Tag, value: &[u8]) -> Result<u32, HandshakeError> {
    match wire::get_u32(value, 0) {
        Some(number) if value.len() == 4 => Ok(number),
        _ => Err(HandshakeError::WrongLength { tag, len: value.len(), expected: 4 }),
    }
}

fn text_of(tag: Tag, value: &[u8]) -> Result<String, HandshakeError> {
    std::str::from_utf8(value).map(str::to_owned).map_err(|_| HandshakeError::NotUtf8(tag))
}

fn wrong(tag: Tag, what: &'static str, value: u8, allowed: &'static str) -> HandshakeError {
    HandshakeError::WrongValue { tag, what, value: value.into(), allowed }
}
