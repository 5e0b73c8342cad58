//! Which protocol a connection speaks: its first byte tells.

/// What a connection begins with (`docs/PROTOCOL.md`, section "The first byte").
///
/// ```
/// use hermitmq::protocol::Dialect;
///
/// assert_eq!(Dialect::of(0x02), Some(Dialect::V1_0));
/// assert_eq!(Dialect::of(0x12), Some(Dialect::V1_1));
/// assert_eq!(Dialect::of(b'G'), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `0x01`–`0x03`: a role of version 1.0, read by [`parse`](super::parse).
    V1_0,
    /// `0x11`–`0x13`: a role of version 1.1, read by [`Handshake::parse`](super::v1_1::Handshake::parse).
    V1_1,
    /// `0x16`: a TLS record of type handshake. Never a role.
    Tls,
    /// `0x00`: the high byte of the `i32` length of a Kafka request. Never a role.
    Kafka,
}

impl Dialect {
    /// The dialect that a first byte stands for; `None` for a byte that begins nothing.
    pub const fn of(first: u8) -> Option<Self> {
        match first {
            0x01..=0x03 => Some(Self::V1_0),
            0x11..=0x13 => Some(Self::V1_1),
            0x16 => Some(Self::Tls),
            0x00 => Some(Self::Kafka),
            _ => None,
        }
    }
}
