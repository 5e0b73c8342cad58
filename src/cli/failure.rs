//! How a command can fail, and the exit code of each way.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use crate::client::admin::AdminError;
use crate::client::{CommitError, ConnectError, Status, TlsProblem};

/// Exit code of a command that failed while running.
const EXIT_RUNTIME: u8 = 1;

/// Exit code of wrong usage or a wrong configuration.
const EXIT_USAGE: u8 = 2;

/// Exit code of a command that found what it looked at damaged.
const EXIT_DAMAGED: u8 = 3;

/// Why a command ended. Its text says what to do; each line of it is shown on its own.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line or the configuration is wrong; trying again will not help.
    Usage(String),
    /// What was asked for could not be done.
    Runtime(String),
    /// What was looked at is damaged, or not put right; the output says where.
    Damaged(String),
    /// What was asked about is not allowed; the output says so.
    Denied,
    /// The reader of the output went away (`| head`). That is not an error.
    OutputClosed,
}

impl Failure {
    /// A failure of a lower layer with all its causes, after what was being done.
    pub(super) fn runtime(doing: &str, error: &dyn Error) -> Self {
        Self::Runtime(format!("{doing}: {}", causes(error)))
    }

    /// No connection to a broker.
    pub(super) fn connect(error: &ConnectError) -> Self {
        match error {
            ConnectError::Io { addr, source } if source.kind() == ErrorKind::ConnectionRefused => {
                Self::Runtime(format!(
                    "cannot connect to {addr}: connection refused; is the broker running? Start one with \
                     `hermitmq serve`"
                ))
            }
            ConnectError::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof => {
                Self::Runtime(format!(
                    "{}; is it the address for clients (9092) and not that of the admin listener, and with TLS or \
                     without as the broker has it?",
                    causes(error)
                ))
            }
            ConnectError::Refused(refused)
                if matches!(
                    refused.status(),
                    Some(Status::Unauthenticated | Status::Unauthorized)
                ) =>
            {
                Self::Runtime(format!(
                    "{}; a token is shown with --token-file, or in HERMITMQ_TOKEN",
                    causes(error)
                ))
            }
            ConnectError::Tls { problem, .. } => Self::Runtime(causes(error) + tls_flags(problem)),
            other => Self::Runtime(causes(other)),
        }
    }

    /// No answer of an admin listener, or not the one that was asked for. What the broker calls a wrong request was typed wrong.
    pub(super) fn admin(error: &AdminError) -> Self {
        let text = causes(error);
        match error {
            AdminError::Address(_) | AdminError::Token => Self::Usage(text),
            AdminError::NoCa(_) => Self::Usage(text + " (--tls-ca FILE, or $HERMITMQ_TLS_CA)"),
            AdminError::Problem(problem) if problem.kind() == "invalid-request" => {
                Self::Usage(text)
            }
            AdminError::Connect { .. } => Self::Runtime(
                text + "; is the broker running, and is this its admin listener (admin.listen)?",
            ),
            AdminError::Tls { problem, .. } => Self::Runtime(text + tls_flags(problem)),
            _ => Self::Runtime(text),
        }
    }

    /// A commit that was not confirmed.
    pub(super) fn commit(error: &CommitError) -> Self {
        match error {
            CommitError::Connect(error) => Self::connect(error),
            other => Self::runtime("cannot commit", other),
        }
    }

    /// A failure to write the output.
    pub(super) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::runtime("cannot write to standard output", error)
        }
    }

    /// Whether there is nothing to report.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self, Self::OutputClosed | Self::Denied)
    }

    /// The exit code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Runtime(_) | Self::Denied => EXIT_RUNTIME,
            Self::Damaged(_) => EXIT_DAMAGED,
            Self::OutputClosed => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Runtime(text) | Self::Damaged(text) => f.write_str(text),
            Self::Denied => f.write_str("denied"),
            Self::OutputClosed => f.write_str("the reader of the output went away"),
        }
    }
}

/// The flags for what the SDK names last in the text of a problem.
fn tls_flags(problem: &TlsProblem) -> &'static str {
    match problem {
        TlsProblem::ServerName(_) | TlsProblem::WrongName(_) => " (--tls-server-name)",
        TlsProblem::UnknownAuthority => " (--tls-ca)",
        TlsProblem::CertificateRequired => " (--tls-cert, --tls-key)",
        _ => "",
    }
}

/// An error and its causes in one line, without repeating a cause that the text before it includes.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text.replace('\n', " ")
}
