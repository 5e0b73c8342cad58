//! Opening and creating partitions, each as its topic is to be kept.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::catalog::{self, Found, deleted_dir_name, parse_deleted_dir_name, partition_dir};
use super::catalog_file::CatalogFile;
use super::error::{BrokerError, PartitionError};
use super::options::{Options, TopicOptions};
use super::partition::{Partition, Shared};
use super::progress::OpenProgress;
use super::retention::{age_ns, bytes};
use super::topic::{Partitions, Topic, Topics};
use super::topic_description::EffectiveSettings;
use crate::model::limits::{MIB, OFFSETS_SEGMENT_MB_MAX};
use crate::model::{PartitionId, TopicName, TopicPartition};
use crate::storage::{
    self, Cleanup, Durability, Environment, Log, LogOptions, OpenError, Retention, Timestamps,
};

/// Name of the topic that holds the committed offsets.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Files that a new partition keeps open: its log, its index, and its checksums twice, being mapped.
const FILES_PER_PARTITION: u64 = 4;

/// Knows what was opened and created.
#[derive(Debug, Default)]
pub(super) struct Created {
    /// Partitions that are open, the broker's own included.
    pub(super) partitions: usize,
    /// Topics, without the broker's own.
    pub(super) topics: usize,
    /// The next partition's number among all there ever were.
    ordinal: usize,
    /// The broker is closed: a topic created now would be flushed by nobody.
    pub(super) closed: bool,
    /// What is written down of the topics.
    pub(super) file: CatalogFile,
}

/// How a topic is kept that says nothing about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    log_options: LogOptions,
    /// The same, as the configuration says it.
    defaults: EffectiveSettings,
}

impl Kept {
    pub(super) fn of(storage: &storage::Options, max_payload_mb: u32) -> Self {
        Self {
            log_options: LogOptions {
                segment_bytes: u64::from(storage.max_segment_mb) * MIB,
                durability: storage.durability,
                on_corruption: storage.on_corruption,
                retention: Retention {
                    age_ns: age_ns(storage.retention_hours),
                    bytes: bytes(storage.retention_mb),
                },
                timestamps: Timestamps::default(),
                cleanup: Cleanup::Delete,
            },
            defaults: EffectiveSettings {
                durability: storage.durability,
                retention_hours: storage.retention_hours,
                retention_mb: storage.retention_mb,
                max_segment_mb: storage.max_segment_mb,
                max_payload_mb,
                timestamp: Timestamps::default(),
                cleanup: Cleanup::Delete,
            },
        }
    }
}

/// Opens partitions.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) data_dir: PathBuf,
    pub(super) kept: RwLock<Kept>,
    pub(super) progress: Arc<OpenProgress>,
    pub(super) env: Environment,
    pub(super) shared: Arc<Shared>,
}

impl Opener {
    /// Opens every partition there is, but for what is left of deleted topics. `declared` is checked first: a wrong one stops the
    /// start before anything is touched.
    pub(super) fn open_all(
        &self,
        declared: &[TopicOptions],
    ) -> Result<(Topics, Created), BrokerError> {
        let mut found = catalog::discover(&*self.env.disk, &self.data_dir)
            .map_err(|source| BrokerError::DataDir { path: self.data_dir.clone(), source })?;
        let file = CatalogFile::load(&*self.env.disk, &self.data_dir)?;
        found.topics.retain(|name, _| !file.deleted().contains(name));
        for topic in declared {
            check(topic, &found, &file)?;
        }
        for name in &found.strangers {
            tracing::info!(dir = name, "not a partition, left alone");
        }
        for topic in file.topics() {
            found.topics.entry(topic.name.clone()).or_default();
        }
        self.progress.expect(found.topics.values().map(Vec::len).sum());
        let mut topics = HashMap::new();
        let mut created = Created { file, ..Created::default() };
        for (name, mut ids) in found.topics {
            let entry = created.file.get(&name).cloned();
            let complete = self.make_missing(&name, entry.as_ref(), &mut ids)?;
            if !complete && ids.is_empty() {
                // Made by whoever asks for it, once there is space.
                continue;
            }
            let declared = declared.iter().find(|topic| topic.name == name);
            let settings = declared.or(entry.as_ref());
            let named = || TopicOptions::named(name.clone());
            let settings = settings.cloned().unwrap_or_else(named);
            let next = ids.last().map_or(0, |last| last + 1);
            if ids.len() < next as usize {
                tracing::warn!(topic = %name, partitions = ?ids, "partitions are missing; those there are served");
            } else if complete && !name.is_reserved() {
                created.file.note(TopicOptions { partitions: Some(next), ..settings.clone() });
            }
            let partitions = self.open(&settings, ids.into_iter(), &mut created)?;
            created.topics += usize::from(!name.is_reserved());
            let options = TopicOptions { partitions: Some(next), ..settings };
            topics.insert(name, Topic { options, declared: declared.is_some(), partitions });
        }
        if let Err(error) = created.file.save(&*self.env.disk) {
            tracing::warn!(%error, "the catalog is not written; the directories say which topics there are");
        }
        Ok((topics, created))
    }

    /// Makes the directories of partitions that are written down and not there: the broker ended before it had made them,
    /// or somebody has taken them away. `false` if there is no space for all of them: a full disk is no reason not to start.
    fn make_missing(
        &self,
        name: &TopicName,
        entry: Option<&TopicOptions>,
        ids: &mut Vec<PartitionId>,
    ) -> Result<bool, OpenError> {
        let until = entry.and_then(|entry| entry.partitions).unwrap_or(0);
        let missing: Vec<_> = (0..until).filter(|id| ids.binary_search(id).is_err()).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        tracing::warn!(
            topic = %name, partitions = ?missing,
            "directories of partitions that are in the catalog are missing; they are made anew, empty"
        );
        let mut complete = true;
        for id in missing {
            match self.make_dirs(name, std::iter::once(id)) {
                Err(error) if storage::is_full(&error.source) => {
                    tracing::error!(%error, "no space for a partition; it is not there until there is some");
                    complete = false;
                    break;
                }
                made => made?,
            }
            ids.push(id);
        }
        ids.sort_unstable();
        Ok(complete)
    }

    /// Creates the partitions that a declared topic lacks.
    pub(super) fn declare(
        &self,
        topic: &TopicOptions,
        options: &Options,
        topics: &mut Topics,
        created: &mut Created,
    ) -> Result<(), BrokerError> {
        // Those that are missing in between are left so: their records are somewhere else, perhaps.
        let from = topics.get(&topic.name).map_or(0, Topic::next_id);
        let default = if from == 0 { options.default_partitions } else { from };
        let until = topic.partitions.unwrap_or(default);
        if from < until {
            let entry = TopicOptions { partitions: Some(until), ..topic.clone() };
            let opened = self
                .create_within(options, &entry, from..until, created)
                .map_err(|source| BrokerError::Declared { topic: topic.name.clone(), source })?;
            let new = Topic { options: entry, declared: true, partitions: Partitions::new() };
            let topic_now = topics.entry(topic.name.clone()).or_insert(new);
            topic_now.options.partitions = Some(until);
            topic_now.partitions.extend(opened);
            tracing::info!(topic = %topic.name, partitions = until, added = until - from, "topic created as declared");
        }
        Ok(())
    }

    /// How the logs of a topic are kept.
    pub(super) fn log_options_of(&self, topic: &TopicOptions) -> LogOptions {
        let Kept { log_options: kept, .. } = *self.kept.read();
        let durability = if topic.name.is_reserved() {
            // Losing the last commits in a power cut repeats records, which at-least-once allows; waiting for the disk at
            // each commit would slow down everybody.
            Durability::Interval
        } else {
            topic.durability.unwrap_or(kept.durability)
        };
        let cleanup = if topic.name.is_reserved() {
            Cleanup::Compact
        } else {
            topic.cleanup.unwrap_or(kept.cleanup)
        };
        let retention = if cleanup.deletes() {
            let default = kept.retention;
            Retention {
                age_ns: topic.retention_hours.map_or(default.age_ns, age_ns),
                bytes: topic.retention_mb.map_or(default.bytes, bytes),
            }
        } else {
            // The newest frame of each key counts, whatever its age.
            Retention::default()
        };
        let most = if topic.name.is_reserved() { OFFSETS_SEGMENT_MB_MAX * MIB } else { u64::MAX };
        let segment_mb = topic.max_segment_mb.map(|mb| u64::from(mb) * MIB);
        let segment_bytes = segment_mb.unwrap_or(kept.segment_bytes).min(most);
        let timestamps = topic.timestamp.unwrap_or_default();
        LogOptions { segment_bytes, durability, retention, timestamps, cleanup, ..kept }
    }

    /// Largest payload of a frame, in bytes.
    pub(super) fn max_payload_bytes_of(&self, topic: &TopicOptions) -> u32 {
        let mb = topic.max_payload_mb.unwrap_or_else(|| self.kept.read().defaults.max_payload_mb);
        u32::try_from(u64::from(mb) * MIB).unwrap_or(u32::MAX)
    }

    /// How a topic is kept, in the words of the configuration.
    pub(super) fn effective(&self, topic: &TopicOptions) -> EffectiveSettings {
        let Kept { defaults: default, .. } = *self.kept.read();
        let reserved = topic.name.is_reserved();
        let kept = |set: Option<u32>, default| if reserved { 0 } else { set.unwrap_or(default) };
        EffectiveSettings {
            durability: self.log_options_of(topic).durability,
            retention_hours: kept(topic.retention_hours, default.retention_hours),
            retention_mb: kept(topic.retention_mb, default.retention_mb),
            max_segment_mb: topic.max_segment_mb.unwrap_or(default.max_segment_mb),
            max_payload_mb: topic.max_payload_mb.unwrap_or(default.max_payload_mb),
            timestamp: topic.timestamp.unwrap_or_default(),
            cleanup: self.log_options_of(topic).cleanup,
        }
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
        if topics.get(&topic).is_none_or(|found| !found.partitions.contains_key(&0)) {
            let options = TopicOptions::named(topic.clone());
            let opened = self.create(&options, 0..1, created)?;
            let new = Topic { options, declared: false, partitions: Partitions::new() };
            topics.entry(topic.clone()).or_insert(new).partitions.extend(opened);
        }
        topics
            .get(&topic)
            .and_then(|found| found.partitions.get(&0))
            .map(Arc::clone)
            .ok_or_else(missing)
    }

    /// Creates a topic that does not exist, with the partitions that its entry names.
    pub(super) fn create_topic(
        &self,
        options: &Options,
        entry: TopicOptions,
        created: &mut Created,
    ) -> Result<Topic, PartitionError> {
        let ids = 0..entry.partitions.unwrap_or(options.default_partitions);
        let partitions = self.create_within(options, &entry, ids, created)?;
        Ok(Topic { options: entry, declared: false, partitions })
    }

    fn create_within(
        &self,
        options: &Options,
        entry: &TopicOptions,
        ids: Range<PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, PartitionError> {
        self.check_room(options, &entry.name, &ids, created)?;
        if ids.start == 0 || created.file.get(&entry.name).is_some() {
            // Before the directories: what is missing of them is made at the next start. A topic with gaps stays without
            // an entry, and its gaps are left alone.
            created.file.note(entry.clone());
            created.file.save(&*self.env.disk)?;
        }
        let new = ids.start == 0;
        let partitions = self.create(entry, ids, created)?;
        created.topics += usize::from(new);
        Ok(partitions)
    }

    /// Whether these partitions may be created, as far as can be known before anything is on the disk.
    pub(super) fn check_room(
        &self,
        options: &Options,
        topic: &TopicName,
        ids: &Range<PartitionId>,
        created: &Created,
    ) -> Result<(), PartitionError> {
        if created.file.deleted().contains(topic) {
            let why = "the broker tries again".to_owned();
            return Err(PartitionError::Unfinished { topic: topic.clone(), why });
        }
        let (there, max) = (created.topics, options.max_topics);
        if ids.start == 0 && there >= max as usize {
            return Err(PartitionError::TooManyTopics { there, max });
        }
        let (partitions, max) = (ids.end - ids.start, options.max_partitions);
        if created.partitions + partitions as usize > max as usize {
            return Err(PartitionError::LimitReached { partitions, max });
        }
        // What is there is opened at the next start, which must not run out.
        self.env
            .disk
            .has_room_for(FILES_PER_PARTITION * u64::from(partitions))
            .map_err(|source| OpenError { path: self.data_dir.clone(), source })?;
        Ok(())
    }

    pub(super) fn create(
        &self,
        topic: &TopicOptions,
        ids: Range<PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        self.make_dirs(&topic.name, ids.clone())?;
        self.open(topic, ids, created)
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
        topic: &TopicOptions,
        ids: impl Iterator<Item = PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        let log_options = self.log_options_of(topic);
        let max_payload_bytes = self.max_payload_bytes_of(topic);
        let mut logs = Vec::new();
        for partition in ids {
            let name = TopicPartition { topic: topic.name.clone(), partition };
            let dir = partition_dir(&self.data_dir, &name);
            if self.progress.ends() {
                return Err(OpenError { path: dir, source: io::ErrorKind::Interrupted.into() });
            }
            let span = tracing::debug_span!("open_partition", partition = %name);
            let log = span.in_scope(|| Log::open(self.env.clone(), &dir, log_options))?;
            self.progress.add();
            logs.push((name, log));
        }
        // Counted, and queued for the flusher, only once all of them are open.
        let opened = logs.into_iter().map(|(name, log)| {
            let ordinal = created.ordinal;
            created.ordinal += 1;
            created.partitions += 1;
            let shared = Arc::clone(&self.shared);
            (name.partition, Partition::new(name, ordinal, log, max_payload_bytes, shared))
        });
        Ok(opened.collect())
    }

    /// Gives the directories of a deleted topic names under which nobody looks for a topic, durably. Those that have them
    /// already stay so.
    pub(super) fn put_aside(&self, topic: &TopicName) -> Result<(), OpenError> {
        let (disk, data_dir) = (&*self.env.disk, &self.data_dir);
        let failed = |path: &Path, source| OpenError { path: path.to_owned(), source };
        let entries = disk.list(data_dir).map_err(|source| failed(data_dir, source))?;
        let numbers = entries.iter().filter_map(|entry| parse_deleted_dir_name(&entry.name));
        let number = numbers.max().map_or(0, |last| last.saturating_add(1));
        let dirs = entries.iter().filter(|entry| entry.is_dir);
        for name in dirs.filter_map(|entry| catalog::parse_dir_name(&entry.name)) {
            if name.topic == *topic {
                let dir = partition_dir(data_dir, &name);
                let aside = data_dir.join(deleted_dir_name(&name, number));
                disk.rename(&dir, &aside).map_err(|source| failed(&dir, source))?;
            }
        }
        disk.sync_dir(data_dir).map_err(|source| failed(data_dir, source))
    }

    /// Removes the directories of deleted topics, until `stop` says so; says how many. Those that cannot be removed are logged.
    pub(super) fn remove_deleted(&self, stop: &dyn Fn() -> bool) -> Result<usize, OpenError> {
        let (disk, data_dir) = (&*self.env.disk, &self.data_dir);
        let failed = |source| OpenError { path: data_dir.clone(), source };
        let found = catalog::discover(disk, data_dir).map_err(failed)?;
        let mut removed = 0;
        for name in found.deleted.iter().take_while(|_| !stop()) {
            let dir = data_dir.join(name);
            match disk.remove_dir(&dir) {
                Ok(()) => removed += 1,
                Err(error) => tracing::warn!(
                    dir = %dir.display(), %error,
                    "the directory of a deleted topic cannot be removed; it will be later"
                ),
            }
        }
        Ok(removed)
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
