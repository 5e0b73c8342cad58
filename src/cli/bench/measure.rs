//! One side of one round of a workload.

use std::time::Duration;

use crate::cli::failure::Failure;
use crate::model::TopicName;

use super::cold;
use super::consume;
use super::e2e;
use super::limit;
use super::produce::{self, Load, Produced, Until};
use super::progress::Progress;
use super::rounds::Side;
use super::shape::Shape;
use super::stage::Stage;
use super::stats::rate;
use super::workload::{Kind, ONE_KIB, Workload};

/// Records a second of end-to-end latencies.
const E2E_RATE: u32 = 5000;

/// Messages through the relay for each second that the rate beside it takes.
const PING_PONGS_PER_SEC: f64 = 5000.0;

/// Measures a side; the result is in the workload's unit. `frames` is what moves, `seconds` how long a side runs that
/// moves no certain amount.
pub(super) fn side(
    workload: &Workload,
    stage: &Stage,
    side: Side,
    frames: u64,
    seconds: f64,
) -> Result<f64, Failure> {
    let other = side == Side::Other;
    let connections = workload.connections;
    let one = Workload { connections: 1, ..*workload };
    match workload.kind {
        Kind::Consume => consume(workload, stage, frames, other),
        Kind::Produce => produce(workload, stage, frames, other),
        Kind::ConsumeSpread if other => consume(&one, stage, frames, false),
        Kind::ConsumeSpread => consume(workload, stage, workload.share(frames), false),
        Kind::ProduceSpread if other => produce(&one, stage, frames, false),
        Kind::ProduceSpread => produce(workload, stage, frames, false),
        Kind::PingPong if other => ping_pong(stage, seconds),
        Kind::E2e | Kind::PingPong => e2e(workload, stage, seconds, other),
        Kind::ColdReader => cold_reader(workload, stage, frames, seconds, other),
        Kind::GroupCommit => {
            acks(stage, workload.shape, if other { 1 } else { connections }, seconds)
        }
        Kind::Commit if other => limit::flush_rate(stage.scratch.path(), seconds),
        Kind::Commit => acks(stage, workload.shape, connections, seconds),
    }
}

impl Workload {
    /// What each connection moves of so many frames.
    pub(super) fn share(&self, frames: u64) -> u64 {
        (frames / u64::from(self.connections)).max(1)
    }
}

/// `frames` frames on each connection.
fn consume(workload: &Workload, stage: &Stage, frames: u64, bare: bool) -> Result<f64, Failure> {
    let (connections, shape) = (workload.connections, workload.shape);
    let bytes = frames * shape.frame_len();
    let connect = |number| {
        if bare {
            limit::connect(&stage.limits.addr, &format!("send {bytes}"))
        } else {
            stage.target.consumer(&stage.topic, number)
        }
    };
    let elapsed = consume::run(connections, connect, shape, frames, &Progress::hidden())?;
    Ok(rate(bytes * u64::from(connections), elapsed))
}

/// `frames` frames, all connections together.
fn produce(workload: &Workload, stage: &Stage, frames: u64, bare: bool) -> Result<f64, Failure> {
    let (connections, shape) = (workload.connections, workload.shape);
    let streams = if bare {
        limit::receivers(&stage.limits.addr, shape, connections)?
    } else {
        // The topic is there before the clock runs: that is no part of producing.
        stage.target.touch(&stage.topic, 0, shape)?;
        stage.target.producers(&stage.topic, connections)?
    };
    let until = Until::Frames(workload.share(frames));
    let load = Load { shape, window: None, until };
    let produced = produce::run(&streams, &load, &Progress::hidden())?;
    Ok(rate(produced.frames * shape.frame_len(), produced.elapsed))
}

/// The median latency at the rate.
fn e2e(workload: &Workload, stage: &Stage, seconds: f64, relay: bool) -> Result<f64, Failure> {
    let records = e2e::Load::records_in(E2E_RATE, seconds);
    let record_size = workload.shape.record_size;
    let load = e2e::Load { record_size, rate: E2E_RATE, records, acks: !relay };
    let (out, into) = if relay {
        limit::relay(&stage.limits.addr)?
    } else {
        let into = stage.target.consumer_at_end(&stage.topic)?;
        let out = stage.target.producers(&stage.topic, 1)?.pop();
        (out.ok_or_else(|| Failure::Runtime("no producer".to_owned()))?, into)
    };
    Ok(e2e::run(&out, &into, &load)?.latency.p50_us)
}

/// The median time through the relay, as many messages as the rate would send, one after the other.
fn ping_pong(stage: &Stage, seconds: f64) -> Result<f64, Failure> {
    let messages = Duration::from_secs_f64(seconds * PING_PONGS_PER_SEC).as_secs().max(1);
    let passed = limit::ping_pong(&stage.limits.addr, messages, &Progress::hidden())?;
    Ok(passed.p50_us)
}

/// Producers that wait for each ack, with or without a consumer of what is not in the page cache.
fn cold_reader(
    workload: &Workload,
    stage: &Stage,
    frames: u64,
    seconds: f64,
    alone: bool,
) -> Result<f64, Failure> {
    let produce =
        || request_acks(stage, &stage.topic, workload.shape, workload.connections, seconds);
    let produced = if alone {
        produce()?
    } else {
        let topic = ONE_KIB.topic()?;
        let dir = stage.partition_dir(&topic);
        let connect = || stage.target.consumer(&topic, 0);
        cold::beside(&dir, connect, frames * ONE_KIB.frame_len(), produce)?
    };
    Ok(produced.latency.map_or(0.0, |latency| latency.p99_us))
}

/// Acks a second of producers that wait for each.
fn acks(stage: &Stage, shape: Shape, connections: u32, seconds: f64) -> Result<f64, Failure> {
    let produced = request_acks(stage, &stage.topic, shape, connections, seconds)?;
    Ok(rate(produced.frames, produced.elapsed))
}

fn request_acks(
    stage: &Stage,
    topic: &TopicName,
    shape: Shape,
    connections: u32,
    seconds: f64,
) -> Result<Produced, Failure> {
    stage.target.touch(topic, 0, shape)?;
    let streams = stage.target.producers(topic, connections)?;
    let until = Until::Elapsed(Duration::from_secs_f64(seconds));
    produce::run(&streams, &Load { shape, window: Some(1), until }, &Progress::hidden())
}
