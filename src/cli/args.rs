//! What can be typed. The texts here are the `--help`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::admin::{GroupCommand, Target as AdminTarget, TopicCommand};
use super::bench::BenchCommand;
use super::failure::Failure;
use super::log::LogCommand;
use super::output::FormatName;
use super::show::Form;
use super::template::Template;
use super::time;
use super::tls::TlsArgs;
use super::token;
use crate::client::{self, ConnectOptions, Protocol, RetryPolicy};
use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::protocol::v1_1::Token;

/// Where a broker is if nothing says otherwise: the address that `hermitmq serve` listens on by default.
const BROKER_DEFAULT: &str = "127.0.0.1:9092";

/// The port of a broker if its address names none.
const PORT_DEFAULT: u16 = 9092;

/// The environment variable that names a broker. Without the double underscore, so it is no configuration.
const BROKER_ENV: &str = "HERMITMQ_BROKER";

/// The environment variable that names an admin listener.
const ADMIN_ENV: &str = "HERMITMQ_ADMIN";

const AFTER_HELP: &str = "\
Without a command, `hermitmq` does what `hermitmq serve` does.

Exit codes:
  0  done; also ended by a signal where that is the way to end it (serve, consume, top, demo)
  1  it failed while running, or a broker refused it or does not answer
  2  wrong usage or configuration: the same again will fail again
  3  damage found (log)
  130  ended by a signal before it was done (bench)
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

Certificates and tokens that the file names are read as a start would: run it as the broker's user. With --can they are not.

Exit codes: 0 the file is right, and with --can it is allowed; 1 it is denied; 2 the file or the usage is wrong.";

const PRODUCE_HELP: &str = "\
Each line of standard input is a record, without its newline. An empty line is an empty record.
A record may be stored twice if the connection breaks. On a terminal, what was stored is shown.

Without --partition, records with a key go to the partition of their key (murmur2, as in Kafka),
the others to each partition in turns.

Ctrl-C stops reading and waits for what was sent; a second one ends it at once.

Examples:
  tail -F app.log | hermitmq produce logs --batch 100
  hermitmq produce load --lines words.txt --rate 500
  hermitmq produce pictures --file a.png --file b.png

Exit codes: 0 every record is stored, 1 some are not (or Ctrl-C), 2 wrong usage.";

const CONSUME_HELP: &str = "\
Each record is printed byte for byte, followed by a newline, unless --format or -f says otherwise.
Runs until --count records were printed, Ctrl-C (a second one ends it at once), or the reader of the
output goes away.

A template (-f) has the letters of kcat: %t topic, %p partition, %o offset, %T timestamp in ms since
1970, %k key, %K bytes of it, %s payload, %S bytes of it, %n newline, %% percent sign; and the escapes
\\n \\r \\t \\0 \\\\ \\xNN. It ends a record with nothing but what it says.

A time (--from) is as in RFC 3339 (2026-01-31T09:00:00Z, a date alone is its midnight in UTC), so long
ago (-90s, -1h30m, -7d), or @ and the seconds since 1970.

Examples:
  hermitmq consume orders --from -1h --until-end
  hermitmq consume orders --group billing -f '%p/%o %k: %s\\n'

Without --partition, all partitions of the topic are read; --member reads a share of them.

A group resumes where it committed; what was printed is committed about once a second and at the
end. A record may be printed twice after a failure, never skipped. A batch comes whole: a group that
stopped inside one sees its first records again.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

const TOP_HELP: &str = "\
The admin listener is asked, once per interval. q and Ctrl-C end it. A broker that does not answer is
asked again and again. Rates are of the last interval; a group's lag is of the records that it has not
committed, so it moves with its commits. With NO_COLOR set there are no colours.

Without a terminal, --once prints one frame (as wide as $COLUMNS says, else 100), with --output json
or yaml for programs; it asks twice.

Exit codes: 0 success, 1 no answer (--once), 2 wrong usage.";

const DEMO_HELP: &str = "\
A broker within this process, on free ports of 127.0.0.1 and a temporary directory, a producer of 200
records a second, and two groups: one keeps up, the other cannot. q and Ctrl-C end it, and nothing is
left of it. Without a terminal it prints a line a second.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(hermitmq completions bash)
  hermitmq completions zsh > ~/.zfunc/_hermitmq
  hermitmq completions fish > ~/.config/fish/completions/hermitmq.fish

Exit codes: 0 success, 1 failure, 2 wrong usage.";

const MAN_HELP: &str = "\
Example:
  hermitmq man ~/.local/share/man/man1 && man hermitmq-consume

Exit codes: 0 success, 1 failure, 2 wrong usage.";

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
    /// Watch a broker: rates, the busiest topics, the slowest groups
    #[command(after_help = TOP_HELP)]
    Top(TopArgs),
    /// Start a broker with something to do, and watch it
    #[command(after_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Measure a broker, and what this machine could do
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Look at a data directory, put it right, or back it up
    #[command(subcommand)]
    Log(LogCommand),
    /// Print what a shell needs to complete commands and options
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each command, into a directory
    #[command(after_help = MAN_HELP)]
    Man(ManArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the settings in effect, one `key = value  # what set it` a line
    Show(ShowArgs),
    /// Check a file alone, without the environment, and the files that it names; with --can, say what its rules allow
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

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) serve: ServeArgs,
    /// How they are shown
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Table)]
    pub(super) output: Form,
}

#[derive(Debug, Args)]
pub(super) struct TopArgs {
    #[command(flatten)]
    pub(super) target: AdminTarget,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(super) interval: f64,
    /// Print one frame and end
    #[arg(long)]
    pub(super) once: bool,
}

/// Asking more often would be a load of its own.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "must be a number of seconds from 0.1 to 3600".to_owned())
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// End after so long
    #[arg(long, value_name = "N")]
    pub(super) seconds: Option<u32>,
    /// Where the temporary directory is made [default: in memory if there is room, else where the system has such]
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The directory; it is made if there is none
    pub(super) dir: PathBuf,
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
    #[arg(long, value_name = "HOST[:PORT]")]
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
        let named = self.broker.as_deref().map(with_port).or_else(broker_from_env);
        named.unwrap_or_else(|| BROKER_DEFAULT.to_owned())
    }
}

/// The address of a broker, with the default port if it has none. An IPv6 address may go without its brackets then.
pub(super) fn with_port(address: &str) -> String {
    match address.matches(':').count() {
        // Not an address at all: the one who connects says so.
        _ if address.contains('/') => address.to_owned(),
        _ if address.starts_with('[') && !address.ends_with(']') => address.to_owned(),
        0 => format!("{address}:{PORT_DEFAULT}"),
        1 => address.to_owned(),
        _ if address.ends_with(']') => format!("{address}:{PORT_DEFAULT}"),
        _ => format!("[{address}]:{PORT_DEFAULT}"),
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
    let broker = std::env::var(BROKER_ENV).ok().filter(|broker| !broker.is_empty())?;
    Some(with_port(&broker))
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
    /// Send this whole file as one record instead of the lines of standard input; repeatable
    #[arg(long)]
    pub(super) file: Vec<PathBuf>,
    /// Send the lines of this file instead of those of standard input; repeatable
    #[arg(short = 'l', long, value_name = "FILE", conflicts_with = "file")]
    pub(super) lines: Vec<PathBuf>,
    /// Pack up to N lines into one frame
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "key"],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::model::limits::RECORD_COUNT_MAX)))]
    pub(super) batch: Option<u32>,
    /// Send at most N records a second, evenly
    #[arg(long, value_name = "N")]
    pub(super) rate: Option<NonZeroU32>,
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
    /// Where to start: earliest, latest, an offset, or a time; with --group it moves the group there
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    pub(super) from: Option<Start>,
    /// Stop with the newest record there is at the start
    #[arg(long)]
    pub(super) until_end: bool,
    /// Wait for more at the end, as is done anyway
    #[arg(long, conflicts_with = "until_end")]
    follow: bool,
    /// Read the partitions of member I of N, counted from 0: those whose number leaves the remainder I
    #[arg(long, value_name = "I/N", conflicts_with = "partition")]
    pub(super) member: Option<Member>,
    /// How records are printed [default: lines]
    #[arg(long, value_name = "FORM", value_enum)]
    pub(super) format: Option<FormatName>,
    /// What is printed of each record, such as '%p %o %k %s\n'
    #[arg(short = 'f', long, conflicts_with_all = ["format", "raw"], allow_hyphen_values = true)]
    pub(super) template: Option<Template>,
    /// The same as --format raw
    #[arg(long, conflicts_with = "format")]
    pub(super) raw: bool,
}

/// A position to start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start(pub(super) client::Start);

impl std::str::FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use client::Start::{Earliest, Latest, Offset, Timestamp};
        position(text, [Earliest, Latest], Offset, Timestamp).map(Self)
    }
}

/// A position as one of several types: `named` are the earliest and the latest one, then what makes one of an offset and
/// of a time in ns since the Unix epoch.
pub(super) fn position<T>(
    text: &str,
    named: [T; 2],
    offset: impl FnOnce(Offset) -> T,
    timestamp: impl FnOnce(u64) -> T,
) -> Result<T, String> {
    let [earliest, latest] = named;
    match text {
        "earliest" => Ok(earliest),
        "latest" => Ok(latest),
        _ => match (text.parse(), time::parse(text, SystemTime::now())) {
            (Ok(number), _) => Ok(offset(number)),
            (Err(_), Some(ns)) => Ok(timestamp(ns)),
            (Err(_), None) => {
                Err(format!("must be earliest, latest, an offset, or {}", time::FORMS))
            }
        },
    }
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
        assert_eq!(start("1970-01-01T00:00:01.05Z"), Ok(client::Start::Timestamp(1_050_000_000)));
        assert!(matches!(start("-1h"), Ok(client::Start::Timestamp(_))));
        for wrong in ["", "-1", "@", "@x", "new", "18446744073709551616"] {
            assert!(start(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn addresses_without_a_port() {
        for (address, want) in [
            ("broker", "broker:9092"),
            ("broker:1", "broker:1"),
            ("10.0.0.1", "10.0.0.1:9092"),
            ("::1", "[::1]:9092"),
            ("[::1]", "[::1]:9092"),
            ("[::1]:7", "[::1]:7"),
            ("tcp://10.0.0.1:1", "tcp://10.0.0.1:1"),
        ] {
            assert_eq!(with_port(address), want);
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
