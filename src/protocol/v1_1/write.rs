//! Writing a handshake.

use super::handshake::{Durability, Handshake, Role, Start};
use super::parse::{PREFIX_LEN, RoleByte};
use super::{HandshakeTooLong, Tag};
use crate::model::GroupName;
use crate::model::limits::HANDSHAKE_FIELDS_BYTES_MAX;
use crate::record::wire;

impl Handshake {
    /// Appends the handshake to `out`: the fields in the order of their tags, without those that have their default.
    /// An error leaves `out` as it was; only the client's name and software can be that long.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), HandshakeTooLong> {
        let begin = out.len();
        out.extend_from_slice(&[self.role.byte() as u8, 0, 0]);
        self.write_fields(out);
        let len = out.len() - begin - PREFIX_LEN;
        match u16::try_from(len) {
            Ok(len) if len <= HANDSHAKE_FIELDS_BYTES_MAX => {
                out[begin + 1..begin + PREFIX_LEN].copy_from_slice(&wire::u16_bytes(len));
                Ok(())
            }
            _ => {
                out.truncate(begin);
                Err(HandshakeTooLong { len })
            }
        }
    }

    fn write_fields(&self, out: &mut Vec<u8>) {
        let mut put = |tag: Tag, value: &[u8]| {
            // A value that is too long for this makes the handshake too long, which is found at the end.
            let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
            out.push(tag.0);
            out.extend_from_slice(&wire::u16_bytes(len));
            out.extend_from_slice(value);
        };
        put(Tag::TOPIC, self.topic.as_str().as_bytes());
        if self.partition != 0 {
            put(Tag::PARTITION, &wire::u32_bytes(self.partition));
        }
        if let Some(group) = self.role.group() {
            put(Tag::GROUP, group.as_str().as_bytes());
        }
        if let Role::Consume { group, start, .. } = &self.role
            && *start != Start::default_of(group.as_ref())
        {
            put(Tag::START, &start.to_bytes());
        }
        if let Some(token) = &self.token {
            put(Tag::TOKEN, token.as_bytes());
        }
        if let Role::Produce { durability } = &self.role
            && *durability != Durability::default()
        {
            put(Tag::DURABILITY, &[*durability as u8]);
        }
        if let Role::Consume { heartbeat_ms, until_end, .. } = &self.role {
            if let Some(ms) = heartbeat_ms {
                put(Tag::HEARTBEAT, &wire::u32_bytes(ms.get()));
            }
            if *until_end {
                put(Tag::UNTIL_END, &[1]);
            }
        }
        if let Some(name) = &self.client.name {
            put(Tag::CLIENT_NAME, name.as_bytes());
        }
        if let Some(software) = &self.client.software {
            put(Tag::CLIENT_SOFTWARE, software.as_bytes());
        }
        if let Some(traceparent) = &self.client.traceparent {
            put(Tag::TRACEPARENT, traceparent.to_string().as_bytes());
        }
    }
}

impl Role {
    fn byte(&self) -> RoleByte {
        match self {
            Self::Produce { .. } => RoleByte::Produce,
            Self::Consume { .. } => RoleByte::Consume,
            Self::Commit { .. } => RoleByte::Commit,
        }
    }

    /// The group that the connection commits for, if there is one.
    pub fn group(&self) -> Option<&GroupName> {
        match self {
            Self::Produce { .. } => None,
            Self::Consume { group, .. } => group.as_ref(),
            Self::Commit { group } => Some(group),
        }
    }
}

impl Start {
    /// Kind and value.
    fn to_bytes(self) -> [u8; 9] {
        let (kind, value) = match self {
            Self::Committed(fallback) => (0, fallback as u64),
            Self::Earliest => (1, 0),
            Self::Latest => (2, 0),
            Self::Offset(offset) => (3, offset),
            Self::Timestamp(timestamp) => (4, timestamp),
        };
        let mut bytes = [kind; 9];
        bytes[1..].copy_from_slice(&wire::u64_bytes(value));
        bytes
    }
}
