//! Status codes.

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What an answer says (`docs/PROTOCOL.md`, section "Statuses"). Codes from `0xF0` on are transient: retry
        /// with back-off. The others are permanent.
        ///
        /// 1.0 says `Ok` and `NotStored` alone; 1.1 says any.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Status { $($(#[$doc])* $name = $code,)* }

        impl Status {
            /// Every status, by its code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The status with this code, if there is one.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name used in documents, logs and metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0x00, "ok";
    /// The request does not follow the format.
    Malformed = 0x01, "malformed";
    /// The broker does not know the request.
    Unsupported = 0x02, "unsupported";
    /// Who asks could not be established.
    Unauthenticated = 0x03, "unauthenticated";
    /// Who asks may not.
    Unauthorized = 0x04, "unauthorized";
    /// A topic or group name outside the allow-list.
    InvalidName = 0x05, "invalid_name";
    /// No such topic, and none is created on demand.
    UnknownTopic = 0x06, "unknown_topic";
    /// The topic has no such partition.
    UnknownPartition = 0x07, "unknown_partition";
    /// A key, payload or record count over the limit.
    TooLarge = 0x08, "too_large";
    /// The offset lies outside the log.
    OffsetOutOfRange = 0x09, "offset_out_of_range";
    /// Clients may not produce to the broker's own topics.
    ReservedTopic = 0x0A, "reserved_topic";
    /// The topic was deleted.
    TopicDeleted = 0x0B, "topic_deleted";
    /// The partition takes no more records after a failed flush.
    ReadOnly = 0x0C, "read_only";
    /// The bytes asked for are damaged.
    Corrupt = 0x0D, "corrupt";
    /// The partition lives elsewhere.
    Moved = 0x10, "moved";
    /// A limit of the broker is reached.
    LimitReached = 0xFC, "limit_reached";
    /// The broker is still recovering.
    Starting = 0xFD, "starting";
    /// The broker is going down.
    ShuttingDown = 0xFE, "shutting_down";
    /// The frame was not stored: the disk is full, or memory is short.
    NotStored = 0xFF, "not_stored";
}

impl Status {
    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether trying again later can help.
    pub const fn is_transient(self) -> bool {
        Self::is_transient_code(self.code())
    }

    /// Whether trying again later can help, for any code, known or not.
    pub const fn is_transient_code(code: u8) -> bool {
        code >= 0xF0
    }
}
