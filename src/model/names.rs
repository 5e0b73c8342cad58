//! Topic and group names: an allow-list, so that a name is always safe as part of a path.

use std::fmt;
use std::sync::Arc;

use super::PartitionId;
use super::limits::{GROUP_NAME_MAX, TOPIC_NAME_MAX};

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// No byte at all.
    #[error("the name is empty")]
    Empty,
    /// More bytes than the limit.
    #[error("the name has {len} bytes, the limit is {max}")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A byte outside the allow-list.
    #[error("the name contains the byte 0x{byte:02x}; allowed are A-Z a-z 0-9 . _ -")]
    Byte {
        /// The first offending byte.
        byte: u8,
    },
    /// `.` or `..`.
    #[error("the names . and .. are not allowed")]
    Dots,
}

fn check(name: &[u8], max: usize) -> Result<&str, InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.len() > max {
        return Err(InvalidName::TooLong { len: name.len(), max });
    }
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if let Some(&byte) = name.iter().find(|b| !allowed(b)) {
        return Err(InvalidName::Byte { byte });
    }
    if name == b"." || name == b".." {
        return Err(InvalidName::Dots);
    }
    // All bytes are ASCII, so this cannot fail; the error keeps the function total.
    std::str::from_utf8(name).map_err(|_| InvalidName::Byte { byte: 0 })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the bytes against the allow-list `[A-Za-z0-9._-]` and the length limit.
            pub fn parse(name: impl AsRef<[u8]>) -> Result<Self, InvalidName> {
                check(name.as_ref(), $max).map(|name| Self(name.into()))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::parse(name)
            }
        }
    };
}

name_type!(
    /// The name of a topic: 1 to 249 bytes of `[A-Za-z0-9._-]`, not `.` or `..`.
    TopicName,
    TOPIC_NAME_MAX
);
name_type!(
    /// The name of a consumer group: 1 to 249 bytes of `[A-Za-z0-9._-]`, not `.` or `..`.
    GroupName,
    GROUP_NAME_MAX
);

impl TopicName {
    /// Whether the name is kept for the broker's own topics (`__…`): clients may not produce to them.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with("__")
    }
}

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's number, from 0.
    pub partition: PartitionId,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_list() {
        for good in ["a", "A-b_c.9", "...", "__consumer_offsets", "a_1", &"x".repeat(249)] {
            assert_eq!(TopicName::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(TopicName::parse(""), Err(InvalidName::Empty));
        assert_eq!(TopicName::parse("."), Err(InvalidName::Dots));
        assert_eq!(TopicName::parse(".."), Err(InvalidName::Dots));
        assert_eq!(TopicName::parse("../x"), Err(InvalidName::Byte { byte: b'/' }));
        assert_eq!(GroupName::parse("a\0"), Err(InvalidName::Byte { byte: 0 }));
        assert_eq!(GroupName::parse("ä"), Err(InvalidName::Byte { byte: 0xc3 }));
        assert_eq!(
            GroupName::parse("x".repeat(250)),
            Err(InvalidName::TooLong { len: 250, max: 249 })
        );
    }

    #[test]
    fn reserved() {
        assert!(TopicName::parse("__consumer_offsets").unwrap().is_reserved());
        assert!(!TopicName::parse("_a").unwrap().is_reserved());
    }
}
