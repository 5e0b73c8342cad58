//! What can be wrong with a configuration.

use std::fmt;

/// One thing that is wrong, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key or file it is about.
    pub subject: String,
    /// The layer that set the value, if the subject is a key.
    pub layer: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    pub(super) fn key(key: &str, layer: &str, message: impl Into<String>) -> Self {
        Self {
            subject: visible(key),
            layer: Some(visible(layer)),
            message: visible(&message.into()),
        }
    }

    pub(super) fn source(subject: impl fmt::Display, message: impl Into<String>) -> Self {
        Self {
            subject: visible(&subject.to_string()),
            layer: None,
            message: visible(&message.into()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, layer, message } = self;
        match layer {
            Some(layer) => write!(f, "{subject} (set by {layer}): {message}"),
            None => write!(f, "{subject}: {message}"),
        }
    }
}

/// Everything that is wrong with a configuration. Its text has one line for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "an error names a problem");
        Self { problems }
    }

    /// The problems, in the order of the layers and keys.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<figment::Error> for ConfigError {
    fn from(error: figment::Error) -> Self {
        let problem = |e: figment::Error| {
            let subject =
                if e.path.is_empty() { "configuration".to_owned() } else { e.path.join(".") };
            Problem::source(subject, one_line(&e.kind.to_string()))
        };
        Self::new(error.into_iter().map(problem).collect())
    }
}

/// Names come from files and variables, and may hold line breaks.
fn visible(text: &str) -> String {
    let escape =
        |c: char| if c.is_control() { c.escape_default().collect() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Text of another library, made to fit one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
