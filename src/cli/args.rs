//! What can be typed. The texts here are the `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::admin::{GroupCommand, TopicCommand};
use super::bench::BenchCommand;
use super::log::LogCommand;
use crate::client::RetryPolicy;
use crate::model::{GroupName, Offset, PartitionId, TopicName};

/// Where a broker is if nothing says otherwise: the address that `hermitmq serve` listens on by default.
pub(super) const BROKER_DEFAULT: &str = "127.0.0.1:9092";

/// The environment variable that names a broker. Without the double underscore, so it is no configuration.
const BROKER_ENV: &str = "HERMITMQ_BROKER";

/// The environment variable that names an admin listener.
const ADMIN_ENV: &str = "HERMITMQ_ADMIN";

const AFTER_HELP: &str = "\
Without a command, `hermitmq` does what `hermitmq serve` does.

Exit codes: 0 success, 1 failure while running, 2 wrong usage or configuration, 3 damage found (`hermitmq log`).
Errors are one line each on standard error, beginning with `hermitmq: `.";

const SERVE_HELP: &str = "\
Settings come from, the later one winning: built-in defaults; the file (--config, else the first that
exists of ./hermitmq.toml, ./hermitmq.json, /etc/hermitmq/hermitmq.toml); the environment
(HERMITMQ_SERVER__PORT=9092); flags.
`hermitmq config show` prints the settings in effect and what set each.

SIGTERM and SIGINT stop the broker: it finishes and flushes what it received.

Exit codes: 0 stopped when told to, 1 failure while running, 2 wrong usage or configuration.";

const PRODUCE_HELP: &str = "\
Each line of standard input is a record, without its newline. An empty line is an empty record.
A record may be stored twice if the connection breaks.

Exit codes: 0 every record is stored, 1 some are not, 2 wrong usage.";

const CONSUME_HELP: &str = "\
Each record is printed byte for byte, followed by a newline (not with --raw). Runs until --count
records were printed, Ctrl-C (a second one ends it at once), or the reader of the output goes away.

A group resumes where it committed; what was printed is committed about once a second and at the
end. A record may be printed twice after a failure, never skipped. A batch comes whole: a group that
stopped inside one sees its first records again.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

const HEALTH_HELP: &str = "\
The address is that of --admin, else of $HERMITMQ_ADMIN, else admin.listen of the configuration that a
broker here would have.

Exit codes: 0 it is, 1 it is not or does not answer, 2 wrong usage or configuration.";

/// A persistent topic/partition message broker in one small binary
#[derive(Debug, Parser)]
#[command(name = "hermitmq", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// Without a command, those of `serve`.
    #[command(flatten)]
    pub(super) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the broker
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Store records from standard input or a file
    Produce(ProduceArgs),
    /// Print records
    Consume(ConsumeArgs),
    /// Create, list, describe, alter and delete topics of a broker that runs
    #[command(subcommand)]
    Topic(TopicCommand),
    /// List, describe, reset and delete consumer groups of a broker that runs
    #[command(subcommand)]
    Group(GroupCommand),
    /// Ask a broker whether it is ready, or lives
    #[command(after_help = HEALTH_HELP)]
    Health(HealthArgs),
    /// Measure a broker, and what this machine could do
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Look at a data directory, put it right, or back it up
    #[command(subcommand)]
    Log(LogCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the settings in effect, one `key = value  # what set it` a line
    Show(ServeArgs),
    /// Check a file alone, without the environment
    Check {
        /// The file, TOML or JSON
        file: PathBuf,
    },
}

#[derive(Debug, Default, Args)]
pub(super) struct ServeArgs {
    /// Configuration file, TOML or JSON by its extension
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Address to listen on (server.host)
    #[arg(long, value_name = "ADDRESS")]
    pub(super) host: Option<String>,
    /// TCP port, 0 for a free one (server.port)
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub(super) port: Option<String>,
    /// Directory of the log (storage.data_dir)
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<String>,
    /// What is logged: error, warn, info, debug, trace, or directives (telemetry.log_level)
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// Any setting by its dotted key, such as storage.flush_interval_ms=100; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

/// Which broker, topic and partition.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The topic; the broker creates it if it may
    pub(super) topic: TopicName,
    /// The broker's address [default: $HERMITMQ_BROKER, else 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    broker: Option<String>,
    /// The partition
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) partition: PartitionId,
    /// How long to try again when the connection breaks or is refused, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    retry: u32,
}

impl Target {
    /// When to give up.
    pub(super) fn retry(&self) -> RetryPolicy {
        let max_elapsed = Duration::from_secs(self.retry.into());
        RetryPolicy { max_elapsed, ..RetryPolicy::default() }
    }

    /// The broker's address: the flag, else the environment, else the default.
    pub(super) fn broker(&self) -> String {
        self.broker.clone().or_else(broker_from_env).unwrap_or_else(|| BROKER_DEFAULT.to_owned())
    }
}

/// The broker that the environment names.
pub(super) fn broker_from_env() -> Option<String> {
    std::env::var(BROKER_ENV).ok().filter(|broker| !broker.is_empty())
}

/// The admin listener that the environment names.
pub(super) fn admin_from_env() -> Option<String> {
    std::env::var(ADMIN_ENV).ok().filter(|address| !address.is_empty())
}

#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Whether it does all that it is there for (the default)
    #[arg(long, conflicts_with = "live")]
    ready: bool,
    /// Whether the process lives and its reactors turn
    #[arg(long)]
    pub(super) live: bool,
    /// Address of the admin listener
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) admin: Option<String>,
    /// Configuration file to look for the address in
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = PRODUCE_HELP)]
pub(super) struct ProduceArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// The key of every record
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Send this whole file as one record instead of the lines of standard input
    #[arg(long)]
    pub(super) file: Option<PathBuf>,
    /// Pack up to N lines into one frame
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "key"],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::model::limits::RECORD_COUNT_MAX)))]
    pub(super) batch: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = CONSUME_HELP)]
pub(super) struct ConsumeArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// Consumer group to resume and commit [default: a group for this run alone, from the earliest record]
    #[arg(long)]
    pub(super) group: Option<GroupName>,
    /// Stop after N records
    #[arg(long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Where to start: earliest, latest or an offset; with --group it moves the group there
    #[arg(long, value_name = "POSITION")]
    pub(super) from: Option<Start>,
    /// Print nothing between the records
    #[arg(long)]
    pub(super) raw: bool,
}

/// A position to start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The oldest record there is.
    Earliest,
    /// After the newest record there is.
    Latest,
    /// A record's offset.
    At(Offset),
}

impl std::str::FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            offset => offset
                .parse()
                .map(Self::At)
                .map_err(|_| "must be earliest, latest or an offset".to_owned()),
        }
    }
}
