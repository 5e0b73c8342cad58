//! What can be typed. The texts here are the `--help`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::admin::{GroupCommand, TopicCommand};
use super::bench::BenchCommand;
use super::failure::Failure;
use super::log::LogCommand;
use super::tls::TlsArgs;
use super::token;
use crate::client::{self, ConnectOptions, Protocol, RetryPolicy};
use crate::model::{GroupName, PartitionId, TopicName};
use crate::protocol::v1_1::Token;

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

const CHECK_HELP: &str = "\
OPERATION is produce, consume, commit or admin. RESOURCE is the name of a topic, of a group for commit, or
topic:NAME, group:NAME, or broker: the broker as a whole.

Exit codes: 0 the file is right, and with --can it is allowed; 1 it is denied; 2 the file or the usage is wrong.";

const PRODUCE_HELP: &str = "\
Each line of standard input is a record, without its newline. An empty line is an empty record.
A record may be stored twice if the connection breaks.

Without --partition, records with a key go to the partition of their key (murmur2, as in Kafka),
the others to each partition in turns.

Exit codes: 0 every record is stored, 1 some are not, 2 wrong usage.";

const CONSUME_HELP: &str = "\
Each record is printed byte for byte, followed by a newline (not with --raw). Runs until --count
records were printed, Ctrl-C (a second one ends it at once), or the reader of the output goes away.

Without --partition, all partitions of the topic are read; --member reads a share of them.

A group resumes where it committed; what was printed is committed about once a second and at the
end. A record may be printed twice after a failure, never skipped. A batch comes whole: a group that
stopped inside one sees its first records again.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

const HEALTH_HELP: &str = "\
The address is that of --admin, else of $HERMITMQ_ADMIN, else admin.listen of the configuration that a
broker here would have. With admin.tls there, the certificate that it names is the one that is accepted,
unless a CA is given.

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
    /// Make tokens for those who use a broker
    #[command(subcommand)]
    Token(TokenCommand),
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
    /// Check a file alone, without the environment; with --can, say what its rules allow
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The file, TOML or JSON
        file: PathBuf,
        /// Whether this principal may do this to this topic or group, and which rule says so
        #[arg(long, num_args = 3, value_names = ["PRINCIPAL", "OPERATION", "RESOURCE"])]
        can: Option<Vec<String>>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Print a new token, and the line that makes a broker know it
    Generate {
        /// Whose token it is, for that line
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
    },
}

/// What a client shows a broker of who it is.
#[derive(Debug, Default, Args)]
pub(super) struct TokenArgs {
    /// File with the token to show [default: the token in $HERMITMQ_TOKEN, else the file $HERMITMQ_TOKEN_FILE]. No flag takes
    /// the token itself: whoever lists processes would see it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token, if there is one to show.
    pub(super) fn find(&self) -> Result<Option<Token>, Failure> {
        token::find(self.token_file.as_deref())
    }
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
    #[command(flatten)]
    token: TokenArgs,
    /// This partition alone
    #[arg(long, value_name = "N")]
    pub(super) partition: Option<PartitionId>,
    /// Version of the protocol: 1.1, or 1.0 for brokers that know no other
    #[arg(long, value_name = "VERSION", default_value = "1.1", value_parser = protocol)]
    pub(super) protocol: Protocol,
    /// How long to try again when the connection breaks, in seconds; one that cannot be made at first is told at once
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    retry: u32,
    #[command(flatten)]
    tls: TlsArgs,
}

impl Target {
    /// When to give up.
    pub(super) fn retry(&self) -> RetryPolicy {
        let max_elapsed = Duration::from_secs(self.retry.into());
        RetryPolicy { max_elapsed, ..RetryPolicy::default() }
    }

    /// How to connect, and as whom.
    pub(super) fn connect(&self) -> Result<ConnectOptions, Failure> {
        let mut options = ConnectOptions { protocol: self.protocol, ..ConnectOptions::default() };
        options.client.software = Some(format!("hermitmq-cli/{}", env!("CARGO_PKG_VERSION")));
        options.token = self.token.find()?;
        options.tls = self.tls.options()?;
        Ok(options)
    }

    /// The broker's address: the flag, else the environment, else the default.
    pub(super) fn broker(&self) -> String {
        self.broker.clone().or_else(broker_from_env).unwrap_or_else(|| BROKER_DEFAULT.to_owned())
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "1.0" => Ok(Protocol::V1_0),
        "1.1" => Ok(Protocol::V1_1),
        _ => Err("must be 1.1 or 1.0".to_owned()),
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
    #[command(flatten)]
    pub(super) tls: TlsArgs,
}

#[derive(Debug, Args)]
#[command(after_help = PRODUCE_HELP)]
pub(super) struct ProduceArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// The key of every record
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Each line is its key, this text, and its payload; a line without the text has no key
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "key", "batch"],
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) key_sep: Option<String>,
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
    /// Consumer group to resume and commit [default: none, from the earliest record]
    #[arg(long)]
    pub(super) group: Option<GroupName>,
    /// Stop after N records
    #[arg(long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Where to start: earliest, latest, an offset, or @SECONDS since 1970; with --group it moves the group there
    #[arg(long, value_name = "POSITION")]
    pub(super) from: Option<Start>,
    /// Stop with the newest record there is at the start
    #[arg(long)]
    pub(super) until_end: bool,
    /// Read the partitions of member I of N, counted from 0: those whose number leaves the remainder I
    #[arg(long, value_name = "I/N", conflicts_with = "partition")]
    pub(super) member: Option<Member>,
    /// Print nothing between the records
    #[arg(long)]
    pub(super) raw: bool,
}

/// A position to start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start(pub(super) client::Start);

impl std::str::FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let start = match text {
            "earliest" => client::Start::Earliest,
            "latest" => client::Start::Latest,
            _ => match text.strip_prefix('@') {
                Some(seconds) => client::Start::Timestamp(nanoseconds(seconds)?),
                None => client::Start::Offset(text.parse().map_err(|_| {
                    "must be earliest, latest, an offset, or @ and the seconds since 1970"
                        .to_owned()
                })?),
            },
        };
        Ok(Self(start))
    }
}

/// Seconds, with decimals or without, in nanoseconds.
fn nanoseconds(seconds: &str) -> Result<u64, String> {
    let wrong = || format!("{seconds:?} is no number of seconds since 1970");
    let (whole, decimals) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let decimals: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(decimals)).ok_or_else(wrong)
}

/// One of several that share the partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) member: u32,
    pub(super) of: NonZeroU32,
}

impl std::str::FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(member, of)| {
            let (member, of): (u32, NonZeroU32) = (member.parse().ok()?, of.parse().ok()?);
            (member < of.get()).then_some(Self { member, of })
        });
        parsed.ok_or_else(|| "must be I/N with I from 0 to N - 1, as in 0/3".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let start = |text: &str| text.parse().map(|Start(start)| start);
        assert_eq!(start("earliest"), Ok(client::Start::Earliest));
        assert_eq!(start("17"), Ok(client::Start::Offset(17)));
        assert_eq!(start("@5"), Ok(client::Start::Timestamp(5_000_000_000)));
        assert_eq!(start("@1.05"), Ok(client::Start::Timestamp(1_050_000_000)));
        for wrong in ["", "-1", "@", "@1.", "@.5", "@x", "@1.0000000001", "@18446744074", "new"] {
            assert!(start(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn members() {
        let of = NonZeroU32::new(3).unwrap();
        assert_eq!("2/3".parse(), Ok(Member { member: 2, of }));
        for wrong in ["", "3/3", "0/0", "1", "a/b", "-1/2"] {
            assert!(wrong.parse::<Member>().is_err(), "{wrong:?}");
        }
    }
}
