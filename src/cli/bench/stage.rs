//! Where a workload of `hermitmq bench compare` is measured: a broker and the bare loops, each a process of its own,
//! with their files in one directory.

use std::path::PathBuf;

use crate::cli::failure::Failure;
use crate::model::TopicName;

use super::args::StartArgs;
use super::cold;
use super::limit;
use super::peer::Peer;
use super::progress::Progress;
use super::scratch::Scratch;
use super::target::Target;
use super::workload::{Kind, Workload};

/// Both sides, ready to be measured.
#[derive(Debug)]
pub(super) struct Stage {
    // Dropped in this order: processes before the directory they use.
    _broker: Peer,
    pub(super) limits: Peer,
    pub(super) target: Target,
    pub(super) topic: TopicName,
    pub(super) scratch: Scratch,
}

impl Stage {
    /// Starts both, and stores what is to be read: `frames` frames on each side.
    pub(super) fn set(args: &StartArgs, workload: &Workload, frames: u64) -> Result<Self, Failure> {
        let scratch = if workload.needs_disk() {
            let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
            let scratch = Scratch::new(Some(&parent))?;
            cold::must_be_disk(scratch.path())?;
            scratch
        } else {
            Scratch::new(args.dir.as_deref())?
        };
        let settings = [args.settings(), workload.settings()].concat();
        let broker = Peer::broker(scratch.path(), &settings)?;
        let limits = Peer::limits(scratch.path())?;
        let target = Target::at(broker.addr.clone(), workload.partitions());
        let topic = workload.shape.topic()?;
        let stage = Self { _broker: broker, limits, target, topic, scratch };
        stage.fill(workload, frames)?;
        Ok(stage)
    }

    fn fill(&self, workload: &Workload, frames: u64) -> Result<(), Failure> {
        let hidden = Progress::hidden();
        let shape = workload.shape;
        let fill = |connections, frames| {
            self.target.fill(&self.topic, shape, connections, frames, &hidden).map(drop)
        };
        match workload.kind {
            Kind::Consume => {
                limit::fill(&self.limits.addr, shape, frames)?;
                fill(1, frames)
            }
            Kind::ConsumeSpread => {
                fill(workload.connections, workload.share(frames))?;
                // The first partition is also the one that is read alone.
                fill(1, frames)
            }
            Kind::ColdReader => self.fill_cold(workload, frames),
            Kind::ColdReaderShared => {
                limit::fill(&self.limits.addr, workload.moves(), frames)?;
                self.fill_cold(workload, frames)
            }
            _ => Ok(()),
        }
    }

    /// What a consumer is to read from the disk has a topic of its own.
    fn fill_cold(&self, workload: &Workload, frames: u64) -> Result<(), Failure> {
        let shape = workload.moves();
        self.target.fill(&shape.topic()?, shape, 1, frames, &Progress::hidden()).map(drop)
    }

    /// Where the broker keeps the first partition of a topic.
    pub(super) fn partition_dir(&self, topic: &TopicName) -> PathBuf {
        self.scratch.path().join("data").join(format!("{topic}_0"))
    }
}
