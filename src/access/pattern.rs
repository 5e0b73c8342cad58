//! Patterns of names in rules: a name, the beginning of names, or all of them.

use std::fmt;

/// What a rule says about names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// `*`: every name that is not the broker's own.
    Any,
    /// `orders-*`: every name with this beginning that is not the broker's own.
    Prefix(Box<str>),
    /// This name.
    Exact(Box<str>),
}

/// The text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a name, the beginning of names followed by *, or * alone")]
pub(super) struct InvalidPattern;

impl Pattern {
    /// A star stands at the end or nowhere. What else a name may hold is `legal`'s to say.
    pub(super) fn parse(text: &str, legal: fn(&str) -> bool) -> Result<Self, InvalidPattern> {
        match text.strip_suffix('*') {
            Some("") => Ok(Self::Any),
            // A beginning of a legal name is one itself, but for dots.
            Some(prefix) if legal(prefix) || matches!(prefix, "." | "..") => {
                Ok(Self::Prefix(prefix.into()))
            }
            None if legal(text) => Ok(Self::Exact(text.into())),
            _ => Err(InvalidPattern),
        }
    }

    /// Whether it means this name. The broker's own names are meant only where they are written out: who may read all topics
    /// does not get to read what groups have committed.
    pub(super) fn matches(&self, name: &str) -> bool {
        let own = name.starts_with("__");
        match self {
            Self::Any => !own,
            Self::Prefix(prefix) => !own && name.starts_with(&**prefix),
            Self::Exact(exact) => **exact == *name,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Exact(exact) => f.write_str(exact),
        }
    }
}
