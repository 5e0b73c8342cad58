//! The workloads of `hermitmq bench compare`, each with the bare loop that is its limit.

use crate::cli::failure::Failure;
use crate::model::TopicName;

use super::args::CompareArgs;
use super::consume;
use super::e2e;
use super::limit;
use super::peer::Peer;
use super::produce::{self, Load, Until};
use super::progress::Progress;
use super::scratch::Scratch;
use super::shape::Shape;
use super::stats::rate;
use super::target::Target;

/// Records a second of e2e.
const E2E_RATE: u32 = 5000;

const ONE_KIB: Shape = Shape { record_size: 1024, batch: 1 };
const SMALL: Shape = Shape { record_size: 100, batch: 1 };
/// What the Go original's stress test sends.
const BATCH: Shape = Shape { record_size: 28, batch: 100 };

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `connections` consumers read all of one partition, against as many `sendfile` loops.
    Consume { connections: u32 },
    /// `connections` pipelined producers share out the bytes to one partition, against as many loops of `recv` and
    /// `pwrite` to one file.
    Produce { connections: u32 },
    /// A fixed rate from a producer to a consumer, against the same through a relay.
    E2e,
}

/// A line of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    shape: Shape,
}

const fn workload(name: &'static str, kind: Kind, shape: Shape) -> Workload {
    Workload { name, kind, shape }
}

pub(super) const WORKLOADS: [Workload; 8] = [
    workload("consume-1k", Kind::Consume { connections: 1 }, ONE_KIB),
    workload("consume-batch", Kind::Consume { connections: 1 }, BATCH),
    workload("consume-100b", Kind::Consume { connections: 1 }, SMALL),
    workload("consume-1k-4conn", Kind::Consume { connections: 4 }, ONE_KIB),
    workload("produce-1k", Kind::Produce { connections: 1 }, ONE_KIB),
    workload("produce-1k-4conn", Kind::Produce { connections: 4 }, ONE_KIB),
    workload("produce-batch", Kind::Produce { connections: 1 }, BATCH),
    workload("e2e", Kind::E2e, SMALL),
];

/// What a round measured: bytes a second, or for e2e the median latency in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    pub(super) broker: f64,
    pub(super) limit: f64,
}

/// Both sides of a comparison, with their data in one directory.
#[derive(Debug)]
struct Sides {
    // Dropped in this order: processes before the directory they use.
    _broker: Peer,
    limits: Peer,
    target: Target,
    topic: TopicName,
    _scratch: Scratch,
}

impl Sides {
    fn start(args: &CompareArgs, shape: Shape) -> Result<Self, Failure> {
        let scratch = Scratch::new(args.dir.as_deref())?;
        let broker = Peer::broker(scratch.path(), &args.set)?;
        let limits = Peer::limits(scratch.path())?;
        let target = Target::at(broker.addr.clone());
        Ok(Self { _broker: broker, limits, target, topic: shape.topic()?, _scratch: scratch })
    }
}

impl Workload {
    /// One round that does not count, then those that do.
    pub(super) fn run(
        &self,
        args: &CompareArgs,
        progress: &Progress,
    ) -> Result<Vec<Round>, Failure> {
        let frames = self.shape.frames_in_mb(args.mb);
        // What a consumer reads, or a relay passes on, is there once for all rounds.
        let kept = match self.kind {
            Kind::Produce { .. } => None,
            Kind::Consume { .. } => {
                let sides = Sides::start(args, self.shape)?;
                limit::fill(&sides.limits.addr, self.shape, frames)?;
                sides.target.fill(&sides.topic, self.shape, frames, &Progress::hidden())?;
                Some(sides)
            }
            Kind::E2e => Some(Sides::start(args, self.shape)?),
        };
        let mut rounds = Vec::new();
        for number in 0..=args.rounds {
            // A producer's round begins with empty files, and leaves none behind.
            let fresh = match kept {
                Some(_) => None,
                None => Some(Sides::start(args, self.shape)?),
            };
            if let Some(sides) = kept.as_ref().or(fresh.as_ref()) {
                let round = self.round(sides, args, frames, number % 2 == 0)?;
                if number > 0 {
                    rounds.push(round);
                }
            }
            progress.add(1);
        }
        Ok(rounds)
    }

    /// Both sides, one after the other. Which one is first changes, so that neither always follows the other.
    fn round(
        &self,
        sides: &Sides,
        args: &CompareArgs,
        frames: u64,
        broker_first: bool,
    ) -> Result<Round, Failure> {
        let measure = |broker: bool| match self.kind {
            Kind::Consume { connections } => self.consume(sides, connections, frames, broker),
            Kind::Produce { connections } => self.produce(sides, connections, frames, broker),
            Kind::E2e => self.e2e(sides, args.duration, broker),
        };
        let first = measure(broker_first)?;
        let second = measure(!broker_first)?;
        let (broker, limit) = if broker_first { (first, second) } else { (second, first) };
        Ok(Round { broker, limit })
    }

    fn consume(
        &self,
        sides: &Sides,
        connections: u32,
        frames: u64,
        broker: bool,
    ) -> Result<f64, Failure> {
        let bytes = frames * self.shape.frame_len();
        let connect = || {
            if broker {
                sides.target.consumer(&sides.topic)
            } else {
                limit::connect(&sides.limits.addr, &format!("send {bytes}"))
            }
        };
        let hidden = Progress::hidden();
        let elapsed = consume::run(connections, connect, self.shape, frames, &hidden)?;
        Ok(rate(bytes * u64::from(connections), elapsed))
    }

    fn produce(
        &self,
        sides: &Sides,
        connections: u32,
        frames: u64,
        broker: bool,
    ) -> Result<f64, Failure> {
        let each = (frames / u64::from(connections)).max(1);
        let streams = if broker {
            // The topic is there before the clock runs: that is no part of producing.
            sides.target.touch(&sides.topic, self.shape)?;
            sides.target.producers(&sides.topic, connections)?
        } else {
            limit::receivers(&sides.limits.addr, self.shape, connections)?
        };
        let load = Load { shape: self.shape, window: None, until: Until::Frames(each) };
        let produced = produce::run(&streams, &load, &Progress::hidden())?;
        Ok(rate(produced.frames * self.shape.frame_len(), produced.elapsed))
    }

    fn e2e(&self, sides: &Sides, seconds: f64, broker: bool) -> Result<f64, Failure> {
        let records = e2e::Load::records_in(E2E_RATE, seconds);
        let record_size = self.shape.record_size;
        let load = e2e::Load { record_size, rate: E2E_RATE, records, acks: broker };
        let (out, into) = if broker {
            let into = sides.target.consumer_at_end(&sides.topic)?;
            let out = sides.target.producers(&sides.topic, 1)?.pop();
            (out.ok_or_else(|| Failure::Runtime("no producer".to_owned()))?, into)
        } else {
            limit::relay(&sides.limits.addr)?
        };
        Ok(e2e::run(&out, &into, &load)?.latency.p50_us)
    }
}
