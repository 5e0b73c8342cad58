//! Topics while the broker runs: what there is, and creating and altering them.

use std::ops::Range;
use std::sync::Arc;

use super::broker::Broker;
use super::error::PartitionError;
use super::opener::Created;
use super::options::{OutOfRange, TopicOptions};
use super::partition::Partition;
use super::topic::{Partitions, Topic};
use super::topic_change::{TopicChange, TopicError};
use super::topic_description::{
    DamagedRange, PartitionDescription, TopicDescription, TopicSummary,
};
use crate::model::{PartitionId, TopicName};
use crate::storage::{AlterError, OpenError};

impl Broker {
    /// All topics, by name, the broker's own included.
    pub fn topics(&self) -> Vec<TopicSummary> {
        let topics = self.topics.read();
        let summary = |(name, topic): (&TopicName, &Topic)| {
            let sizes = topic.partitions.values().flat_map(|partition| partition.sizes());
            TopicSummary {
                name: name.clone(),
                reserved: name.is_reserved(),
                partitions: topic.partitions.len(),
                bytes: sizes.map(|size| size.bytes).sum(),
            }
        };
        let mut all: Vec<_> = topics.iter().map(summary).collect();
        drop(topics);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// All about a topic, also one of the broker's own.
    pub fn describe_topic(&self, name: &TopicName) -> Result<TopicDescription, TopicError> {
        let topics = self.topics.read();
        let topic = topics.get(name).ok_or_else(|| TopicError::Unknown(name.clone()))?;
        Ok(TopicDescription {
            name: name.clone(),
            reserved: name.is_reserved(),
            declared: topic.declared,
            settings: topic.options.clone(),
            effective: self.opener.effective(&topic.options),
            partitions: topic
                .partitions
                .iter()
                .map(|(id, partition)| describe(*id, partition))
                .collect(),
        })
    }

    /// Creates a topic. Without a number of partitions it gets `topics.default_partitions`. Waits for the disk.
    ///
    /// One that could not be created for want of space may be there, empty, after the next start.
    pub fn create_topic(&self, options: TopicOptions) -> Result<TopicDescription, TopicError> {
        let name = options.name.clone();
        check(&options)?;
        let mut created = self.create.lock();
        if created.closed {
            return Err(TopicError::Closed);
        }
        if self.topics.read().contains_key(&name) {
            return Err(TopicError::Exists(name));
        }
        self.add_topic(options, &mut created)
            .map_err(|error| TopicError::of_creation(&name, created.partitions, error))?;
        tracing::info!(topic = %name, "topic created");
        self.describe_topic(&name)
    }

    /// Creates a topic that does not exist.
    pub(super) fn add_topic(
        &self,
        options: TopicOptions,
        created: &mut Created,
    ) -> Result<(), PartitionError> {
        let name = options.name.clone();
        // What is left of a deleted topic of this name must not become the new one's.
        self.finish_deletion(&name, created)
            .map_err(|why| PartitionError::Unfinished { topic: name.clone(), why })?;
        let partitions = options.partitions.or(Some(self.options().default_partitions));
        let entry = TopicOptions { partitions, ..options };
        let topic = self.opener.create_topic(&self.options(), entry, created)?;
        self.topics.write().insert(name, topic);
        Ok(())
    }

    /// Changes how a topic is kept, and gives it more partitions. Waits for the disk.
    ///
    /// Settings hold at once, but for the size of segments and of payloads: see [`TopicChange`]. Partitions that could not be added
    /// for want of space may be there, empty, after the next start.
    pub fn alter_topic(
        &self,
        name: &TopicName,
        change: TopicChange,
    ) -> Result<TopicDescription, TopicError> {
        let mut created = self.create.lock();
        if created.closed {
            return Err(TopicError::Closed);
        }
        let before = self.alterable(name)?;
        let mut after = change.applied_to(&before);
        after.partitions = change.partitions.or(before.partitions);
        self.change(before, &after, &mut created)?;
        self.describe_topic(name)
    }

    /// Keeps a topic as `after` says, and no longer as `before`.
    pub(super) fn change(
        &self,
        before: TopicOptions,
        after: &TopicOptions,
        created: &mut Created,
    ) -> Result<(), TopicError> {
        if before == *after {
            return self.alter_partitions(&after.name, after);
        }
        let name = &after.name;
        let from = before.partitions.unwrap_or(0);
        let until = after.partitions.unwrap_or(from);
        check(after)?;
        if until < from {
            let (topic, there, wanted) = (name.clone(), from, until);
            return Err(TopicError::FewerPartitions { topic, there, wanted });
        }
        self.check_durability(name, &before, after)?;
        if until > from {
            let there = created.partitions;
            self.opener
                .check_room(&self.options(), name, &(from..until), created)
                .map_err(|error| TopicError::of_creation(name, there, error))?;
        }
        let opened = match self.write_down(after, from..until, created) {
            Ok(opened) => opened,
            Err(source) => {
                created.file.note(before);
                self.write_down_again(name, created);
                return Err(TopicError::Storage { topic: name.clone(), source });
            }
        };
        if let Some(topic) = self.topics.write().get_mut(name) {
            topic.partitions.extend(opened);
        }
        let altered = self.alter_partitions(name, after);
        tracing::info!(topic = %name, settings = %set(after), "topic altered");
        altered
    }

    /// Writes down how a topic is to be kept, and makes the partitions that are new, before anything is done to those there are.
    fn write_down(
        &self,
        after: &TopicOptions,
        new: Range<PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        created.file.note(after.clone());
        created.file.save(self.disk())?;
        if new.is_empty() {
            return Ok(Partitions::new());
        }
        self.opener.create(after, new, created)
    }

    /// Writes the catalog after a change was taken back. The one that has the change in it may be on the disk all the same, and what
    /// is stored from now on must not go by it.
    pub(super) fn write_down_again(&self, topic: &TopicName, created: &mut Created) {
        if let Err(error) = created.file.save(self.disk()) {
            tracing::error!(
                %topic, %error,
                "a change to a topic was not made, and the catalog that says so may be on the disk; it is written again by \
                 the next change to a topic"
            );
        }
    }

    /// The settings of a topic that can be altered.
    fn alterable(&self, name: &TopicName) -> Result<TopicOptions, TopicError> {
        if name.is_reserved() {
            return Err(TopicError::Reserved(name.clone()));
        }
        let topics = self.topics.read();
        let topic = topics.get(name).ok_or_else(|| TopicError::Unknown(name.clone()))?;
        if topic.declared {
            return Err(TopicError::Declared(name.clone()));
        }
        let missing = topic.missing();
        if !missing.is_empty() {
            return Err(TopicError::Incomplete { topic: name.clone(), missing });
        }
        Ok(TopicOptions { partitions: Some(topic.next_id()), ..topic.options.clone() })
    }

    fn check_durability(
        &self,
        name: &TopicName,
        before: &TopicOptions,
        after: &TopicOptions,
    ) -> Result<(), TopicError> {
        let durability = |options| self.opener.log_options_of(options).durability;
        if durability(before) == durability(after) {
            return Ok(());
        }
        let partitions = self.partitions_of(name);
        match partitions.iter().find(|partition| partition.is_read_only()) {
            Some(partition) => Err(TopicError::ReadOnly(partition.name().clone())),
            None => Ok(()),
        }
    }

    /// The partitions of a topic, by their numbers; none if there is no such topic.
    pub fn partitions_of(&self, name: &TopicName) -> Vec<Arc<Partition>> {
        let topics = self.topics.read();
        let partitions = topics.get(name).map(|topic| topic.partitions.values());
        partitions.into_iter().flatten().map(Arc::clone).collect()
    }

    /// Keeps the partitions there are as the options say; all of them, and then says what went wrong first.
    pub(super) fn alter_partitions(
        &self,
        name: &TopicName,
        options: &TopicOptions,
    ) -> Result<(), TopicError> {
        if let Some(topic) = self.topics.write().get_mut(name) {
            topic.options = options.clone();
        }
        let log_options = self.opener.log_options_of(options);
        let max_payload_bytes = self.opener.max_payload_bytes_of(options);
        let mut result = Ok(());
        for partition in self.partitions_of(name) {
            let error = match partition.alter(log_options, max_payload_bytes) {
                Ok(()) => continue,
                Err(AlterError::ReadOnly) => TopicError::ReadOnly(partition.name().clone()),
                Err(AlterError::Flush(source)) => {
                    TopicError::Flush { partition: partition.name().clone(), source }
                }
            };
            result = result.and(Err(error));
        }
        result
    }
}

fn check(options: &TopicOptions) -> Result<(), TopicError> {
    let topic = options.name.clone();
    if topic.is_reserved() {
        return Err(TopicError::Reserved(topic));
    }
    match options.out_of_range() {
        None => Ok(()),
        Some(OutOfRange { field, value, min, max }) => Err(TopicError::OutOfRange {
            topic,
            field,
            value: value.into(),
            min: min.into(),
            max: max.into(),
        }),
    }
}

fn describe(id: PartitionId, partition: &Partition) -> PartitionDescription {
    let sizes = partition.sizes();
    let damaged = partition.damage().into_iter().map(|bad| DamagedRange {
        start_offset: bad.offsets.start,
        end_offset: bad.offsets.end,
        bytes: bad.positions.end - bad.positions.start,
    });
    PartitionDescription {
        partition: id,
        start_offset: partition.start_offset(),
        end_offset: partition.end_offset(),
        flushed_offset: partition.flushed_offset(),
        segments: sizes.len(),
        bytes: sizes.iter().map(|size| size.bytes).sum(),
        read_only: partition.is_read_only(),
        damaged: damaged.collect(),
    }
}

/// What is set for a topic, for the log.
fn set(options: &TopicOptions) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(options) else {
        return String::new();
    };
    let set = fields.iter().filter(|(name, value)| *name != "name" && !value.is_null());
    let set = set.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    set.collect::<Vec<_>>().join(" ")
}
