//! What can be typed behind `hermitmq bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::model::TopicName;

const HELP: &str = "\
Without --broker, $HERMITMQ_BROKER and a broker on 127.0.0.1:9092, a broker is started within this process, on a
temporary directory that is removed at the end.

Bytes are those of whole frames as they are on the wire and on disk; MB are 1,000,000 of them.

Exit codes: 0 success, 1 failure while running, 2 wrong usage.";

const COMPARE_HELP: &str = "\
Workloads: consume-1k, consume-batch, consume-100b, consume-1k-4conn, produce-1k, produce-1k-4conn,
produce-batch, e2e.

Each round runs a workload against a broker, and its bare loop against the machine alone, each in a process of
its own, on files in the same directory, with the same load generator. The ratio is what the broker reaches of
what the bare loop does in the same round: 1.0 is the machine's limit. For e2e it is the bare loop's median latency
divided by the broker's.

Exit codes: 0 success, 1 failure while running or a ratio below its --min-ratio, 2 wrong usage.";

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
    /// The other side of the bare loops
    #[command(hide = true)]
    LimitServer(LimitServerArgs),
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
    /// The broker's address [default: $HERMITMQ_BROKER, else 127.0.0.1:9092, else one in this process]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) broker: Option<String>,
    /// The topic; partition 0 of it is used [default: one named after the frames' shape]
    #[arg(long)]
    pub(super) topic: Option<TopicName>,
    /// Where a broker in this process gets its temporary directory [default: /dev/shm, else the system's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
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
    pub(super) shape: ShapeArgs,
    /// Consumers that read the same records at once, each in a new group
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) connections: u32,
    /// Records for each consumer to read, rounded up to whole frames [default: 512 MB of them]. A topic with fewer is
    /// filled first
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct E2eArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
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
    /// Where the temporary directory is made [default: /dev/shm, else the system's]
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
    /// Seconds of a round of e2e
    #[arg(long, value_name = "SECS", default_value_t = 2.0, value_parser = seconds)]
    pub(super) duration: f64,
    /// Fail unless each workload whose name begins with NAME reaches VALUE; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = threshold)]
    pub(super) min_ratio: Vec<(String, f64)>,
    /// A setting of the brokers that are compared, such as server.reactors=1; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Where the temporary directories are made [default: /dev/shm, else the system's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
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
    let parsed = text.split_once('=').and_then(|(name, value)| {
        let value: f64 = value.parse().ok()?;
        (value.is_finite() && value >= 0.0).then(|| (name.to_owned(), value))
    });
    parsed.ok_or_else(|| "must be NAME=VALUE, such as consume=0.5".to_owned())
}
