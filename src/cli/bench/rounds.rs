//! The rounds of a workload: each side in turn.

use crate::cli::failure::Failure;

use super::args::CompareArgs;
use super::measure;
use super::progress::Progress;
use super::silent::Silent;
use super::stage::Stage;
use super::workload::Workload;

/// What is measured in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The broker.
    Broker,
    /// What it is measured against.
    Other,
    /// The broker, with silent connections open.
    Crowded,
}

/// What a round measured, in the workload's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Round {
    pub(super) broker: f64,
    pub(super) other: f64,
    /// If there were silent connections.
    pub(super) crowded: Option<f64>,
}

/// One round that does not count, then those that do.
pub(super) fn run(
    workload: &Workload,
    args: &CompareArgs,
    progress: &Progress,
) -> Result<Vec<Round>, Failure> {
    let frames = workload.moves().frames_in_mb(args.mb);
    let set = || Stage::set(&args.start, workload, frames);
    // What a consumer reads, or a relay passes on, is there once for all rounds.
    let kept = if workload.is_fresh() { None } else { Some(set()?) };
    let mut rounds = Vec::new();
    for number in 0..=args.rounds {
        let fresh = if workload.is_fresh() { Some(set()?) } else { None };
        if let Some(stage) = kept.as_ref().or(fresh.as_ref()) {
            let round = round(workload, stage, args, frames, number)?;
            if number > 0 {
                rounds.push(round);
            }
        }
        progress.add(1);
    }
    Ok(rounds)
}

/// Each side, one after the other. Which one is first changes, so that none always follows the same other.
fn round(
    workload: &Workload,
    stage: &Stage,
    args: &CompareArgs,
    frames: u64,
    number: u32,
) -> Result<Round, Failure> {
    let mut sides = vec![Side::Broker, Side::Other];
    if !args.silent.is_empty() {
        sides.push(Side::Crowded);
    }
    let first = number as usize % sides.len();
    sides.rotate_left(first);
    let mut round = Round::default();
    for side in sides {
        let measure = || measure::side(workload, stage, side, frames, args.duration);
        match side {
            Side::Broker => round.broker = measure()?,
            Side::Other => round.other = measure()?,
            Side::Crowded => {
                let silent = Silent::open(&stage.target, args.silent)?;
                round.crowded = Some(measure()?);
                silent.check()?;
                silent.close();
            }
        }
    }
    Ok(round)
}
