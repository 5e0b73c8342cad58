//! The broker: every topic, and where every group stands.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::compaction::Compaction;
use super::connected::Connected;
use super::deletion::Watcher;
use super::error::{BrokerError, CloseError, CommitError, PartitionError, ScrubStopped};
use super::flusher::Flusher;
use super::health::{Health, Problem};
use super::offsets::{Committed, OffsetKey, OffsetTable};
use super::opener::{Created, Kept, Opener};
use super::options::{OffsetsOptions, Options, TopicOptions};
use super::partition::{Partition, Shared};
use super::progress::OpenProgress;
use super::restore;
use super::retention::{self, Limits};
use super::space::Space;
use super::topic::{Topics, all_partitions};
use crate::metrics::{Metrics, Throttle};
use crate::model::{Offset, PartitionId, TopicName, TopicPartition};
use crate::storage::{
    self, Clock, CompactionOptions, Disk, Environment, GradualClock, OpenError, Scrubbed,
};

/// Topics, partitions and consumer offsets in one data directory. Knows no sockets and no wire format.
///
/// Lock order: `create`, `topics`, an offset shard, then the locks of a log.
#[derive(Debug)]
pub struct Broker {
    pub(super) options: RwLock<Options>,
    pub(super) opener: Opener,
    pub(super) topics: RwLock<Topics>,
    /// Held while topics are created, altered or deleted, so that `topics` is not locked during disk work.
    pub(super) create: Mutex<Created>,
    pub(super) table: Arc<OffsetTable>,
    pub(super) connected: Arc<Connected>,
    pub(super) offsets_log: Arc<Partition>,
    /// See [`OffsetsOptions::retention_hours`].
    offsets_retention_hours: AtomicU32,
    /// When it was opened, in its own time.
    pub(super) opened_ns: u64,
    flusher: Mutex<Option<Flusher>>,
    pub(super) watchers: Mutex<Vec<Watcher>>,
    pub(super) compaction: Compaction,
    pub(super) retention: Limits,
    /// What is said of groups' offsets.
    pub(crate) warnings: Throttle,
}

/// What a broker is built from.
#[derive(Debug)]
pub struct Parts {
    /// Section `topics` of the configuration.
    pub options: Options,
    /// Section `offsets` of the configuration.
    pub offsets: OffsetsOptions,
    /// Largest payload of a frame, in MiB, unless its topic says otherwise.
    pub max_payload_mb: u32,
    /// The topics that the configuration declares, each once.
    pub declared: Vec<TopicOptions>,
    /// Section `storage` of the configuration.
    pub storage: storage::Options,
    /// Section `compaction` of the configuration.
    pub compaction: CompactionOptions,
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The instruments.
    pub metrics: Arc<Metrics>,
    /// Where it is told how far it is.
    pub progress: Arc<OpenProgress>,
}

impl Broker {
    /// Opens every partition in the data directory, which must exist and be locked by the caller, creates the declared
    /// topics, and restores the committed offsets.
    pub fn open(parts: Parts) -> Result<Self, BrokerError> {
        let Parts {
            options,
            offsets,
            max_payload_mb,
            declared,
            storage,
            compaction,
            disk,
            clock,
            metrics,
            progress,
        } = parts;
        let shared = Arc::new(Shared {
            flush_queue: Arc::default(),
            flush_interval: Duration::from_millis(u64::from(storage.flush_interval_ms)),
            space: Space::new(storage.min_free_mb),
            metrics: Arc::clone(&metrics),
        });
        let time_file = retention::time_file(&storage.data_dir);
        let last_ns = storage::load_time(&*disk, &time_file)
            .map_err(|source| BrokerError::DataDir { path: time_file.clone(), source })?;
        let time = Arc::new(GradualClock::resume(clock, last_ns));
        let retention = Limits {
            total_bytes: AtomicU64::new(retention::bytes(storage.max_total_mb).unwrap_or(0)),
            time: Arc::clone(&time),
            time_file,
        };
        let kept = Kept::of(&storage, max_payload_mb);
        let opener = Opener {
            progress,
            data_dir: storage.data_dir,
            kept: RwLock::new(kept),
            env: Environment { disk, clock: Arc::<GradualClock>::clone(&time), metrics },
            shared: Arc::clone(&shared),
        };
        let (mut topics, mut created) = opener.open_all(&declared)?;
        let offsets_log = opener.offsets_topic(&mut topics, &mut created)?;
        let table = Arc::new(OffsetTable::new());
        let opened_ns = time.now_ns();
        restore::restore(&offsets_log, &table, &opener.env.metrics, opened_ns)?;
        // Not before: what was committed is not forgotten because of a limit.
        table.set_max_groups(offsets.max_groups);
        let flusher =
            Flusher::start(Arc::clone(&shared.flush_queue)).map_err(BrokerError::Thread)?;
        let broker = Self {
            options: RwLock::new(options),
            opener,
            topics: RwLock::new(topics),
            create: Mutex::new(created),
            connected: Connected::new(Arc::clone(&table), time),
            table,
            offsets_log,
            offsets_retention_hours: AtomicU32::new(offsets.retention_hours),
            opened_ns,
            flusher: Mutex::new(Some(flusher)),
            watchers: Mutex::default(),
            compaction: Compaction::new(&compaction),
            retention,
            warnings: Throttle::default(),
        };
        // Before topics are created that may have the same names.
        broker.finish_deletions();
        broker.declare(&declared)?;
        broker.clamp_commits();
        broker.save_time();
        broker.check_space();
        broker.opener.progress.finish();
        Ok(broker)
    }

    /// Creates what is declared and missing. What is left of a deletion is no reason not to start.
    fn declare(&self, declared: &[TopicOptions]) -> Result<(), BrokerError> {
        let options = self.options();
        let (mut created, mut topics) = (self.create.lock(), self.topics.write());
        for topic in declared {
            match self.opener.declare(topic, &options, &mut topics, &mut created) {
                Err(
                    error @ BrokerError::Declared {
                        source: PartitionError::Unfinished { .. }, ..
                    },
                ) => {
                    tracing::error!(%error, "once it is removed, a reload or the next start creates it as declared");
                }
                declared => declared?,
            }
        }
        Ok(())
    }

    fn clamp_commits(&self) {
        let topics = self.topics.read();
        let end = |name: &TopicPartition| {
            Some(topics.get(&name.topic)?.partitions.get(&name.partition)?.end_offset())
        };
        restore::clamp(&self.offsets_log, &self.table, self.metrics(), self.now_ns(), end);
    }

    /// Section `topics` of the configuration, as it is now.
    pub(super) fn options(&self) -> Options {
        self.options.read().clone()
    }

    /// See [`OffsetsOptions::retention_hours`].
    pub(super) fn offsets_retention_hours(&self) -> u32 {
        self.offsets_retention_hours.load(Ordering::Relaxed)
    }

    pub(super) fn set_offsets_retention_hours(&self, hours: u32) {
        self.offsets_retention_hours.store(hours, Ordering::Relaxed);
    }

    /// The broker's time, in ns since the Unix epoch.
    pub(super) fn now_ns(&self) -> u64 {
        self.retention.time.now_ns()
    }

    /// Looks at the free disk space: with less than `storage.min_free_mb`, appends are refused until the next look that
    /// finds more. Asks the file system: not for a reactor.
    pub fn check_space(&self) {
        let Opener { data_dir, env, shared, .. } = &self.opener;
        shared.space.look(&*env.disk, data_dir, &env.metrics);
    }

    /// What is wrong now. Does not touch the disk.
    pub fn health(&self) -> Health {
        let Shared { space, metrics, .. } = &*self.opener.shared;
        let mut problems = Vec::new();
        if space.is_low() {
            problems.push(Problem::LowSpace { min_bytes: space.min_bytes() });
        }
        // Asked often; looked for only where there is something to find.
        if metrics.flush_errors.get() > 0 {
            let topics = self.topics.read();
            let read_only = all_partitions(&topics).filter(|partition| partition.is_read_only());
            let mut partitions: Vec<_> =
                read_only.map(|partition| partition.name().clone()).collect();
            drop(topics);
            partitions.sort_unstable();
            if !partitions.is_empty() {
                problems.push(Problem::ReadOnly { partitions });
            }
        }
        if metrics.compaction_failures.get() > 0 {
            let partitions = self.failing_compactions();
            if !partitions.is_empty() {
                problems.push(Problem::Compaction { partitions });
            }
        }
        if metrics.segments_damaged.get() > 0 {
            let topics = self.topics.read();
            let segments =
                all_partitions(&topics).map(|partition| partition.damaged_segments()).sum();
            drop(topics);
            if segments > 0 {
                problems.push(Problem::Damaged { segments });
            }
        }
        Health { problems }
    }

    /// Compares what was flushed of every partition with its checksums; damage is kept from readers. Reads all of the disk,
    /// as slowly as `pause` wants: it is told how many bytes are next, and ends the look by `false`, which is the error.
    pub fn scrub(&self, pause: &mut dyn FnMut(u64) -> bool) -> Result<Scrubbed, ScrubStopped> {
        let mut total = Scrubbed::default();
        for partition in self.partitions_in_turn() {
            match partition.scrub(pause) {
                Ok(found) => {
                    total.bytes += found.bytes;
                    total.damaged += found.damaged;
                    total.summed += found.summed;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(ScrubStopped);
                }
                Err(error) => {
                    tracing::error!(partition = %partition.name(), %error, "cannot be compared with its checksums");
                }
            }
        }
        self.metrics().scrubs.inc();
        Ok(total)
    }

    /// All partitions, the broker's own included.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        all_partitions(&self.topics.read()).map(Arc::clone).collect()
    }

    /// The same, for work that takes long: the files of a topic that is deleted before it is their turn are not held.
    pub(super) fn partitions_in_turn(&self) -> impl Iterator<Item = Arc<Partition>> + use<> {
        let all: Vec<_> = all_partitions(&self.topics.read()).map(Arc::downgrade).collect();
        all.into_iter().filter_map(|partition| partition.upgrade())
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.opener.env.disk
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

    /// Groups that have committed offsets.
    pub fn group_count(&self) -> usize {
        self.table.groups()
    }

    /// The partition, if its topic exists; `None` if the topic does not. Never touches the disk.
    pub fn existing(
        &self,
        topic: &TopicName,
        partition: PartitionId,
    ) -> Option<Result<Arc<Partition>, PartitionError>> {
        let topics = self.topics.read();
        let topic_found = topics.get(topic)?;
        let partitions = &topic_found.partitions;
        let found = partitions.get(&partition).map(Arc::clone);
        Some(found.ok_or_else(|| PartitionError::UnknownPartition {
            topic: topic.clone(),
            partition,
            partitions: partitions.last_key_value().map_or(0, |(&last, _)| last + 1),
        }))
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
        // Before the lock, which is held for as long as others wait for the disk: who is refused anyway waits for nobody.
        let partitions = self.creatable(topic, partition)?;
        let mut created = self.create.lock();
        if self.existing(topic, partition).is_none() {
            self.create_on_demand(topic, partitions, &mut created)?;
        }
        drop(created);
        self.existing(topic, partition)
            .unwrap_or_else(|| Err(PartitionError::UnknownTopic(topic.clone())))
    }

    /// Partitions that a topic would get for which somebody asks who wants this one of it; or why it is not created.
    fn creatable(&self, topic: &TopicName, wanted: PartitionId) -> Result<u32, PartitionError> {
        if topic.is_reserved() {
            return Err(PartitionError::Reserved(topic.clone()));
        }
        let Options { auto_create, default_partitions: partitions, .. } = self.options();
        if !auto_create {
            return Err(PartitionError::UnknownTopic(topic.clone()));
        }
        if wanted >= partitions {
            return Err(PartitionError::UnknownPartition {
                topic: topic.clone(),
                partition: wanted,
                partitions,
            });
        }
        Ok(partitions)
    }

    fn create_on_demand(
        &self,
        topic: &TopicName,
        partitions: u32,
        created: &mut Created,
    ) -> Result<(), PartitionError> {
        if created.closed {
            let (path, source) =
                (self.opener.data_dir.clone(), io::Error::other("the broker is closed"));
            return Err(OpenError { path, source }.into());
        }
        let options =
            TopicOptions { partitions: Some(partitions), ..TopicOptions::named(topic.clone()) };
        self.add_topic(options, created)?;
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
        let end = Self::end_for_commit(partition, offset);
        if offset > end && offset != Offset::MAX {
            self.opener.env.metrics.commits_clamped.inc();
            if self.warnings.allow() {
                tracing::warn!(
                    group = %key.group, partition = %key.partition, offset, end,
                    "commit beyond the log end, clamped to it"
                );
            }
        }
        self.store_commit(key, partition, offset.min(end))
    }

    /// Commits where the group resumes. An offset beyond the log end is an error, and nothing is stored.
    pub fn commit_within(
        &self,
        key: OffsetKey,
        partition: &Partition,
        offset: Offset,
    ) -> Result<Offset, CommitError> {
        let end = Self::end_for_commit(partition, offset);
        if offset > end {
            self.opener.env.metrics.commits_refused.inc();
            return Err(CommitError::BeyondEnd { offset, end });
        }
        self.store_commit(key, partition, offset)
    }

    fn end_for_commit(partition: &Partition, offset: Offset) -> Offset {
        let end = partition.end_offset();
        // A reader may have got records that are stored and not counted yet.
        if offset > end { partition.settled_end_offset() } else { end }
    }

    pub(super) fn store_commit(
        &self,
        key: OffsetKey,
        partition: &Partition,
        offset: Offset,
    ) -> Result<Offset, CommitError> {
        let span =
            tracing::debug_span!("commit", group = %key.group, partition = %key.partition, offset);
        let _in_span = span.enter();
        let committed = Committed::new(offset, self.now_ns());
        self.table.store(&self.offsets_log, key, committed, || partition.is_deleted())?;
        self.opener.env.metrics.commits.inc();
        Ok(offset)
    }

    /// Stops the flusher and flushes every partition. Nothing can be appended afterwards.
    pub fn close(&self) -> Result<(), CloseError> {
        self.create.lock().closed = true;
        self.flusher.lock().take();
        self.save_time();
        let partitions = self.partitions();
        let mut errors = partitions.iter().filter_map(|partition| partition.close().err());
        match errors.next() {
            None => Ok(()),
            Some(first) => Err(CloseError { failed: 1 + errors.count(), first }),
        }
    }
}
