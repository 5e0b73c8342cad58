//! What can be done to what, and the rules that allow it.

use std::fmt;
use std::str::FromStr;

use super::pattern::Pattern;
use super::principal::{ANONYMOUS, Principal};
use crate::model::{GroupName, TopicName};

/// Something that a rule allows or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Storing records in a topic.
    Produce,
    /// Reading records of a topic, for a group or for none.
    Consume,
    /// Saying where a group resumes.
    Commit,
    /// Whatever the admin listener does.
    Admin,
}

/// The text is no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be produce, consume, commit or admin")]
pub struct UnknownOperation;

impl Operation {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Produce, Self::Consume, Self::Commit, Self::Admin];

    /// Its name in rules, logs and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::Commit => "commit",
            Self::Admin => "admin",
        }
    }

    /// What stands between `may not` and the resource.
    fn phrase(self) -> &'static str {
        match self {
            Self::Produce => "produce to",
            Self::Consume => "consume",
            Self::Commit => "commit for",
            Self::Admin => "administer",
        }
    }
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        Self::ALL.iter().copied().find(|known| known.name() == text).ok_or(UnknownOperation)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is done something to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A topic, whether it exists or not.
    Topic(&'a TopicName),
    /// A group.
    Group(&'a GroupName),
    /// The broker as a whole.
    Broker,
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => write!(f, "topic {topic}"),
            Self::Group(group) => write!(f, "group {group}"),
            Self::Broker => f.write_str("the broker"),
        }
    }
}

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    /// Everybody who is known.
    Known,
    This(Principal),
}

/// Allows some principals some operations on some topics and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) principals: Vec<Who>,
    pub(super) operations: Vec<Operation>,
    pub(super) topics: Vec<Pattern>,
    pub(super) groups: Vec<Pattern>,
}

impl Rule {
    pub(super) fn is_about(&self, principal: &Principal) -> bool {
        self.principals.iter().any(|who| match who {
            Who::Known => principal.as_str() != ANONYMOUS,
            Who::This(this) => this == principal,
        })
    }

    pub(super) fn has(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Whether it names topics or groups: what it allows to administer ends there.
    fn is_narrow(&self) -> bool {
        !self.topics.is_empty() || !self.groups.is_empty()
    }

    pub(super) fn allows(&self, operation: Operation, resource: &Resource<'_>) -> bool {
        let whole = operation == Operation::Admin && !self.is_narrow();
        let means = |patterns: &[Pattern], name: &str| {
            patterns.iter().any(|pattern| pattern.matches(name)) || whole
        };
        self.has(operation)
            && match resource {
                Resource::Topic(topic) => means(&self.topics, topic.as_str()),
                Resource::Group(group) => means(&self.groups, group.as_str()),
                Resource::Broker => whole,
            }
    }
}

/// Whether something is allowed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There are no rules: everything is allowed.
    Open,
    /// The rule with this number, counted from 0.
    Allowed(usize),
    /// No rule allows it.
    Denied,
}

impl Decision {
    /// Whether it is allowed.
    pub fn is_allowed(self) -> bool {
        self != Self::Denied
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("there are no rules, and everything is allowed"),
            Self::Allowed(rule) => write!(f, "access.rule[{rule}] allows it"),
            Self::Denied => f.write_str("no rule allows it"),
        }
    }
}

/// Words for a refusal: `alice may not produce to topic orders`.
pub(super) struct May<'a>(pub(super) &'a Principal, pub(super) Operation, pub(super) Resource<'a>);

impl fmt::Display for May<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(principal, operation, resource) = self;
        write!(f, "{principal} may not {} {resource}", operation.phrase())
    }
}
