//! What can be typed behind `hermitmq bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::TokenArgs;
use crate::model::{TopicName, limits};

const HELP: &str = "\
Without --broker and $HERMITMQ_BROKER a broker is started within this process, on a temporary directory that is removed
at the end.

`bench tls` alone speaks TLS, and shows no token: the others need a listener without TLS.

Bytes are those of whole frames as they are on the wire and on disk; MB are 1,000,000 of them.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

pub(super) const COMPARE_HELP: &str = "\
Workloads against the machine: consume-1k, consume-batch, consume-100b, consume-1k-4conn, produce-1k,
produce-1k-4conn, produce-batch, e2e, pingpong-paced, pingpong-closed.
Workloads against a single connection: consume-1k-100part, produce-1k-100part.
Workloads of a disk, which run only when --only names them, and need a --dir that is on one: cold-reader,
cold-reader-4conn, cold-shared, cold-shared-4conn, commit-64conn, commit-1conn.

Each round runs both sides of a workload, on files in the same directory, with the same load generator. What is
measured is a broker in a process of its own; what it is measured against is a bare loop in another, or the same
broker with less to do. The ratio is the one of a round: 1.0 says that both sides are alike, more is better. For
latencies it is the other side's divided by the broker's.

With --idle and --parked each round also runs the workload with that many silent connections open; `kept` is what is
left of the ratio then.

Exit codes: 0 success, 1 failure while running or a ratio below its --min-ratio or --min-kept, 2 wrong usage.";

/// Fewer rounds leave the median to chance.
const ROUNDS_DEFAULT: u32 = 5;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum BenchCommand {
    /// Store records as fast as the broker takes them
    #[command(after_help = HELP)]
    Produce(ProduceArgs),
    /// Read records as fast as the broker gives them
    #[command(after_help = HELP)]
    Consume(ConsumeArgs),
    /// Latency from a record's due time at its producer to its consumer, at a fixed rate
    #[command(after_help = HELP)]
    E2e(E2eArgs),
    /// What the machine itself can do: sendfile, recv + pwrite, fdatasync, a relay of TCP
    #[command(after_help = "Exit codes: 0 success, 1 failure while running, 2 wrong usage.")]
    Limit(LimitArgs),
    /// Each workload and the machine's limit for it in turns, and the ratio of both
    #[command(after_help = COMPARE_HELP)]
    Compare(CompareArgs),
    /// Read records without and with TLS in turns, from a broker with tls.mode = "optional"
    #[command(after_help = HELP)]
    Tls(SecuredArgs),
    /// The other side of the bare loops
    #[command(hide = true)]
    LimitServer(LimitServerArgs),
}

/// When the broker acks a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Durability {
    /// Once the system has it; it is flushed to the disk within an interval
    Interval,
    /// Once it is flushed to the disk
    Always,
}

impl Durability {
    /// The setting of a broker that means it.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Interval => "storage.durability=interval",
            Self::Always => "storage.durability=always",
        }
    }
}

/// A broker that is started to be measured.
#[derive(Debug, Args)]
pub(in crate::cli) struct StartArgs {
    /// When the started broker acks a record (storage.durability)
    #[arg(long, value_enum)]
    pub(super) durability: Option<Durability>,
    /// Any setting of the started broker, such as server.reactors=1; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Where temporary directories are made [default: /dev/shm if 1 GiB is free there, else the system's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

impl StartArgs {
    /// What is set by these arguments, as `KEY=VALUE`; the later one wins.
    pub(super) fn settings(&self) -> Vec<String> {
        let durability = self.durability.map(|durability| durability.setting().to_owned());
        self.set.iter().cloned().chain(durability).collect()
    }
}

/// Connections that are open and say nothing while something else is measured.
#[derive(Debug, Clone, Copy, Args)]
pub(in crate::cli) struct SilentArgs {
    /// Producers that send nothing, open meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) idle: u32,
    /// Consumers that wait for a first record, open meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) parked: u32,
}

impl SilentArgs {
    /// Whether there are any.
    pub(super) fn is_empty(self) -> bool {
        self.idle == 0 && self.parked == 0
    }
}

/// How the results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people
    Table,
    /// One JSON object; units are in the names of its fields
    Json,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetArgs {
    /// The broker's address [default: $HERMITMQ_BROKER, else one in this process]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) broker: Option<String>,
    /// The topic [default: one named after the frames' shape]
    #[arg(long)]
    pub(super) topic: Option<TopicName>,
    /// Partitions of the topic that are used: connection number i uses partition i modulo N. A started broker makes as
    /// many (topics.default_partitions); elsewhere the topic must have them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PARTITIONS_PER_TOPIC_MAX)))]
    pub(super) partitions: u32,
    #[command(flatten)]
    pub(super) start: StartArgs,
    #[command(flatten)]
    pub(super) silent: SilentArgs,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
}

/// What a frame looks like.
#[derive(Debug, Clone, Copy, Args)]
pub(in crate::cli) struct ShapeArgs {
    /// Bytes of a record; in a batch its newline is one of them
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    pub(super) record_size: u32,
    /// Records in a frame
    #[arg(long, value_name = "RECORDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) batch: u32,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ProduceArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    /// Connections that produce at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) connections: u32,
    /// Frames a connection may have without their acks; 1 waits for each and measures its latency [default: no limit]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) window: Option<u32>,
    /// Seconds to run for [default: 5]
    #[arg(long, value_name = "SECS", conflicts_with = "count", value_parser = seconds)]
    pub(super) duration: Option<f64>,
    /// Records to store, all connections together; rounded up to whole frames on each
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ConsumeArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    /// Consumers that read at once, each in a new group
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) connections: u32,
    /// Records for each consumer to read, rounded up to whole frames [default: 512 MB of them, shared out to the
    /// partitions]. A partition with fewer is filled first
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct E2eArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    /// Bytes of a record
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) record_size: u32,
    /// Records a second
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rate: u32,
    /// Seconds to run for [default: 5]
    #[arg(long, value_name = "SECS", conflicts_with = "count", value_parser = seconds)]
    pub(super) duration: Option<f64>,
    /// Records to send
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LimitArgs {
    /// Connections of the sendfile and recv + pwrite loops
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) connections: u32,
    /// Megabytes to move over each connection
    #[arg(long, value_name = "MB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) mb: u32,
    /// Blocks of 4 KiB that are written and flushed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) flushes: u32,
    /// Messages that go through the relay, one at a time
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) messages: u32,
    /// Where the temporary directory is made [default: /dev/shm if 1 GiB is free there, else the system's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompareArgs {
    /// Only workloads whose name begins with NAME; repeatable
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Rounds of each workload that count; one more before them touches memory for the first time
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Megabytes of log that a round writes, or that each of its consumers reads
    #[arg(long, value_name = "MB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(super) mb: u32,
    /// Seconds of a round that measures latencies or acks
    #[arg(long, value_name = "SECS", default_value_t = 2.0, value_parser = seconds)]
    pub(super) duration: f64,
    /// Fail unless each workload whose name begins with NAME reaches VALUE; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = threshold)]
    pub(super) min_ratio: Vec<(String, f64)>,
    /// Fail unless each workload keeps this share of its ratio with the --idle and --parked connections open
    #[arg(long, value_name = "VALUE", value_parser = share)]
    pub(super) min_kept: Option<f64>,
    #[command(flatten)]
    pub(super) start: StartArgs,
    #[command(flatten)]
    pub(super) silent: SilentArgs,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SecuredArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    /// Rounds that count; one more before them touches memory for the first time
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Megabytes of log that are read each time
    #[arg(long, value_name = "MB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(super) mb: u32,
    #[command(flatten)]
    pub(super) tls: crate::cli::tls::TlsArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LimitServerArgs {
    /// Where the files are that it sends and writes
    #[arg(long, value_name = "DIR")]
    pub(super) dir: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("must be from 0.001 to 86400 seconds".to_owned())
    }
}

fn threshold(text: &str) -> Result<(String, f64), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, value)| share(value).ok().map(|value| (name.to_owned(), value)));
    parsed.ok_or_else(|| "must be NAME=VALUE, such as consume=0.5".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    parsed.ok_or_else(|| "must be a number from 0 on, such as 0.95".to_owned())
}
