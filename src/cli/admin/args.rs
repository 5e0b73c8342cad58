//! What can be typed behind `hermitmq topic` and `hermitmq group`. The texts here are the `--help`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::args::{TokenArgs, admin_from_env, position};
use crate::cli::failure::Failure;
use crate::cli::show::Form;
use crate::cli::tls::TlsArgs;
use crate::client::TlsOptions;
use crate::client::admin::ResetTo;
use crate::model::{GroupName, PartitionId, TopicName};

/// Where an admin listener is if nothing says otherwise: the default of `admin.listen`.
const ADMIN_DEFAULT: &str = "http://127.0.0.1:9093";

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 the broker refused it or does not answer, 2 wrong usage.";

const SETTINGS: &str = "\
Settings are those of a [[topic]] in the configuration: durability, retention_hours, retention_mb,
max_segment_mb, max_payload_mb and so on. The value `default` puts a setting back to what the
configuration says for all topics.

Exit codes: 0 success, 1 the broker refused it or does not answer, 2 wrong usage.";

/// Which broker, and how its answer is shown.
#[derive(Debug, Args)]
pub(in crate::cli) struct Target {
    /// The admin listener [default: $HERMITMQ_ADMIN, else http://127.0.0.1:9093]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    /// How the answer is shown
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Table)]
    pub(in crate::cli) output: Form,
    #[command(flatten)]
    tls: TlsArgs,
}

impl Target {
    /// The flag, else the environment, else the default; and how to connect there with TLS, if that is wanted.
    pub(super) fn address(&self) -> Result<(String, Option<TlsOptions>), Failure> {
        let tls = self.tls.options()?;
        let address = self.admin.clone().or_else(admin_from_env).unwrap_or_else(|| {
            let plain = ADMIN_DEFAULT.to_owned();
            if tls.is_some() { plain.replacen("http:", "https:", 1) } else { plain }
        });
        Ok((address, tls))
    }
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TopicCommand {
    /// Create a topic
    #[command(after_help = SETTINGS)]
    Create(CreateArgs),
    /// List all topics
    #[command(after_help = EXIT_CODES)]
    List(#[command(flatten)] Target),
    /// Show how a topic is kept, and its partitions
    #[command(after_help = EXIT_CODES)]
    Describe(TopicArgs),
    /// Change how a topic is kept, or give it more partitions
    #[command(after_help = SETTINGS)]
    Alter(AlterArgs),
    /// Delete a topic with all its records, and where groups stand in it
    #[command(after_help = EXIT_CODES)]
    Delete(DeleteTopicArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// The topic
    pub(super) topic: TopicName,
    /// Partitions it gets [default: topics.default_partitions of the broker]
    #[arg(long, value_name = "N")]
    pub(super) partitions: Option<u32>,
    /// A setting; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<Setting>,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TopicArgs {
    /// The topic
    pub(super) topic: TopicName,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AlterArgs {
    /// The topic
    pub(super) topic: TopicName,
    /// Partitions it is to have, not fewer than it has
    #[arg(long, value_name = "N")]
    pub(super) partitions: Option<u32>,
    /// A setting; repeatable
    #[arg(long, value_name = "KEY=VALUE", required_unless_present = "partitions")]
    pub(super) set: Vec<Setting>,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteTopicArgs {
    /// The topic
    pub(super) topic: TopicName,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum GroupCommand {
    /// List all groups
    #[command(after_help = EXIT_CODES)]
    List(#[command(flatten)] Target),
    /// Show where a group stands, and how far it is behind
    #[command(after_help = EXIT_CODES)]
    Describe(GroupArgs),
    /// Put a group somewhere else; its consumers must not be connected
    #[command(after_help = EXIT_CODES)]
    Reset(ResetArgs),
    /// Forget where a group stands; its consumers must not be connected
    #[command(after_help = EXIT_CODES)]
    Delete(DeleteGroupArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct GroupArgs {
    /// The group
    pub(super) group: GroupName,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResetArgs {
    /// The group
    pub(super) group: GroupName,
    /// The topic in which it is put somewhere else
    #[arg(long)]
    pub(super) topic: TopicName,
    /// One of the topic's partitions; repeatable [default: all of them]
    #[arg(long = "partition", value_name = "N")]
    pub(super) partitions: Vec<PartitionId>,
    /// Where to: earliest, latest, an offset, a time (as in `hermitmq consume --from`), or timestamp:NS (ns since 1970)
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    pub(super) to: Position,
    /// Only show what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteGroupArgs {
    /// The group
    pub(super) group: GroupName,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

/// `KEY=VALUE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: String,
    /// `null` for the default.
    pub(super) value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or("must be KEY=VALUE, such as retention_hours=24".to_owned())?;
        let value = match (value, value.parse::<u64>()) {
            ("default", _) => Value::Null,
            (_, Ok(number)) => number.into(),
            (text, Err(_)) => text.into(),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// Where a group is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(pub(super) ResetTo);

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ns = text.strip_prefix("timestamp:").and_then(|ns| ns.parse().ok());
        let to = match ns {
            Some(ns) => ResetTo::Timestamp(ns),
            None => position(
                text,
                [ResetTo::Earliest, ResetTo::Latest],
                ResetTo::Offset,
                ResetTo::Timestamp,
            )?,
        };
        Ok(Self(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_positions() {
        let setting = |text: &str| text.parse::<Setting>().map(|setting| setting.value);
        assert_eq!(setting("a=24"), Ok(24.into()));
        assert_eq!(setting("a=always"), Ok("always".into()));
        assert_eq!(setting("a=default"), Ok(Value::Null));
        assert!(setting("a").is_err() && setting("=1").is_err());
        let to = |text: &str| text.parse::<Position>().map(|position| position.0);
        assert_eq!(to("earliest"), Ok(ResetTo::Earliest));
        assert_eq!(to("7"), Ok(ResetTo::Offset(7)));
        assert_eq!(to("timestamp:9"), Ok(ResetTo::Timestamp(9)));
        assert_eq!(to("1970-01-01T00:00:01Z"), Ok(ResetTo::Timestamp(1_000_000_000)));
        assert!(to("timestamp:").is_err() && to("-1").is_err());
    }
}
