//! Opening and creating partitions, each as its topic is to be kept.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::{self, Found, partition_dir};
use super::catalog_file::CatalogFile;
use super::error::{BrokerError, PartitionError};
use super::options::{Options, TopicOptions};
use super::partition::{Partition, Shared};
use super::retention::{age_ns, bytes};
use crate::model::limits::{MIB, OFFSETS_SEGMENT_MB_MAX};
use crate::model::{PartitionId, TopicName, TopicPartition};
use crate::storage::{Cleanup, Durability, Environment, Log, LogOptions, OpenError, Retention};

/// Name of the topic that holds the committed offsets.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Files that a new partition keeps open: its log and its index.
const FILES_PER_PARTITION: u64 = 2;

pub(super) type Partitions = BTreeMap<PartitionId, Arc<Partition>>;

pub(super) type Topics = HashMap<TopicName, Partitions>;

/// Knows what was opened and created.
#[derive(Debug, Default)]
pub(super) struct Created {
    pub(super) partitions: usize,
    /// The broker is closed: a topic created now would be flushed by nobody.
    pub(super) closed: bool,
    /// What is written down of the topics.
    file: CatalogFile,
}

/// Opens partitions.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) data_dir: PathBuf,
    /// How a log is kept unless its topic says otherwise.
    pub(super) log_options: LogOptions,
    pub(super) env: Environment,
    pub(super) shared: Arc<Shared>,
}

impl Opener {
    /// Opens every partition there is, and creates what is declared and missing. `declared` is checked first: a wrong
    /// one stops the start before anything is touched.
    pub(super) fn open_all(
        &self,
        declared: &[TopicOptions],
        options: &Options,
    ) -> Result<(Topics, Created), BrokerError> {
        let mut found = catalog::discover(&*self.env.disk, &self.data_dir)
            .map_err(|source| BrokerError::DataDir { path: self.data_dir.clone(), source })?;
        let file = CatalogFile::load(&*self.env.disk, &self.data_dir)?;
        for topic in declared {
            check(topic, &found, &file)?;
        }
        for name in &found.strangers {
            tracing::info!(dir = name, "not a partition, left alone");
        }
        for topic in file.topics() {
            found.topics.entry(topic.name.clone()).or_default();
        }
        let mut topics = HashMap::new();
        let mut created = Created { file, ..Created::default() };
        for (name, mut ids) in found.topics {
            let entry = created.file.get(&name).cloned();
            self.make_missing(&name, entry.as_ref(), &mut ids)?;
            let declared = declared.iter().find(|topic| topic.name == name);
            let settings = declared.or(entry.as_ref());
            let log_options = self.log_options_of(&name, settings);
            let next = ids.last().map_or(0, |last| last + 1);
            if ids.len() < next as usize {
                tracing::warn!(topic = %name, partitions = ?ids, "partitions are missing; those there are served");
            } else if !name.is_reserved() {
                let named = || TopicOptions::named(name.clone());
                let settings = settings.cloned().unwrap_or_else(named);
                created.file.note(TopicOptions { partitions: Some(next), ..settings });
            }
            let partitions = self.open(&name, ids.into_iter(), log_options, &mut created)?;
            topics.insert(name, partitions);
        }
        if let Err(error) = created.file.save(&*self.env.disk) {
            tracing::warn!(%error, "the catalog is not written; the directories say which topics there are");
        }
        for topic in declared {
            self.declare(topic, options, &mut topics, &mut created)?;
        }
        Ok((topics, created))
    }

    /// Makes the directories of partitions that are written down and not there: the broker ended before it had made them,
    /// or somebody has taken them away.
    fn make_missing(
        &self,
        name: &TopicName,
        entry: Option<&TopicOptions>,
        ids: &mut Vec<PartitionId>,
    ) -> Result<(), OpenError> {
        let until = entry.and_then(|entry| entry.partitions).unwrap_or(0);
        let missing: Vec<_> = (0..until).filter(|id| ids.binary_search(id).is_err()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            topic = %name, partitions = ?missing,
            "directories of partitions that are in the catalog are missing; they are made anew, empty"
        );
        self.make_dirs(name, missing.iter().copied())?;
        ids.extend(missing);
        ids.sort_unstable();
        Ok(())
    }

    /// Creates the partitions that a declared topic lacks.
    fn declare(
        &self,
        topic: &TopicOptions,
        options: &Options,
        topics: &mut Topics,
        created: &mut Created,
    ) -> Result<(), BrokerError> {
        let there = topics.get(&topic.name).and_then(BTreeMap::last_key_value);
        // Those that are missing in between are left so: their records are somewhere else, perhaps.
        let from = there.map_or(0, |(&last, _)| last + 1);
        let default = if from == 0 { options.default_partitions } else { from };
        let until = topic.partitions.unwrap_or(default);
        if from < until {
            let entry = TopicOptions { partitions: Some(until), ..topic.clone() };
            let opened =
                self.create_within(options.max_partitions, &entry, from..until, created).map_err(
                    |source| BrokerError::Declared { topic: topic.name.clone(), source },
                )?;
            topics.entry(topic.name.clone()).or_default().extend(opened);
            tracing::info!(topic = %topic.name, partitions = until, added = until - from, "topic created as declared");
        }
        Ok(())
    }

    fn log_options_of(&self, name: &TopicName, topic: Option<&TopicOptions>) -> LogOptions {
        let declared = topic.and_then(|topic| topic.durability);
        let durability = if name.is_reserved() {
            // Losing the last commits in a power cut repeats records, which at-least-once allows; waiting for the disk at
            // each commit would slow down everybody.
            Durability::Interval
        } else {
            declared.unwrap_or(self.log_options.durability)
        };
        let cleanup = if name.is_reserved() {
            Cleanup::Compact
        } else {
            topic.and_then(|topic| topic.cleanup).unwrap_or(self.log_options.cleanup)
        };
        let retention = if cleanup.deletes() {
            let default = self.log_options.retention;
            let hours = topic.and_then(|topic| topic.retention_hours);
            let mb = topic.and_then(|topic| topic.retention_mb);
            Retention {
                age_ns: hours.map_or(default.age_ns, age_ns),
                bytes: mb.map_or(default.bytes, bytes),
            }
        } else {
            // The newest frame of each key counts, whatever its age.
            Retention::default()
        };
        let most = if name.is_reserved() { OFFSETS_SEGMENT_MB_MAX * MIB } else { u64::MAX };
        let segment_bytes = self.log_options.segment_bytes.min(most);
        LogOptions { segment_bytes, durability, retention, cleanup, ..self.log_options }
    }

    /// The topic of the committed offsets, created if it is missing.
    pub(super) fn offsets_topic(
        &self,
        topics: &mut Topics,
        created: &mut Created,
    ) -> Result<Arc<Partition>, BrokerError> {
        let missing = || BrokerError::DataDir {
            path: self.data_dir.join(OFFSETS_TOPIC),
            source: io::ErrorKind::NotFound.into(),
        };
        let topic = TopicName::parse(OFFSETS_TOPIC).map_err(|_| missing())?;
        if topics.get(&topic).is_none_or(|partitions| !partitions.contains_key(&0)) {
            let opened = self.create(&topic, 0..1, self.log_options_of(&topic, None), created)?;
            topics.entry(topic.clone()).or_default().extend(opened);
        }
        topics
            .get(&topic)
            .and_then(|partitions| partitions.get(&0))
            .map(Arc::clone)
            .ok_or_else(missing)
    }

    /// Creates a topic that a client has named, unless the broker would hold more than `max` partitions then.
    pub(super) fn create_on_demand(
        &self,
        topic: &TopicName,
        partitions: u32,
        max: u32,
        created: &mut Created,
    ) -> Result<Partitions, PartitionError> {
        let entry =
            TopicOptions { partitions: Some(partitions), ..TopicOptions::named(topic.clone()) };
        self.create_within(max, &entry, 0..partitions, created)
    }

    fn create_within(
        &self,
        max: u32,
        topic: &TopicOptions,
        ids: Range<PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, PartitionError> {
        let partitions = ids.end - ids.start;
        if created.partitions + partitions as usize > max as usize {
            return Err(PartitionError::LimitReached { partitions, max });
        }
        // Before anything is on the disk: what is there is opened at the next start, which must not run out.
        self.env
            .disk
            .has_room_for(FILES_PER_PARTITION * u64::from(partitions))
            .map_err(|source| OpenError { path: self.data_dir.clone(), source })?;
        if ids.start == 0 || created.file.get(&topic.name).is_some() {
            // Before the directories: what is missing of them is made at the next start. A topic with gaps stays without
            // an entry, and its gaps are left alone.
            created.file.note(topic.clone());
            created.file.save(&*self.env.disk)?;
        }
        let log_options = self.log_options_of(&topic.name, Some(topic));
        Ok(self.create(&topic.name, ids, log_options, created)?)
    }

    fn create(
        &self,
        topic: &TopicName,
        ids: Range<PartitionId>,
        log_options: LogOptions,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        self.make_dirs(topic, ids.clone())?;
        self.open(topic, ids, log_options, created)
    }

    fn make_dirs(
        &self,
        topic: &TopicName,
        ids: impl Iterator<Item = PartitionId>,
    ) -> Result<(), OpenError> {
        let failed = |path: &Path, source| OpenError { path: path.to_owned(), source };
        for partition in ids {
            let name = TopicPartition { topic: topic.clone(), partition };
            let dir = partition_dir(&self.data_dir, &name);
            self.env.disk.create_dir(&dir).map_err(|source| failed(&dir, source))?;
        }
        self.env.disk.sync_dir(&self.data_dir).map_err(|source| failed(&self.data_dir, source))
    }

    fn open(
        &self,
        topic: &TopicName,
        ids: impl Iterator<Item = PartitionId>,
        log_options: LogOptions,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        let mut logs = Vec::new();
        for partition in ids {
            let name = TopicPartition { topic: topic.clone(), partition };
            let dir = partition_dir(&self.data_dir, &name);
            let log = Log::open(self.env.clone(), &dir, log_options)?;
            logs.push((name, log));
        }
        // Counted, and queued for the flusher, only once all of them are open.
        let opened = logs.into_iter().map(|(name, log)| {
            let ordinal = created.partitions;
            created.partitions += 1;
            (name.partition, Partition::new(name, ordinal, log, Arc::clone(&self.shared)))
        });
        Ok(opened.collect())
    }
}

/// Whether what is there can become what is declared.
fn check(topic: &TopicOptions, found: &Found, file: &CatalogFile) -> Result<(), BrokerError> {
    let last = found.topics.get(&topic.name).and_then(|ids| ids.last());
    let noted = file.get(&topic.name).and_then(|entry| entry.partitions);
    let there = last.map_or(0, |last| last + 1).max(noted.unwrap_or(0));
    match topic.partitions {
        Some(declared) if declared < there => {
            Err(BrokerError::FewerPartitions { topic: topic.name.clone(), there, declared })
        }
        _ => Ok(()),
    }
}
