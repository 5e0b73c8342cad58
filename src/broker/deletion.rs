//! Deleting topics: all of one, or nothing, whenever the process ends.
//!
//! A topic is gone once the catalog says so, durably. From then on its partitions take nothing, and whoever reads or writes them
//! is told. Then its committed offsets are forgotten, durably, and its directories get names under which nobody looks for a topic;
//! last the catalog forgets that it was deleted, and its name can be used again. A start goes on where a process has ended.
//! Removing the directories, which may take long, is done in the background.

use std::sync::Arc;

use super::broker::Broker;
use super::opener::Created;
use super::topic_change::TopicError;
use super::wake::{WaiterId, Wake};
use crate::model::TopicName;
use crate::storage::OpenError;

/// Those who are told of deletions.
pub(super) type Watcher = (Arc<dyn Wake>, WaiterId);

impl Broker {
    /// Deletes a topic, with its records and what groups have committed of it. Waits for the disk.
    pub fn delete_topic(&self, name: &TopicName) -> Result<(), TopicError> {
        if name.is_reserved() {
            return Err(TopicError::Reserved(name.clone()));
        }
        let mut created = self.create.lock();
        if created.closed {
            return Err(TopicError::Closed);
        }
        if !self.topics.read().contains_key(name) {
            return Err(TopicError::Unknown(name.clone()));
        }
        self.write_down_deleted(name, &mut created)?;
        // Not in one statement: nobody else is to wait for what `delete` waits for.
        let removed = self.topics.write().remove(name);
        if let Some(topic) = removed {
            created.partitions -= topic.partitions.len();
            created.topics -= 1;
            for partition in topic.partitions.values() {
                partition.delete();
            }
            if topic.declared {
                tracing::warn!(topic = %name, "declared in the configuration: the next start creates it anew");
            }
        }
        tracing::info!(topic = %name, "topic deleted");
        self.metrics().topics_deleted.inc();
        let finished = self.finish_deletion(name, &mut created);
        drop(created);
        // After the directories have other names: whoever removes them finds them.
        for (wake, waiter) in &*self.watchers.lock() {
            wake.wake(*waiter);
        }
        finished.map_err(|why| TopicError::Unfinished { topic: name.clone(), why })
    }

    /// The point of no return.
    fn write_down_deleted(
        &self,
        name: &TopicName,
        created: &mut Created,
    ) -> Result<(), TopicError> {
        let entry = created.file.delete(name);
        let Err(source) = created.file.save(self.disk()) else { return Ok(()) };
        created.file.undelete(name, entry);
        self.write_down_again(name, created);
        Err(TopicError::Storage { topic: name.clone(), source })
    }

    /// Takes away what is left of a topic that is deleted; nothing if it is not, or all of it is. The error is what stands in the
    /// way.
    pub(super) fn finish_deletion(
        &self,
        name: &TopicName,
        created: &mut Created,
    ) -> Result<(), String> {
        if created.file.deleted().contains(name) { self.take_away(name, created) } else { Ok(()) }
    }

    fn take_away(&self, name: &TopicName, created: &mut Created) -> Result<(), String> {
        self.forget_commits(name)?;
        self.opener.put_aside(name).map_err(|error| error.to_string())?;
        created.file.forget_deleted(name);
        created.file.save(self.disk()).map_err(|error| error.to_string())
    }

    /// Else a topic of the same name would begin with them.
    fn forget_commits(&self, name: &TopicName) -> Result<(), String> {
        let now_ns = self.now_ns();
        for (key, _) in self.table.collect(|key| key.partition.topic == *name) {
            self.table
                .forget(&self.offsets_log, &key, now_ns, |_| true)
                .map_err(|error| format!("its committed offsets: {error}"))?;
        }
        self.offsets_log.flush_now().map_err(|error| format!("its committed offsets: {error}"))
    }

    /// Tries again what was left over of deletions; what cannot be done is logged. Waits for the disk.
    pub(super) fn finish_deletions(&self) {
        let mut created = self.create.lock();
        for name in created.file.deleted().clone() {
            if let Err(why) = self.finish_deletion(&name, &mut created) {
                tracing::warn!(topic = %name, why, "what is left of a deleted topic is not removed yet");
            }
        }
    }

    /// Removes the directories of deleted topics; says how many. What cannot be removed is logged, and tried again by the next call.
    /// `stop` is asked before each directory, and ends it by `true`. Waits for the disk, perhaps for long.
    pub fn remove_deleted(&self, stop: &dyn Fn() -> bool) -> Result<usize, OpenError> {
        self.opener.remove_deleted(stop)
    }

    /// Has `wake` called after each deletion of a topic, for as long as the broker is there. Whoever has to do with partitions
    /// looks then which of them are deleted.
    pub fn watch_deletions(&self, wake: &Arc<dyn Wake>, waiter: WaiterId) {
        self.watchers.lock().push((Arc::clone(wake), waiter));
    }
}
