//! Consumer groups while the broker runs: where they stand, and putting them somewhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::broker::Broker;
use super::connected::Member;
use super::error::{AppendError, CommitError};
use super::group_description::{
    GroupDescription, GroupError, GroupLag, GroupOffset, GroupReset, GroupSummary, ResetStep,
    ResetTo,
};
use super::offsets::{Committed, OffsetKey};
use super::partition::Partition;
use crate::model::{GroupName, Offset, TopicPartition};

/// What is known of a group and a partition.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    committed: Option<Committed>,
    consumers: usize,
}

impl Broker {
    /// Counts a consumer of a group as connected, until what this returns is dropped.
    pub fn join(&self, key: OffsetKey) -> Member {
        self.connected.join(key)
    }

    /// All groups that have committed something or are connected, by name.
    pub fn groups(&self) -> Vec<GroupSummary> {
        let mut groups: BTreeMap<GroupName, GroupSummary> = BTreeMap::new();
        for (OffsetKey { group, partition }, standing) in self.standings(|_| true) {
            let summary = groups.entry(group.clone()).or_insert_with(|| GroupSummary {
                name: group,
                consumers: 0,
                partitions: 0,
                lag: 0,
                last_commit_ns: None,
            });
            summary.consumers += standing.consumers;
            if let Some(committed) = standing.committed {
                summary.partitions += 1;
                let found = self.find(&partition);
                summary.lag += found.map_or(0, |found| lag(&found, committed.offset));
                summary.last_commit_ns = summary.last_commit_ns.max(Some(committed.at_ns));
            }
        }
        groups.into_values().collect()
    }

    /// All about a group.
    pub fn describe_group(&self, name: &GroupName) -> Result<GroupDescription, GroupError> {
        let standings = self.standings(|key| key.group == *name);
        if standings.is_empty() {
            return Err(GroupError::Unknown(name.clone()));
        }
        let consumers = standings.values().map(|standing| standing.consumers).sum();
        let offset = |(key, Standing { committed, consumers }): (OffsetKey, Standing)| {
            let found = self.find(&key.partition);
            let found = found.as_deref();
            let offset = committed.map(|committed| committed.offset);
            GroupOffset {
                topic: key.partition.topic,
                partition: key.partition.partition,
                consumers,
                committed: offset,
                last_commit_ns: committed.map(|committed| committed.at_ns),
                start_offset: found.map(Partition::start_offset),
                end_offset: found.map(Partition::end_offset),
                lag: found.zip(offset).map(|(found, offset)| lag(found, offset)),
            }
        };
        let offsets = standings.into_iter().map(offset).collect();
        Ok(GroupDescription { name: name.clone(), consumers, offsets })
    }

    /// Where every group stands in every partition that it has committed an offset of and that is there, by their names.
    pub fn group_offsets(&self) -> Vec<(OffsetKey, GroupLag)> {
        let mut all = self.table.collect(|_| true);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        let lag = |(key, committed): (OffsetKey, Committed)| {
            let partition = self.find(&key.partition)?;
            let lag = lag(&partition, committed.offset);
            Some((key, GroupLag { committed: committed.offset, lag }))
        };
        all.into_iter().filter_map(lag).collect()
    }

    /// Puts a group somewhere else in a topic, partition by partition; one that has never committed, too. With `dry_run` it
    /// only says what that would be. Waits for the disk.
    pub fn reset_group(
        &self,
        name: &GroupName,
        reset: &GroupReset,
    ) -> Result<Vec<ResetStep>, GroupError> {
        let partitions = self.partitions_to_reset(reset)?;
        let key = |partition: &Partition| OffsetKey {
            group: name.clone(),
            partition: partition.name().clone(),
        };
        // All of it is known to be possible before anything is done.
        let mut steps = Vec::new();
        for partition in &partitions {
            let from = self.committed(&key(partition));
            steps.push(plan(partition, from, reset.to)?);
        }
        if reset.dry_run {
            return Ok(steps);
        }
        self.refuse_connected(name, |key| partitions.iter().any(|p| *p.name() == key.partition))?;
        for (partition, step) in partitions.iter().zip(&steps) {
            self.store_commit(key(partition), partition, step.to).map_err(|source| {
                GroupError::Commit { partition: partition.name().clone(), source }
            })?;
        }
        tracing::info!(group = %name, topic = %reset.topic, to = %reset.to, "group reset");
        Ok(steps)
    }

    fn partitions_to_reset(&self, reset: &GroupReset) -> Result<Vec<Arc<Partition>>, GroupError> {
        let GroupReset { topic, partitions, .. } = reset;
        if topic.is_reserved() {
            return Err(GroupError::Reserved(topic.clone()));
        }
        let all = self.partitions_of(topic);
        if all.is_empty() {
            return Err(GroupError::UnknownTopic(topic.clone()));
        }
        if partitions.is_empty() {
            return Ok(all);
        }
        let find = |&partition| {
            let found = all.iter().find(|found| found.name().partition == partition);
            let unknown = || GroupError::UnknownPartition { topic: topic.clone(), partition };
            found.map(Arc::clone).ok_or_else(unknown)
        };
        partitions.iter().map(find).collect()
    }

    /// Forgets everything that a group has committed.
    pub fn delete_group(&self, name: &GroupName) -> Result<(), GroupError> {
        let keys = self.table.collect(|key| key.group == *name);
        self.refuse_connected(name, |_| true)?;
        if keys.is_empty() {
            return Err(GroupError::Unknown(name.clone()));
        }
        let now_ns = self.now_ns();
        for (key, _) in keys {
            let forgotten = self.table.forget(&self.offsets_log, &key, now_ns, |_| true);
            forgotten.map_err(|error: AppendError| GroupError::Commit {
                partition: key.partition,
                source: CommitError::Append(error),
            })?;
        }
        tracing::info!(group = %name, "group deleted");
        Ok(())
    }

    fn refuse_connected(
        &self,
        name: &GroupName,
        concerns: impl Fn(&OffsetKey) -> bool,
    ) -> Result<(), GroupError> {
        let connected = self.connected.counts();
        let counts = connected.iter().filter(|(key, _)| key.group == *name && concerns(key));
        match counts.map(|(_, count)| count).sum() {
            0 => Ok(()),
            consumers => Err(GroupError::InUse { group: name.clone(), consumers }),
        }
    }

    /// What is known of these groups and partitions.
    fn standings(&self, wanted: impl Fn(&OffsetKey) -> bool) -> BTreeMap<OffsetKey, Standing> {
        let mut all: BTreeMap<OffsetKey, Standing> = BTreeMap::new();
        for (key, committed) in self.table.collect(&wanted) {
            all.insert(key, Standing { committed: Some(committed), consumers: 0 });
        }
        for (key, consumers) in self.connected.counts() {
            if wanted(&key) {
                all.entry(key).or_default().consumers = consumers;
            }
        }
        all
    }

    fn find(&self, name: &TopicPartition) -> Option<Arc<Partition>> {
        self.existing(&name.topic, name.partition)?.ok()
    }
}

/// Records from where a group resumes to the end.
fn lag(partition: &Partition, committed: Offset) -> u64 {
    // In this order: the start moves up to the end, never beyond.
    let start = partition.start_offset();
    partition.end_offset().saturating_sub(committed.max(start))
}

fn plan(partition: &Partition, from: Option<Offset>, to: ResetTo) -> Result<ResetStep, GroupError> {
    let locate = |source| GroupError::Locate { partition: partition.name().clone(), source };
    let (start, end) = (partition.start_offset(), partition.end_offset());
    let to = match to {
        ResetTo::Earliest => start,
        ResetTo::Latest => end,
        ResetTo::Offset(offset) if (start..=end).contains(&offset) => offset,
        ResetTo::Offset(offset) => {
            let partition = partition.name().clone();
            return Err(GroupError::OutOfRange { partition, offset, start, end });
        }
        ResetTo::Timestamp(timestamp) => {
            let mut cursor = partition.locate_time(timestamp).map_err(locate)?;
            partition.offset_at(&mut cursor).map_err(locate)?
        }
    };
    let partition = partition.name().partition;
    Ok(ResetStep { partition, from, to, start_offset: start, end_offset: end })
}
