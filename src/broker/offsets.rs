//! Where each consumer group resumes: the table, and its entries in the log of `__consumer_offsets`.
//!
//! An entry is a frame with the key `GROUP:TOPIC:PARTITION` and the committed offset (`u64`, big-endian) as its payload,
//! as the original writes it; with an empty payload the group has committed nothing. The frame's timestamp is when that was, in
//! the broker's time. Names contain no colon, so the key is unambiguous, and the newest entry of a key counts
//! whoever wrote it.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::error::{AppendError, CommitError};
use super::partition::Partition;
use crate::model::limits::{COMMITTED_OFFSETS_MAX, OFFSET_SHARDS};
use crate::model::{GroupName, Offset, PartitionId, TopicName, TopicPartition};
use crate::record::{FrameBuilder, FrameLimits, FrameTooLarge, Run, wire};

/// A group and the partition it reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OffsetKey {
    /// The group.
    pub group: GroupName,
    /// The partition.
    pub partition: TopicPartition,
}

/// A committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) offset: Offset,
    /// When it was committed, in the broker's time, in ns since the Unix epoch.
    pub(super) at_ns: u64,
    /// When there was the last sign of life: that, or a consumer that left later.
    pub(super) seen_ns: u64,
}

impl Committed {
    pub(super) fn new(offset: Offset, at_ns: u64) -> Self {
        Self { offset, at_ns, seen_ns: at_ns }
    }
}

/// Why an entry of the offsets topic says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryError {
    #[error("the key is not GROUP:TOPIC:PARTITION with legal names")]
    Key,
    #[error("the payload has {0} bytes, an offset has 8")]
    Payload(usize),
}

/// The committed offsets of all groups, in lock-striped shards.
#[derive(Debug)]
pub(super) struct OffsetTable {
    shards: Box<[Mutex<HashMap<OffsetKey, Committed>>]>,
    hasher: std::hash::RandomState,
    len: AtomicUsize,
    /// Entries of each group. Locked for a key that comes or goes, not for a commit.
    groups: Mutex<HashMap<GroupName, usize>>,
    /// With this many groups, no new one gets an entry.
    max_groups: AtomicUsize,
}

impl OffsetTable {
    /// An empty table, for any number of groups: those that have committed before are served, however many.
    pub(super) fn new() -> Self {
        Self {
            shards: (0..OFFSET_SHARDS).map(|_| Mutex::default()).collect(),
            hasher: std::hash::RandomState::new(),
            len: AtomicUsize::new(0),
            groups: Mutex::default(),
            max_groups: AtomicUsize::new(usize::MAX),
        }
    }

    /// From now on no group is new beyond this number of them.
    pub(super) fn set_max_groups(&self, max: u32) {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.max_groups.store(max, Ordering::Relaxed);
    }

    /// Makes room for one more entry of a group.
    fn enter(&self, group: &GroupName) -> Result<(), Full> {
        if self.len.load(Ordering::Relaxed) >= COMMITTED_OFFSETS_MAX {
            return Err(Full::Offsets);
        }
        let max = self.max_groups.load(Ordering::Relaxed);
        let mut groups = self.groups.lock();
        let there = groups.len();
        match groups.get_mut(group) {
            Some(entries) => *entries += 1,
            None if there >= max => return Err(Full::Groups { max }),
            None => drop(groups.insert(group.clone(), 1)),
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// An entry of a group is gone.
    fn exit(&self, group: &GroupName) {
        self.len.fetch_sub(1, Ordering::Relaxed);
        let mut groups = self.groups.lock();
        if let Some(entries) = groups.get_mut(group) {
            *entries -= 1;
            if *entries == 0 {
                groups.remove(group);
            }
        }
    }

    fn shard(&self, key: &OffsetKey) -> &Mutex<HashMap<OffsetKey, Committed>> {
        // The remainder fits `usize`, being less than the number of shards.
        let hash = self.hasher.hash_one(key) % OFFSET_SHARDS as u64;
        &self.shards[usize::try_from(hash).unwrap_or(0)]
    }

    /// Where the group resumes; `None` if it never committed.
    pub(super) fn get(&self, key: &OffsetKey) -> Option<Offset> {
        self.shard(key).lock().get(key).map(|committed| committed.offset)
    }

    /// Runs `write` (which puts the entry into the log) and then sets the offset, with the key's shard locked, so that
    /// the table and the log agree on which commit is the last. Refuses a new key when the table is full.
    pub(super) fn set<E>(
        &self,
        key: OffsetKey,
        committed: Committed,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), Full>, E> {
        let mut shard = self.shard(&key).lock();
        let known = shard.contains_key(&key);
        if !known && let Err(full) = self.enter(&key.group) {
            return Ok(Err(full));
        }
        if let Err(error) = write() {
            if !known {
                self.exit(&key.group);
            }
            return Err(error);
        }
        shard.insert(key, committed);
        Ok(Ok(()))
    }

    /// Appends the entry of a commit to the log and sets the offset. Not if the partition's topic is deleted meanwhile.
    pub(super) fn store(
        &self,
        log: &Arc<Partition>,
        key: OffsetKey,
        committed: Committed,
        is_deleted: impl FnOnce() -> bool,
    ) -> Result<(), CommitError> {
        let frame = entry(&key, Some(committed.offset), committed.at_ns);
        let write = || {
            // Under the shard's lock: whoever forgets the topic's offsets comes after that, or has said so before.
            if is_deleted() { Err(CommitError::Deleted) } else { Ok(append(log, frame)?) }
        };
        self.set(key, committed, write)?.map_err(|full| match full {
            Full::Offsets => CommitError::TableFull,
            Full::Groups { max } => CommitError::TooManyGroups { max },
        })
    }

    /// Forgets an offset that `goes`, and appends to the log that it is forgotten. False if there was none to go.
    pub(super) fn forget(
        &self,
        log: &Arc<Partition>,
        key: &OffsetKey,
        now_ns: u64,
        goes: impl FnOnce(&Committed) -> bool,
    ) -> Result<bool, AppendError> {
        let mut shard = self.shard(key).lock();
        if !shard.get(key).is_some_and(goes) {
            return Ok(false);
        }
        append(log, entry(key, None, now_ns))?;
        shard.remove(key);
        self.exit(&key.group);
        Ok(true)
    }

    /// Forgets an offset of which the log says that it is forgotten.
    pub(super) fn unset(&self, key: &OffsetKey) {
        let mut shard = self.shard(key).lock();
        if shard.remove(key).is_some() {
            self.exit(&key.group);
        }
    }

    /// Notes a sign of life.
    pub(super) fn touch(&self, key: &OffsetKey, now_ns: u64) {
        if let Some(committed) = self.shard(key).lock().get_mut(key) {
            committed.seen_ns = committed.seen_ns.max(now_ns);
        }
    }

    /// The committed offsets whose keys are `wanted`.
    pub(super) fn collect(
        &self,
        wanted: impl Fn(&OffsetKey) -> bool,
    ) -> Vec<(OffsetKey, Committed)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let here = shard.iter().filter(|(key, _)| wanted(key));
            found.extend(here.map(|(key, committed)| (key.clone(), *committed)));
        }
        found
    }

    /// The keys whose offset is larger than `end` gives for their partition, and that end.
    pub(super) fn beyond(
        &self,
        end: impl Fn(&TopicPartition) -> Option<Offset>,
    ) -> Vec<(OffsetKey, Offset)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            for (key, committed) in &*shard.lock() {
                if let Some(end) = end(&key.partition).filter(|&end| committed.offset > end) {
                    found.push((key.clone(), end));
                }
            }
        }
        found
    }

    /// Keys in the table.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Groups that have a key in it.
    pub(super) fn groups(&self) -> usize {
        self.groups.lock().len()
    }
}

/// The table takes no new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// It holds as many as it may.
    Offsets,
    /// It would be the first one of its group, and there are `max` groups.
    Groups { max: usize },
}

fn entry(key: &OffsetKey, offset: Option<Offset>, timestamp_ns: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    // Names bound the key's size: the frame always fits.
    let _ = write_entry(key, offset, timestamp_ns, &mut frame);
    frame
}

fn append(log: &Arc<Partition>, mut frame: Vec<u8>) -> Result<(), AppendError> {
    if let Some(mut run) = Run::parse(&mut frame, &FrameLimits::STORED) {
        log.append(&mut run)?;
    }
    Ok(())
}

/// Appends the frame of one commit to `out`; without an offset, of one that is forgotten.
pub(super) fn write_entry(
    key: &OffsetKey,
    offset: Option<Offset>,
    timestamp_ns: u64,
    out: &mut Vec<u8>,
) -> Result<(), FrameTooLarge> {
    let name = format!("{}:{}:{}", key.group, key.partition.topic, key.partition.partition);
    let payload = offset.map(wire::u64_bytes);
    let payload = payload.as_ref().map_or(&[][..], |bytes| bytes);
    FrameBuilder::new(timestamp_ns).key(name.as_bytes()).write(payload, out)
}

/// Reads the key and payload of one commit; no offset if it is forgotten.
pub(super) fn read_entry(
    key: &[u8],
    payload: &[u8],
) -> Result<(OffsetKey, Option<Offset>), EntryError> {
    let key = read_key(key).ok_or(EntryError::Key)?;
    if payload.is_empty() {
        return Ok((key, None));
    }
    let offset = wire::get_u64(payload, 0).filter(|_| payload.len() == 8);
    Ok((key, Some(offset.ok_or(EntryError::Payload(payload.len()))?)))
}

fn read_key(key: &[u8]) -> Option<OffsetKey> {
    let mut parts = std::str::from_utf8(key).ok()?.split(':');
    let group = GroupName::parse(parts.next()?).ok()?;
    let topic = TopicName::parse(parts.next()?).ok()?;
    let partition: PartitionId = parts.next()?.parse().ok()?;
    let done = parts.next().is_none();
    done.then_some(OffsetKey { group, partition: TopicPartition { topic, partition } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Frames;

    fn key(group: &str, topic: &str, partition: PartitionId) -> OffsetKey {
        OffsetKey {
            group: GroupName::parse(group).unwrap(),
            partition: TopicPartition { topic: TopicName::parse(topic).unwrap(), partition },
        }
    }

    #[test]
    fn entries_are_written_as_the_original_writes_them() {
        let mut frame = Vec::new();
        write_entry(&key("billing", "my_topic", 3), Some(1500), 7, &mut frame).unwrap();
        let (header, name, payload) = Frames::new(&frame).next().unwrap();
        assert_eq!((header.records(), name), (1, &b"billing:my_topic:3"[..]));
        assert_eq!(payload, [0, 0, 0, 0, 0, 0, 5, 220]);
        assert_eq!(read_entry(name, payload), Ok((key("billing", "my_topic", 3), Some(1500))));
        assert_eq!(read_entry(name, b""), Ok((key("billing", "my_topic", 3), None)));
    }

    #[test]
    fn malformed_entries_are_errors() {
        for bad in [&b""[..], b"x", b"a:b", b"a:b:c", b"a:b:c:0", b"a::0", b"\xff:b:0", b"a:b:-1"] {
            assert_eq!(read_entry(bad, &[0; 8]), Err(EntryError::Key), "{bad:?}");
        }
        assert_eq!(read_entry(b"a:b:0", b"1"), Err(EntryError::Payload(1)));
        assert_eq!(read_entry(b"a:b:0", &[0; 9]), Err(EntryError::Payload(9)));
    }

    #[test]
    fn no_commit_differs_from_commit_zero() {
        let table = OffsetTable::new();
        assert_eq!(table.get(&key("g", "t", 0)), None);
        table.set(key("g", "t", 0), Committed::new(0, 1), || Ok::<_, ()>(())).unwrap().unwrap();
        assert_eq!(table.get(&key("g", "t", 0)), Some(0));
        assert_eq!(table.set(key("g", "t", 0), Committed::new(9, 2), || Err("disk")), Err("disk"));
        assert_eq!(table.get(&key("g", "t", 0)), Some(0), "what was not written does not count");
        assert_eq!(table.len(), 1);
        table.unset(&key("g", "t", 0));
        table.unset(&key("g", "t", 0));
        assert_eq!((table.get(&key("g", "t", 0)), table.len()), (None, 0));
        assert_eq!(table.groups(), 0);
    }

    #[test]
    fn beyond_the_limit_no_group_is_new() {
        let table = OffsetTable::new();
        let set = |group, partition| {
            let committed = Committed::new(1, 1);
            table.set(key(group, "t", partition), committed, || Ok::<_, ()>(())).unwrap()
        };
        assert_eq!((set("a", 0), set("b", 0), set("c", 0)), (Ok(()), Ok(()), Ok(())));
        table.set_max_groups(2);
        assert_eq!(set("d", 0), Err(Full::Groups { max: 2 }));
        assert_eq!((set("c", 0), set("c", 1)), (Ok(()), Ok(())), "those that are there go on");
        table.unset(&key("c", "t", 0));
        assert_eq!((table.groups(), table.len()), (3, 3));
        for gone in [key("c", "t", 1), key("b", "t", 0)] {
            table.unset(&gone);
        }
        let refused = table.set(key("d", "t", 0), Committed::new(1, 1), || Err("disk"));
        assert_eq!((refused, table.groups()), (Err("disk"), 1), "what was not written is nobody");
        assert_eq!((set("d", 0), set("e", 0)), (Ok(()), Err(Full::Groups { max: 2 })));
    }
}
