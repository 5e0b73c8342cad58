//! `hermitmq bench produce`, `consume` and `e2e`: one workload against one broker.

use std::time::Duration;

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::model::TopicName;

use super::args::{ConsumeArgs, E2eArgs, ProduceArgs, TargetArgs};
use super::e2e;
use super::produce::{Load, Until};
use super::progress::Progress;
use super::report::{self, LATENCY_HEAD, Table};
use super::shape::Shape;
use super::silent::Silent;
use super::stats::{Percentiles, rate};
use super::target::Target;

/// How long to run if nothing says otherwise.
const SECONDS: f64 = 5.0;

/// What a consumer reads if nothing says otherwise, in megabytes.
const CONSUME_MB: u32 = 512;

/// What moved frames come to.
#[derive(Debug, Serialize)]
struct Throughput {
    workload: &'static str,
    broker: String,
    topic: String,
    connections: u32,
    record_size_bytes: u32,
    batch_records: u32,
    partitions: u32,
    idle_connections: u32,
    parked_connections: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_frames: Option<u32>,
    records: u64,
    frames: u64,
    bytes: u64,
    seconds: f64,
    records_per_sec: f64,
    frames_per_sec: f64,
    bytes_per_sec: f64,
    /// Of a broker in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    flushes_per_sec: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_latency: Option<Percentiles>,
}

/// What a fixed rate comes to.
#[derive(Debug, Serialize)]
struct EndToEnd {
    workload: &'static str,
    broker: String,
    topic: String,
    record_size_bytes: u32,
    idle_connections: u32,
    parked_connections: u32,
    rate_per_sec: u32,
    records: u64,
    seconds: f64,
    /// From due to received.
    latency: Percentiles,
    /// From due to sent.
    send_lateness: Percentiles,
}

pub(super) fn produce(args: &ProduceArgs) -> Result<(), Failure> {
    let shape = Shape::of(args.shape)?;
    let target = Target::find(&args.target)?.with_token(&args.token)?;
    let topic = topic(&args.target, shape)?;
    let connections = u64::from(args.connections);
    let each = args.count.map(|count| shape.frames_for(count.div_ceil(connections)));
    let seconds = Duration::from_secs_f64(args.duration.unwrap_or(SECONDS));
    let until = each.map_or(Until::Elapsed(seconds), Until::Frames);
    let silent = Silent::open(&target, args.target.silent)?;
    let streams = target.producers(&topic, args.connections)?;
    let total = each.map(|each| each * connections * shape.frame_len());
    let progress = Progress::bytes("produce", total);
    let load = Load { shape, window: args.window, until };
    let flushes = target.flushes();
    let produced = super::produce::run(&streams, &load, &progress)?;
    let flushes = target.flushes().zip(flushes).map(|(after, before)| after - before);
    drop((progress, streams));
    silent.check()?;
    let moved = Moved { frames: produced.frames, elapsed: produced.elapsed };
    let result = Throughput {
        workload: "produce",
        window_frames: args.window,
        flushes_per_sec: flushes.map(|flushes| rate(flushes, produced.elapsed)),
        ack_latency: produced.latency,
        ..throughput(&target, &args.target, args.connections, shape, moved)?
    };
    report::print(args.target.output, &result, &throughput_table(&result))?;
    target.stop()
}

pub(super) fn consume(args: &ConsumeArgs) -> Result<(), Failure> {
    let shape = Shape::of(args.shape)?;
    let target = Target::find(&args.target)?.with_token(&args.token)?;
    let topic = topic(&args.target, shape)?;
    let frames = match args.count {
        Some(count) => shape.frames_for(count),
        None => (shape.frames_in_mb(CONSUME_MB) / u64::from(args.target.partitions)).max(1),
    };
    let bytes = frames * shape.frame_len();
    let filling = Progress::bytes("fill", None);
    let filled = target.fill(&topic, shape, args.connections, frames, &filling)?;
    drop(filling);
    if filled > 0 {
        report::note(&format!("filled {topic} with {} records first", shape.records_in(filled)));
    }
    let silent = Silent::open(&target, args.target.silent)?;
    let progress = Progress::bytes("consume", Some(bytes * u64::from(args.connections)));
    let connect = |number| target.consumer(&topic, number);
    let elapsed = super::consume::run(args.connections, connect, shape, frames, &progress)?;
    drop(progress);
    silent.check()?;
    let moved = Moved { frames: frames * u64::from(args.connections), elapsed };
    let result = Throughput {
        workload: "consume",
        ..throughput(&target, &args.target, args.connections, shape, moved)?
    };
    report::print(args.target.output, &result, &throughput_table(&result))?;
    target.stop()
}

pub(super) fn e2e(args: &E2eArgs) -> Result<(), Failure> {
    let shape = Shape { record_size: args.record_size, batch: 1 };
    let target = Target::find(&args.target)?.with_token(&args.token)?;
    let topic = topic(&args.target, shape)?;
    let seconds = args.duration.unwrap_or(SECONDS);
    let records = args.count.unwrap_or_else(|| e2e::Load::records_in(args.rate, seconds));
    let load = e2e::Load { record_size: args.record_size, rate: args.rate, records, acks: true };
    let silent = Silent::open(&target, args.target.silent)?;
    let into = target.consumer_at_end(&topic)?;
    let delivered = {
        let _progress = Progress::bytes("e2e", None);
        let streams = target.producers(&topic, 1)?;
        let out = streams.first().ok_or_else(|| Failure::Runtime("no producer".to_owned()))?;
        e2e::run(out, &into, &load)?
    };
    drop(into);
    silent.check()?;
    let result = EndToEnd {
        workload: "e2e",
        broker: target.name(),
        topic: topic.to_string(),
        record_size_bytes: args.record_size,
        idle_connections: args.target.silent.idle,
        parked_connections: args.target.silent.parked,
        rate_per_sec: args.rate,
        records,
        seconds: delivered.elapsed.as_secs_f64(),
        latency: delivered.latency,
        send_lateness: delivered.lateness,
    };
    let mut table =
        Table::new(&[&["from when a record is due", "records"][..], &LATENCY_HEAD].concat());
    for (name, latency) in
        [("until received", &result.latency), ("until sent", &result.send_lateness)]
    {
        let cells = vec![name.to_owned(), latency.count.to_string()];
        table.row([cells, report::latency_cells(latency)].concat());
    }
    report::print(args.target.output, &result, &table)?;
    target.stop()
}

fn topic(args: &TargetArgs, shape: Shape) -> Result<TopicName, Failure> {
    args.topic.clone().map_or_else(|| shape.topic(), Ok)
}

/// Frames, and the time it took to move them.
struct Moved {
    frames: u64,
    elapsed: Duration,
}

fn throughput(
    target: &Target,
    args: &TargetArgs,
    connections: u32,
    shape: Shape,
    Moved { frames, elapsed }: Moved,
) -> Result<Throughput, Failure> {
    let (records, bytes) = (shape.records_in(frames), frames * shape.frame_len());
    Ok(Throughput {
        workload: "",
        broker: target.name(),
        topic: topic(args, shape)?.to_string(),
        connections,
        record_size_bytes: shape.record_size,
        batch_records: shape.batch,
        partitions: args.partitions,
        idle_connections: args.silent.idle,
        parked_connections: args.silent.parked,
        window_frames: None,
        records,
        frames,
        bytes,
        seconds: elapsed.as_secs_f64(),
        records_per_sec: rate(records, elapsed),
        frames_per_sec: rate(frames, elapsed),
        bytes_per_sec: rate(bytes, elapsed),
        flushes_per_sec: None,
        ack_latency: None,
    })
}

fn throughput_table(result: &Throughput) -> Table {
    let head =
        ["workload", "connections", "record B", "batch", "s", "records/s", "frames/s", "MB/s"];
    let mut cells = vec![
        result.workload.to_owned(),
        result.connections.to_string(),
        result.record_size_bytes.to_string(),
        result.batch_records.to_string(),
        format!("{:.2}", result.seconds),
        format!("{:.0}", result.records_per_sec),
        format!("{:.0}", result.frames_per_sec),
        report::mb(result.bytes_per_sec),
    ];
    let Some(latency) = &result.ack_latency else {
        let mut table = Table::new(&head);
        table.row(cells);
        return table;
    };
    let mut table = Table::new(&[&head[..], &LATENCY_HEAD].concat());
    cells.extend(report::latency_cells(latency));
    table.row(cells);
    table
}
