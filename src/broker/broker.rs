//! The broker: every topic, and where every group stands.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::catalog::{self, partition_dir};
use super::error::{BrokerError, CloseError, CommitError, PartitionError};
use super::flusher::{FlushQueue, Flusher};
use super::offsets::{OffsetKey, OffsetTable};
use super::options::Options;
use super::partition::Partition;
use super::restore;
use crate::metrics::Metrics;
use crate::model::{Offset, PartitionId, TopicName, TopicPartition, limits};
use crate::storage::{
    self, Clock, Disk, Durability, Environment, Log, LogOptions, OnCorruption, OpenError,
};

/// Name of the topic that holds the committed offsets.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Files that a new partition keeps open: its log and its index.
const FILES_PER_PARTITION: u64 = 2;

type Partitions = BTreeMap<PartitionId, Arc<Partition>>;

/// Topics, partitions and consumer offsets in one data directory. Knows no sockets and no wire format.
///
/// Lock order: `create`, `topics`, an offset shard, then the locks of a log.
#[derive(Debug)]
pub struct Broker {
    options: Options,
    opener: Opener,
    topics: RwLock<HashMap<TopicName, Partitions>>,
    /// Held while a topic is created, so that `topics` is not locked during disk work.
    create: Mutex<Created>,
    table: OffsetTable,
    offsets_log: Arc<Partition>,
    flusher: Mutex<Option<Flusher>>,
}

/// Counts what was created.
#[derive(Debug, Default)]
struct Created {
    partitions: usize,
    /// The broker is closed: a topic created now would be flushed by nobody.
    closed: bool,
}

/// What a broker is built from.
#[derive(Debug)]
pub struct Parts {
    /// Section `topics` of the configuration.
    pub options: Options,
    /// Section `storage` of the configuration.
    pub storage: storage::Options,
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The instruments.
    pub metrics: Arc<Metrics>,
}

impl Broker {
    /// Opens every partition in the data directory, which must exist and be locked by the caller, and restores the
    /// committed offsets.
    pub fn open(parts: Parts) -> Result<Self, BrokerError> {
        let Parts { options, storage, disk, clock, metrics } = parts;
        let flush_queue = Arc::new(FlushQueue::default());
        let opener = Opener {
            data_dir: storage.data_dir.clone(),
            log_options: LogOptions {
                segment_bytes: u64::from(storage.max_segment_mb) * limits::MIB,
                durability: Durability::Interval,
                on_corruption: OnCorruption::Disconnect,
            },
            env: Environment { disk, clock, metrics },
            flush_queue: Arc::clone(&flush_queue),
        };
        let (mut topics, mut created) = opener.existing()?;
        let offsets_log = opener.offsets_topic(&mut topics, &mut created)?;
        let table = OffsetTable::new();
        restore::restore(&offsets_log, &table, &opener.env.metrics)?;
        let end = |name: &TopicPartition| {
            Some(topics.get(&name.topic)?.get(&name.partition)?.end_offset())
        };
        let now_ns = opener.env.clock.now_ns();
        restore::clamp(&offsets_log, &table, &opener.env.metrics, now_ns, end);
        let interval = Duration::from_millis(u64::from(storage.flush_interval_ms));
        let flusher =
            Flusher::start(Arc::clone(&flush_queue), interval).map_err(BrokerError::Thread)?;
        Ok(Self {
            options,
            opener,
            topics: RwLock::new(topics),
            create: Mutex::new(created),
            table,
            offsets_log,
            flusher: Mutex::new(Some(flusher)),
        })
    }

    /// The instruments.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.opener.env.metrics
    }

    /// Number of topics, without the broker's own.
    pub fn topic_count(&self) -> usize {
        self.topics.read().keys().filter(|topic| !topic.is_reserved()).count()
    }

    /// Number of committed offsets, all groups together.
    pub fn committed_count(&self) -> usize {
        self.table.len()
    }

    /// The partition, if its topic exists; `None` if the topic does not. Never touches the disk.
    pub fn existing(
        &self,
        topic: &TopicName,
        partition: PartitionId,
    ) -> Option<Result<Arc<Partition>, PartitionError>> {
        let topics = self.topics.read();
        let partitions = topics.get(topic)?;
        let found = partitions.get(&partition).map(Arc::clone);
        Some(
            found.ok_or_else(|| PartitionError::UnknownPartition {
                topic: topic.clone(),
                partition,
            }),
        )
    }

    /// The partition; its topic is created if it does not exist and that is allowed. May wait for the disk.
    pub fn partition(
        &self,
        topic: &TopicName,
        partition: PartitionId,
    ) -> Result<Arc<Partition>, PartitionError> {
        if let Some(found) = self.existing(topic, partition) {
            return found;
        }
        let mut created = self.create.lock();
        if self.existing(topic, partition).is_none() {
            self.create_topic(topic, partition, &mut created)?;
        }
        drop(created);
        self.existing(topic, partition)
            .unwrap_or_else(|| Err(PartitionError::UnknownTopic(topic.clone())))
    }

    fn create_topic(
        &self,
        topic: &TopicName,
        wanted: PartitionId,
        created: &mut Created,
    ) -> Result<(), PartitionError> {
        if topic.is_reserved() {
            return Err(PartitionError::Reserved(topic.clone()));
        }
        if !self.options.auto_create {
            return Err(PartitionError::UnknownTopic(topic.clone()));
        }
        let partitions = self.options.default_partitions;
        if wanted >= partitions {
            return Err(PartitionError::UnknownPartition {
                topic: topic.clone(),
                partition: wanted,
            });
        }
        if created.closed {
            let (path, source) =
                (self.opener.data_dir.clone(), io::Error::other("the broker is closed"));
            return Err(OpenError { path, source }.into());
        }
        let max = self.options.max_partitions;
        if created.partitions + partitions as usize > max as usize {
            return Err(PartitionError::LimitReached { partitions, max });
        }
        let opener = &self.opener;
        // Before anything is on the disk: what is there is opened at the next start, which must not run out.
        self.opener
            .env
            .disk
            .has_room_for(FILES_PER_PARTITION * u64::from(partitions))
            .map_err(|source| OpenError { path: self.opener.data_dir.clone(), source })?;
        let opened = opener.create(topic, 0..partitions, created)?;
        self.topics.write().insert(topic.clone(), opened);
        tracing::info!(%topic, partitions, "topic created on demand");
        Ok(())
    }

    /// Where the group resumes in the partition; `None` if it never committed.
    pub fn committed(&self, key: &OffsetKey) -> Option<Offset> {
        self.table.get(key)
    }

    /// Commits where the group resumes. An offset beyond the log end is clamped to it: there is nothing to resume at
    /// behind it. `Offset::MAX` means the log end. Returns the offset committed.
    pub fn commit(
        &self,
        key: OffsetKey,
        partition: &Partition,
        offset: Offset,
    ) -> Result<Offset, CommitError> {
        let mut end = partition.end_offset();
        if offset > end {
            // A reader may have got records that are stored and not counted yet.
            end = partition.settled_end_offset();
        }
        if offset > end && offset != Offset::MAX {
            self.opener.env.metrics.commits_clamped.inc();
            tracing::warn!(
                group = %key.group, partition = %key.partition, offset, end,
                "commit beyond the log end, clamped to it"
            );
        }
        let offset = offset.min(end);
        self.table.store(&self.offsets_log, key, offset, self.opener.env.clock.now_ns())?;
        self.opener.env.metrics.commits.inc();
        Ok(offset)
    }

    /// Stops the flusher and flushes every partition. Nothing can be appended afterwards.
    pub fn close(&self) -> Result<(), CloseError> {
        self.create.lock().closed = true;
        self.flusher.lock().take();
        let partitions: Vec<_> =
            self.topics.read().values().flat_map(BTreeMap::values).map(Arc::clone).collect();
        let mut errors = partitions.iter().filter_map(|partition| partition.close().err());
        match errors.next() {
            None => Ok(()),
            Some(first) => Err(CloseError { failed: 1 + errors.count(), first }),
        }
    }
}

/// Opens partitions.
#[derive(Debug)]
struct Opener {
    data_dir: PathBuf,
    log_options: LogOptions,
    env: Environment,
    flush_queue: Arc<FlushQueue>,
}

impl Opener {
    fn existing(&self) -> Result<(HashMap<TopicName, Partitions>, Created), BrokerError> {
        let found = catalog::discover(&*self.env.disk, &self.data_dir)
            .map_err(|source| BrokerError::DataDir { path: self.data_dir.clone(), source })?;
        for name in &found.strangers {
            tracing::info!(dir = name, "not a partition, left alone");
        }
        let mut topics = HashMap::new();
        let mut created = Created::default();
        for (topic, ids) in found.topics {
            let gap = ids.iter().enumerate().any(|(number, &id)| number != id as usize);
            if gap {
                tracing::warn!(%topic, partitions = ?ids, "partitions are missing; those there are served");
            }
            let partitions = self.open(&topic, ids.into_iter(), &mut created)?;
            topics.insert(topic, partitions);
        }
        Ok((topics, created))
    }

    fn offsets_topic(
        &self,
        topics: &mut HashMap<TopicName, Partitions>,
        created: &mut Created,
    ) -> Result<Arc<Partition>, BrokerError> {
        let missing = || BrokerError::DataDir {
            path: self.data_dir.join(OFFSETS_TOPIC),
            source: io::ErrorKind::NotFound.into(),
        };
        let topic = TopicName::parse(OFFSETS_TOPIC).map_err(|_| missing())?;
        if topics.get(&topic).is_none_or(|partitions| !partitions.contains_key(&0)) {
            let opened = self.create(&topic, 0..1, created)?;
            topics.entry(topic.clone()).or_default().extend(opened);
        }
        topics
            .get(&topic)
            .and_then(|partitions| partitions.get(&0))
            .map(Arc::clone)
            .ok_or_else(missing)
    }

    fn create(
        &self,
        topic: &TopicName,
        ids: std::ops::Range<PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        let failed = |path: &PathBuf, source| OpenError { path: path.clone(), source };
        for partition in ids.clone() {
            let name = TopicPartition { topic: topic.clone(), partition };
            let dir = partition_dir(&self.data_dir, &name);
            self.env.disk.create_dir(&dir).map_err(|source| failed(&dir, source))?;
        }
        self.env.disk.sync_dir(&self.data_dir).map_err(|source| failed(&self.data_dir, source))?;
        self.open(topic, ids, created)
    }

    fn open(
        &self,
        topic: &TopicName,
        ids: impl Iterator<Item = PartitionId>,
        created: &mut Created,
    ) -> Result<Partitions, OpenError> {
        let mut logs = Vec::new();
        for partition in ids {
            let name = TopicPartition { topic: topic.clone(), partition };
            let dir = partition_dir(&self.data_dir, &name);
            let log = Log::open(self.env.clone(), &dir, self.log_options)?;
            logs.push((name, log));
        }
        // Counted, and queued for the flusher, only once all of them are open.
        let opened = logs.into_iter().map(|(name, log)| {
            let ordinal = created.partitions;
            created.partitions += 1;
            let queue = Arc::clone(&self.flush_queue);
            let metrics = Arc::clone(&self.env.metrics);
            (name.partition, Partition::new(name, ordinal, log, queue, metrics))
        });
        Ok(opened.collect())
    }
}
