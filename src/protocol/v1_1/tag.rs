//! The tags of the handshake's fields.

use std::fmt;

/// What a field of a handshake is: the `u8` before its length.
///
/// Displayed as the name and the byte, `topic (0x01)`, or `tag 0x85` where there is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u8);

impl Tag {
    /// The topic's name. Required.
    pub const TOPIC: Self = Self(0x01);
    /// `u32`, 0 if missing.
    pub const PARTITION: Self = Self(0x02);
    /// The group's name. Required to commit.
    pub const GROUP: Self = Self(0x03);
    /// Kind `u8`, value `u64`: where to read from.
    pub const START: Self = Self(0x04);
    /// Opaque bytes.
    pub const TOKEN: Self = Self(0x05);
    /// `u8`: when to ack.
    pub const DURABILITY: Self = Self(0x06);
    /// `u32`, milliseconds.
    pub const HEARTBEAT: Self = Self(0x07);
    /// `u8`, 1.
    pub const UNTIL_END: Self = Self(0x08);
    /// UTF-8.
    pub const CLIENT_NAME: Self = Self(0x81);
    /// UTF-8.
    pub const CLIENT_SOFTWARE: Self = Self(0x82);
    /// W3C Trace Context.
    pub const TRACEPARENT: Self = Self(0x83);

    /// The field's name, if the tag is a known one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::TOPIC => "topic",
            Self::PARTITION => "partition",
            Self::GROUP => "group",
            Self::START => "start",
            Self::TOKEN => "token",
            Self::DURABILITY => "durability",
            Self::HEARTBEAT => "heartbeat",
            Self::UNTIL_END => "until end",
            Self::CLIENT_NAME => "client name",
            Self::CLIENT_SOFTWARE => "client software",
            Self::TRACEPARENT => "traceparent",
            _ => return None,
        })
    }

    /// Whether a reader that does not know the tag may skip the field: `0x80` and above.
    pub const fn may_be_skipped(self) -> bool {
        self.0 >= 0x80
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (0x{:02x})", self.0),
            None => write!(f, "tag 0x{:02x}", self.0),
        }
    }
}
