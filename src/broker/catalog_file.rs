//! `catalog.json` in the data directory: which topics there are, and how each is kept.
//!
//! A topic is written down before its directories are made, so that a crash in between leaves all of its partitions (the
//! next start makes them) or none. One that is deleted is written down as such before anything of it is taken away, until
//! all of it is: a crash in between leaves none of it, as the next start goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::BrokerError;
use super::options::TopicOptions;
use crate::model::TopicName;
use crate::storage::{self, Disk, OpenError};

/// Its name.
pub const FILE: &str = "catalog.json";

/// Version of the file's form. One with another, or with keys that are not known, is not read.
const VERSION: u32 = 1;

/// What is written down, and where.
#[derive(Debug, Default)]
pub(super) struct CatalogFile {
    path: PathBuf,
    topics: BTreeMap<TopicName, TopicOptions>,
    /// Topics that are deleted, and not all of them is taken away.
    deleted: BTreeSet<TopicName>,
    /// Something was noted and is not on the disk.
    unsaved: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    topics: Vec<TopicOptions>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<String>,
}

impl CatalogFile {
    /// Reads the file; none is an empty catalog.
    pub(super) fn load(disk: &dyn Disk, data_dir: &Path) -> Result<Self, BrokerError> {
        let path = data_dir.join(FILE);
        let bytes = storage::read_file(disk, &path)
            .map_err(|source| BrokerError::DataDir { path: path.clone(), source })?;
        let (topics, deleted) = match bytes {
            None => <_>::default(),
            Some(bytes) => {
                parse(&bytes).map_err(|why| BrokerError::Catalog { path: path.clone(), why })?
            }
        };
        Ok(Self { path, topics, deleted, unsaved: false })
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &TopicOptions> {
        self.topics.values()
    }

    pub(super) fn get(&self, name: &TopicName) -> Option<&TopicOptions> {
        self.topics.get(name)
    }

    /// Has a topic written down by the next [`CatalogFile::save`].
    pub(super) fn note(&mut self, topic: TopicOptions) {
        if self.topics.get(&topic.name) != Some(&topic) {
            self.topics.insert(topic.name.clone(), topic);
            self.unsaved = true;
        }
    }

    /// Has it written down that a topic is deleted. Returns the entry that it had.
    pub(super) fn delete(&mut self, name: &TopicName) -> Option<TopicOptions> {
        self.unsaved = true;
        self.deleted.insert(name.clone());
        self.topics.remove(name)
    }

    /// Takes [`CatalogFile::delete`] back, which could not be written down.
    pub(super) fn undelete(&mut self, name: &TopicName, entry: Option<TopicOptions>) {
        self.unsaved = true;
        self.deleted.remove(name);
        self.topics.extend(entry.map(|entry| (name.clone(), entry)));
    }

    /// Has it written down that all of a deleted topic is taken away.
    pub(super) fn forget_deleted(&mut self, name: &TopicName) {
        self.unsaved |= self.deleted.remove(name);
    }

    /// Topics that are deleted, and not all of them is taken away.
    pub(super) fn deleted(&self) -> &BTreeSet<TopicName> {
        &self.deleted
    }

    /// Writes down, durably, what was noted.
    pub(super) fn save(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        if self.unsaved {
            self.write(disk)?;
            self.unsaved = false;
        }
        Ok(())
    }

    fn write(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        let failed = |source| OpenError { path: self.path.clone(), source };
        let bytes = self.to_bytes().map_err(|error| failed(error.into()))?;
        storage::replace_file(disk, &self.path, &bytes).map_err(failed)
    }

    fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let content = Content {
            version: VERSION,
            topics: self.topics.values().cloned().collect(),
            deleted: self.deleted.iter().map(TopicName::to_string).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&content)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// What a `catalog.json` says, as the broker writes it; or what is wrong with it, in words for people.
pub fn check_catalog(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let (topics, deleted) = parse(bytes)?;
    let file = CatalogFile { topics, deleted, ..CatalogFile::default() };
    file.to_bytes().map_err(|error| error.to_string())
}

/// Names of the directories of the partitions that a `catalog.json` lists; or what is wrong with it, in words for people.
pub fn dirs_in_catalog(bytes: &[u8]) -> Result<Vec<String>, String> {
    let (topics, _) = parse(bytes)?;
    let dirs = topics.into_values().flat_map(|topic| {
        let partitions = 0..topic.partitions.unwrap_or(0);
        partitions.map(move |partition| format!("{}_{partition}", topic.name))
    });
    Ok(dirs.collect())
}

type Parsed = (BTreeMap<TopicName, TopicOptions>, BTreeSet<TopicName>);

fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if content.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", content.version));
    }
    let mut topics = BTreeMap::new();
    for topic in content.topics {
        let name = topic.name.clone();
        let legal = topic.partitions.is_some() && topic.out_of_range().is_none();
        if !legal || name.is_reserved() {
            return Err(format!("the entry of topic {name} is impossible"));
        }
        if topics.insert(name.clone(), topic).is_some() {
            return Err(format!("topic {name} is there twice"));
        }
    }
    let mut deleted = BTreeSet::new();
    for name in content.deleted {
        let name = TopicName::parse(name).map_err(|error| error.to_string())?;
        if name.is_reserved() || topics.contains_key(&name) {
            return Err(format!("topic {name} cannot be a deleted one"));
        }
        deleted.insert(name);
    }
    Ok((topics, deleted))
}
