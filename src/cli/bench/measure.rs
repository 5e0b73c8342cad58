//! One side of one round of a workload.

use std::time::Duration;

use crate::cli::failure::Failure;

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
use super::workload::{Kind, Workload};

/// Records a second of end-to-end latencies.
const E2E_RATE: u32 = 5000;

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
        Kind::PingPong { paced } if other => ping_pong(stage, seconds, paced),
        Kind::E2e | Kind::PingPong { .. } => e2e(workload, stage, seconds, other),
        Kind::ColdReader if other => beside(workload, stage, Reader::None, frames, seconds),
        Kind::ColdReaderShared if other => beside(workload, stage, Reader::Bare, frames, seconds),
        Kind::ColdReader | Kind::ColdReaderShared => {
            beside(workload, stage, Reader::Broker, frames, seconds)
        }
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

/// The median time through the relay, for as many messages as the rate sends, one after the other.
fn ping_pong(stage: &Stage, seconds: f64, paced: bool) -> Result<f64, Failure> {
    let messages = e2e::Load::records_in(E2E_RATE, seconds);
    let rate = paced.then_some(E2E_RATE);
    Ok(limit::ping_pong(&stage.limits.addr, messages, rate, &Progress::hidden())?.p50_us)
}

/// Who sends to a consumer, meanwhile, what is not in the page cache.
#[derive(Debug, Clone, Copy)]
enum Reader {
    None,
    Bare,
    Broker,
}

/// The 99th percentile of acks that producers wait for.
fn beside(
    workload: &Workload,
    stage: &Stage,
    reader: Reader,
    frames: u64,
    seconds: f64,
) -> Result<f64, Failure> {
    let produce = || request_acks(stage, workload.shape, workload.connections, seconds);
    let topic = workload.moves().topic()?;
    let bytes = frames * workload.moves().frame_len();
    let produced = match reader {
        Reader::None => produce()?,
        Reader::Bare => {
            let connect = || limit::connect(&stage.limits.addr, &format!("send {bytes}"));
            cold::beside(stage.scratch.path(), connect, bytes, produce)?
        }
        Reader::Broker => {
            let connect = || stage.target.consumer(&topic, 0);
            cold::beside(&stage.partition_dir(&topic), connect, bytes, produce)?
        }
    };
    Ok(produced.latency.map_or(0.0, |latency| latency.p99_us))
}

/// Acks a second of producers that wait for each.
fn acks(stage: &Stage, shape: Shape, connections: u32, seconds: f64) -> Result<f64, Failure> {
    let produced = request_acks(stage, shape, connections, seconds)?;
    Ok(rate(produced.frames, produced.elapsed))
}

fn request_acks(
    stage: &Stage,
    shape: Shape,
    connections: u32,
    seconds: f64,
) -> Result<Produced, Failure> {
    stage.target.touch(&stage.topic, 0, shape)?;
    let streams = stage.target.producers(&stage.topic, connections)?;
    let until = Until::Elapsed(Duration::from_secs_f64(seconds));
    produce::run(&streams, &Load { shape, window: Some(1), until }, &Progress::hidden())
}
