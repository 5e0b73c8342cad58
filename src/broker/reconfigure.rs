//! Another configuration while the broker runs.

use std::collections::HashSet;

use super::broker::Broker;
use super::error::BrokerError;
use super::opener::{Created, Kept};
use super::options::{OffsetsOptions, Options, TopicOptions};
use super::retention;
use super::topic_change::TopicError;
use crate::model::TopicName;
use crate::storage;

/// The parts of a configuration that a running broker takes over.
#[derive(Debug, Clone)]
pub struct Reconfiguration {
    /// Section `topics`.
    pub options: Options,
    /// Section `offsets`.
    pub offsets: OffsetsOptions,
    /// Largest payload of a frame, in MiB, unless its topic says otherwise.
    pub max_payload_mb: u32,
    /// The topics that the configuration declares, each once.
    pub declared: Vec<TopicOptions>,
    /// Section `storage`. Of it are taken the retention limits and how logs are kept.
    pub storage: storage::Options,
}

impl Broker {
    /// Takes over another configuration, for all topics and each: they are altered, and new ones created. Waits for the disk.
    ///
    /// An error changes nothing. Otherwise what could not be done about single topics is returned.
    pub fn reconfigure(&self, new: &Reconfiguration) -> Result<Vec<TopicError>, BrokerError> {
        let mut created = self.create.lock();
        self.check_declared(&new.declared)?;
        if created.closed {
            return Ok(vec![TopicError::Closed]);
        }
        *self.opener.kept.write() = Kept::of(&new.storage, new.max_payload_mb);
        *self.options.write() = new.options.clone();
        self.opener.shared.space.set_min(new.storage.min_free_mb);
        self.retention.set_total_mb(new.storage.max_total_mb);
        self.set_offsets_retention_hours(new.offsets.retention_hours);
        self.table.set_max_groups(new.offsets.max_groups);
        let declared: HashSet<_> = new.declared.iter().map(|topic| &topic.name).collect();
        for (name, topic) in &mut *self.topics.write() {
            topic.declared = declared.contains(name);
        }
        let declare = |topic| self.declare_now(topic, &mut created).err();
        let mut failed: Vec<_> = new.declared.iter().filter_map(declare).collect();
        // All of them: each follows the settings of the configuration that it has not set itself.
        let others =
            self.own_settings().into_iter().filter(|topic| !declared.contains(&topic.name));
        failed.extend(others.filter_map(|topic| self.alter_partitions(&topic.name, &topic).err()));
        Ok(failed)
    }

    /// Whether what is there can become what is declared.
    fn check_declared(&self, declared: &[TopicOptions]) -> Result<(), BrokerError> {
        let topics = self.topics.read();
        for TopicOptions { name, partitions, .. } in declared {
            let there = topics.get(name).map_or(0, super::topic::Topic::next_id);
            if let Some(wanted) = partitions.filter(|wanted| *wanted < there) {
                let topic = name.clone();
                return Err(BrokerError::FewerPartitions { topic, there, declared: wanted });
            }
        }
        Ok(())
    }

    /// Creates a topic as it is declared, or makes it so.
    fn declare_now(&self, topic: &TopicOptions, created: &mut Created) -> Result<(), TopicError> {
        let name = &topic.name;
        let missing = self.topics.read().get(name).map(super::topic::Topic::missing);
        if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
            // With an entry in the catalog, the next start would make them anew, empty.
            return Err(TopicError::Incomplete { topic: name.clone(), missing });
        }
        if let Some(before) = self.own_settings_of(name) {
            let partitions = topic.partitions.or(before.partitions);
            self.change(before, &TopicOptions { partitions, ..topic.clone() }, created)?;
        } else {
            self.add_topic(topic.clone(), created)
                .map_err(|error| TopicError::of_creation(name, created.partitions, error))?;
            tracing::info!(topic = %name, "topic created as declared");
        }
        if let Some(topic) = self.topics.write().get_mut(name) {
            topic.declared = true;
        }
        Ok(())
    }

    /// What is set for each topic but the broker's own.
    fn own_settings(&self) -> Vec<TopicOptions> {
        let topics = self.topics.read();
        let topics = topics.values().filter(|topic| !topic.options.name.is_reserved());
        topics.map(|topic| topic.options.clone()).collect()
    }

    fn own_settings_of(&self, name: &TopicName) -> Option<TopicOptions> {
        let topics = self.topics.read();
        let topic = topics.get(name)?;
        Some(TopicOptions { partitions: Some(topic.next_id()), ..topic.options.clone() })
    }
}

impl retention::Limits {
    fn set_total_mb(&self, mb: u32) {
        let bytes = retention::bytes(mb).unwrap_or(0);
        self.total_bytes.store(bytes, std::sync::atomic::Ordering::Relaxed);
    }
}
