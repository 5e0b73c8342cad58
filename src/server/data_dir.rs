//! A data directory from outside: what `hermitmq log` does with all of its partitions, or with one.
//!
//! Looking and copying may go on beside a broker, which is noticed by the lock it holds; repairing may not.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::broker::{CATALOG, dirs_in_catalog, parse_deleted_dir_name, parse_dir_name};
use crate::model::{Offset, TopicPartition};
use crate::storage::backup::{BackupOptions, backup_partition, copy_failed};
use crate::storage::inspect::{dump_partition, is_partition, partition_bytes, verify_partition};
use crate::storage::repair::repair_partition;
use crate::storage::{DataDirError, DirLock, Disk, Environment, OsDisk, SystemClock};

pub use crate::storage::backup::BackedUp;
pub use crate::storage::inspect::{
    Dumped, DumpedFrame, Finding, InspectError, Kind, PartitionReport, SegmentReport, Severity,
    Span, State,
};
pub use crate::storage::repair::{Action, Repair, RepairOptions, Step};

/// File of the lock that a broker holds.
const LOCK: &str = ".lock";

/// File that is there while a backup is not finished.
const UNFINISHED: &str = ".unfinished-backup";

/// A backup that was broken off. The last log of a partition in it may be the same file as a sealed one of the original: what
/// is written there is written into the original.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is a backup that was not finished: it is not whole, and writing to it may damage the directory that it was made \
     of; remove it, and make the backup again", .0.display()
)]
pub struct UnfinishedBackup(PathBuf);

/// Fails for a backup that was broken off.
pub(super) fn refuse_unfinished(dir: &Path) -> Result<(), UnfinishedBackup> {
    if dir.join(UNFINISHED).exists() { Err(UnfinishedBackup(dir.to_owned())) } else { Ok(()) }
}

/// Why nothing could be done.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Something cannot be read or written.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// Neither a data directory nor one of a partition.
    #[error(
        "{} is no data directory and no partition's directory: it holds neither TOPIC_PARTITION directories nor \
         segments", .0.display()
    )]
    Stranger(PathBuf),
    /// A broker holds it.
    #[error("{} is in use by a broker (process {holder}); stop it first", path.display())]
    Held {
        /// The directory.
        path: PathBuf,
        /// Process id that the holder wrote down, or `unknown`.
        holder: String,
    },
    /// It cannot be locked.
    #[error(transparent)]
    Lock(DataDirError),
    /// It is neither put right nor copied.
    #[error(transparent)]
    Unfinished(#[from] UnfinishedBackup),
    /// A backup is of a whole data directory.
    #[error("{} is one partition's directory; a backup is made of a whole data directory", .0.display())]
    NotWhole(PathBuf),
    /// There is something where the backup should be.
    #[error("{} is not empty; a backup is made into a new or an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The backup would hold itself.
    #[error("{} lies within the directory to be copied", .0.display())]
    Within(PathBuf),
}

/// A data directory, or the directory of one partition.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Directories of partitions, by name; those of the broker's own topics first.
    partitions: Vec<PathBuf>,
    /// Where a broker would hold a lock.
    locked_in: Option<PathBuf>,
    /// It is one partition's.
    is_partition: bool,
    disk: Arc<dyn Disk>,
}

/// What looking at everything has found. The names of the fields are those of `--output json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The directory.
    pub dir: String,
    /// Process id of the broker that had it: only what is flushed was judged.
    pub broker: Option<String>,
    /// Its partitions.
    pub partitions: Vec<PartitionReport>,
    /// What is wrong beside them.
    pub findings: Vec<Finding>,
}

impl Verified {
    /// All findings, each with the name of its partition's directory; an empty one for those beside all of them.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let within = self.partitions.iter().flat_map(|report| {
            report.findings().map(|finding| (report.partition.as_str(), finding))
        });
        within.chain(self.findings.iter().map(|finding| ("", finding)))
    }
}

/// What was backed up. The names of the fields are those of `--output json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The directory that was copied.
    pub from: String,
    /// Where to.
    pub to: String,
    /// Process id of the broker that had it: what was flushed was copied.
    pub broker: Option<String>,
    /// Partitions copied.
    pub partitions: u64,
    /// Files beside the partitions.
    pub files: u64,
    /// What was copied of the partitions, all together.
    #[serde(flatten)]
    pub log: BackedUp,
    /// Directories that are none of a partition, and partitions that were deleted meanwhile.
    pub left_out: Vec<String>,
    /// What could not be copied, and why: the backup is not finished then.
    pub failed: Vec<String>,
}

impl Backup {
    /// What cannot be read does not end it; where nothing can be written nothing is to be gone on with.
    fn go_on_after(&mut self, copied: Result<(), ToolError>, to: &Path) -> Result<(), ToolError> {
        match copied {
            Err(ToolError::Inspect(error)) if !error.path.starts_with(to) => {
                self.failed.push(error.to_string());
                Ok(())
            }
            copied => copied,
        }
    }
}

impl DataDir {
    /// Looks what a directory is.
    pub fn open(path: &Path) -> Result<Self, ToolError> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let partitions = partitions_in(&*disk, path)?;
        let none = partitions.is_empty() && !path.join(LOCK).is_file();
        let whole = fs::canonicalize(path).map_err(InspectError::at(path))?;
        if is_partition(&disk, path)? || (none && partition_of(&whole).is_some()) {
            let parent = whole.parent().filter(|parent| parent.join(LOCK).is_file());
            let locked_in = parent.map(Path::to_owned);
            let path = path.to_owned();
            return Ok(Self { partitions: vec![whole], path, locked_in, is_partition: true, disk });
        }
        if none {
            return Err(ToolError::Stranger(path.to_owned()));
        }
        let (path, locked_in) = (path.to_owned(), Some(path.to_owned()));
        Ok(Self { path, partitions, locked_in, is_partition: false, disk })
    }

    /// Process id of the broker that has it, if one does.
    pub fn holder(&self) -> Result<Option<String>, ToolError> {
        let Some(dir) = &self.locked_in else { return Ok(None) };
        Ok(DirLock::holder(dir).map_err(InspectError::at(dir.join(LOCK)))?)
    }

    /// Bytes of log in it.
    pub fn bytes(&self) -> u64 {
        // What cannot be read is told by whoever looks at it.
        let bytes = |dir: &PathBuf| partition_bytes(&self.disk, dir).unwrap_or(0);
        self.partitions.iter().map(bytes).sum()
    }

    /// Looks at every byte. Writes nothing. `progress` is told how many bytes were looked at, now and then. What cannot be
    /// looked at is a finding.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified, ToolError> {
        let mut verified = Verified { dir: self.path.display().to_string(), ..Verified::default() };
        for dir in &self.partitions {
            let mut holder = self.holder()?;
            let mut look = |live: bool| {
                verify_partition(&self.disk, dir, live, progress).unwrap_or_else(|error| {
                    let findings = vec![not_looked_at(dir, &error)];
                    PartitionReport { partition: name_of(dir), segments: Vec::new(), findings }
                })
            };
            let mut report = look(holder.is_some());
            if holder.is_none() && report.severity().is_some() {
                // A broker may have begun to write there just now.
                holder = self.holder()?;
                if holder.is_some() {
                    report = look(true);
                }
            }
            verified.broker = holder.or(verified.broker);
            verified.partitions.push(report);
        }
        if !self.is_partition {
            verified.findings = self.beside()?;
        }
        Ok(verified)
    }

    /// What lies beside the partitions.
    fn beside(&self) -> Result<Vec<Finding>, ToolError> {
        let mut findings = Vec::new();
        for entry in self.disk.list(&self.path).map_err(InspectError::at(&self.path))? {
            let message = "no partition's directory; left alone";
            if entry.name == UNFINISHED {
                let message = "this is a backup that was not finished";
                findings.push(Finding::damage(Kind::Unfinished, &entry.name, message));
            } else if entry.is_dir && parse_deleted_dir_name(&entry.name).is_some() {
                let message = "of a topic that is deleted; a broker removes it";
                findings.push(Finding::note(Kind::Stranger, &entry.name, message));
            } else if entry.is_dir && parse_dir_name(&entry.name).is_none() {
                findings.push(Finding::note(Kind::Stranger, &entry.name, message));
            }
        }
        findings.extend(self.catalogued()?);
        findings.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(findings)
    }

    /// What is wrong with the catalog, and which partitions of it are not there. Beside a broker they may be made, or deleted.
    fn catalogued(&self) -> Result<Vec<Finding>, ToolError> {
        let dirs = match fs::read(self.path.join(CATALOG)) {
            // The Go original has none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
            Ok(bytes) => dirs_in_catalog(&bytes),
        };
        let mut dirs = match dirs {
            Ok(dirs) => dirs,
            Err(why) => {
                let message = format!("{why}; a broker does not start with it");
                return Ok(vec![Finding::damage(Kind::Catalog, CATALOG, &message)]);
            }
        };
        dirs.retain(|name| !self.path.join(name).is_dir());
        if self.holder()?.is_some() {
            return Ok(Vec::new());
        }
        let message = "is in the catalog, and has no directory; a start makes it anew, empty";
        let missing = dirs.iter().map(|name| Finding::damage(Kind::Missing, name, message));
        Ok(missing.collect())
    }

    /// Shows `visit` every frame that holds an offset of the range, and what is damaged among them, with the name of the
    /// partition's directory, until it breaks off.
    pub fn dump(
        &self,
        range: &Range<Offset>,
        visit: &mut dyn FnMut(&str, Dumped<'_>) -> ControlFlow<()>,
    ) -> Result<(), ToolError> {
        for dir in &self.partitions {
            let name = name_of(dir);
            let live = self.holder()?.is_some();
            let mut visit = |dumped: Dumped<'_>| visit(&name, dumped);
            let ended = dump_partition(&self.disk, dir, live, range.clone(), &mut visit)
                .unwrap_or_else(|error| visit(Dumped::Finding(&not_looked_at(dir, &error))));
            if ended.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Puts it right, or says what that would be. No broker may have it. What was done is in `done`, after an error too: it is
    /// the first one, and the other partitions are gone through all the same.
    pub fn repair(
        &self,
        options: RepairOptions,
        progress: &mut dyn FnMut(u64),
        done: &mut Vec<Repair>,
    ) -> Result<(), ToolError> {
        let whole = self.partitions.first().filter(|_| self.is_partition);
        refuse_unfinished(whole.and_then(|dir| dir.parent()).unwrap_or(&self.path))?;
        let _lock = match (&self.locked_in, self.holder()?) {
            (Some(dir), Some(holder)) => {
                return Err(ToolError::Held { path: dir.clone(), holder });
            }
            (Some(dir), None) if options.apply => Some(lock(dir)?),
            _ => None,
        };
        let (disk, clock) = (Arc::clone(&self.disk), Arc::new(SystemClock));
        let env = Environment { disk, clock, metrics: Arc::default() };
        let mut failed = None;
        for dir in &self.partitions {
            let (mut repaired, mut result) = repair_partition(&env, dir, options, progress);
            if options.apply {
                let given = give_to_owner_of(dir, dir).map_err(InspectError::at(dir));
                result = result.and(given);
            }
            if let Err(error) = result {
                repaired.left.push(not_looked_at(dir, &error));
                failed.get_or_insert(error);
            }
            done.push(repaired);
        }
        if let Some(dir) = self.locked_in.as_ref().filter(|_| options.apply) {
            give_to_owner_of(dir, dir).map_err(InspectError::at(dir))?;
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Copies it to a directory that is new or empty, durably. A broker may go on writing meanwhile. With `link`, sealed
    /// segments may be the same files on both sides. What cannot be read is in the result, and the backup is not finished then.
    pub fn backup(
        &self,
        to: &Path,
        link: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Backup, ToolError> {
        if self.is_partition {
            return Err(ToolError::NotWhole(self.path.clone()));
        }
        refuse_unfinished(&self.path)?;
        self.make_empty(to)?;
        let marker = to.join(UNFINISHED);
        let synced = fs::File::create(&marker).and_then(|file| file.sync_all());
        synced.map_err(InspectError::at(&marker))?;
        self.disk.sync_dir(to).map_err(InspectError::at(to))?;

        let mut backup = Backup {
            from: self.path.display().to_string(),
            to: to.display().to_string(),
            ..Backup::default()
        };
        let mut done = BTreeSet::new();
        let mut partitions = self.partitions.clone();
        while !partitions.is_empty() {
            for dir in &partitions {
                let copied = self.copy_partition(dir, to, link, &mut backup, progress);
                backup.go_on_after(copied, to)?;
            }
            done.extend(partitions);
            // Those of topics that were made meanwhile: the catalog, which is copied behind them, speaks of them.
            partitions = partitions_in(&*self.disk, &self.path)?;
            partitions.retain(|dir| !done.contains(dir));
        }
        self.copy_files(to, &mut backup)?;
        give_to_owner_of(to, &self.path).map_err(InspectError::at(to))?;
        if !backup.failed.is_empty() {
            return Ok(backup);
        }
        let finished = self.disk.sync_dir(to);
        let finished = finished.and_then(|()| self.disk.remove_file(&marker));
        let finished = finished.and_then(|()| self.disk.sync_dir(to));
        let whole = finished.and_then(|()| fs::canonicalize(to)).map_err(InspectError::at(to))?;
        if let Some(parent) = whole.parent() {
            self.disk.sync_dir(parent).map_err(InspectError::at(parent))?;
        }
        Ok(backup)
    }

    /// Makes sure that there is an empty directory for a backup, outside of this one.
    fn make_empty(&self, to: &Path) -> Result<(), ToolError> {
        match fs::create_dir(to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && to.is_dir() => {
                for entry in fs::read_dir(to).map_err(InspectError::at(to))? {
                    // That is in the root of every new ext4 volume.
                    if entry.map_err(InspectError::at(to))?.file_name() != "lost+found" {
                        return Err(ToolError::NotEmpty(to.to_owned()));
                    }
                }
            }
            result => result.map_err(InspectError::at(to))?,
        }
        let whole = |path: &Path| fs::canonicalize(path).map_err(InspectError::at(path));
        if whole(to)?.starts_with(whole(&self.path)?) {
            // It was empty before, too.
            let _ = fs::remove_dir(to);
            return Err(ToolError::Within(to.to_owned()));
        }
        copy_mode(&self.path, to).map_err(InspectError::at(to))?;
        Ok(())
    }

    /// Copies what lies beside the partitions: the catalog, and whatever else.
    fn copy_files(&self, to: &Path, backup: &mut Backup) -> Result<(), ToolError> {
        for entry in fs::read_dir(&self.path).map_err(InspectError::at(&self.path))? {
            let entry = entry.map_err(InspectError::at(&self.path))?;
            let kind = entry.file_type().map_err(InspectError::at(entry.path()))?;
            let name = entry.file_name();
            if kind.is_dir() {
                if partition_of(&entry.path()).is_none() {
                    backup.left_out.push(name.to_string_lossy().into_owned());
                }
            } else if kind.is_file() && name != LOCK {
                let (from, copy) = (entry.path(), to.join(&name));
                match self.disk.duplicate(&from, &copy, false) {
                    // It was a temporary one.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Ok(_) => backup.files += 1,
                    Err(error) => {
                        let failed = copy_failed(&*self.disk, &from, &copy, error);
                        backup.go_on_after(Err(failed.into()), to)?;
                    }
                }
            }
        }
        backup.left_out.sort();
        Ok(())
    }

    fn copy_partition(
        &self,
        dir: &Path,
        to: &Path,
        link: bool,
        backup: &mut Backup,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ToolError> {
        let name = name_of(dir);
        let to = to.join(&name);
        loop {
            let holder = self.holder()?;
            let live = holder.is_some();
            backup.broker = holder.or(backup.broker.take());
            fs::create_dir(&to).map_err(InspectError::at(&to))?;
            let options = BackupOptions { live, link };
            let copied = backup_partition(&self.disk, dir, &to, options, progress);
            if copied.is_err() && !dir.exists() {
                // The topic was deleted.
                fs::remove_dir_all(&to).map_err(InspectError::at(&to))?;
                backup.left_out.push(name);
                return Ok(());
            }
            let copied = copied?;
            if !live && self.holder()?.is_some() {
                // A broker has begun to write while it was taken to be at rest.
                fs::remove_dir_all(&to).map_err(InspectError::at(&to))?;
                continue;
            }
            copy_mode(dir, &to).map_err(InspectError::at(&to))?;
            give_to_owner_of(&to, dir).map_err(InspectError::at(&to))?;
            backup.partitions += 1;
            backup.log.segments += copied.segments;
            backup.log.bytes += copied.bytes;
            backup.log.linked_bytes += copied.linked_bytes;
            backup.log.cloned_bytes += copied.cloned_bytes;
            let damaged = copied.damaged.iter().map(|file| format!("{name}/{file}"));
            backup.log.damaged.extend(damaged);
            backup.failed.extend(copied.unreadable);
            return Ok(());
        }
    }
}

/// Directories of partitions; those of the broker's own topics first.
fn partitions_in(disk: &dyn Disk, path: &Path) -> Result<Vec<PathBuf>, InspectError> {
    let entries = disk.list(path).map_err(InspectError::at(path))?;
    let dirs = entries.into_iter().filter(|entry| entry.is_dir);
    let mut partitions: Vec<_> = dirs.map(|entry| path.join(entry.name)).collect();
    partitions.retain(|dir| partition_of(dir).is_some());
    // By topic, then by number: `t_10` is not before `t_9`.
    partitions.sort_by_key(|dir| {
        partition_of(dir).map(|name| (!name.topic.is_reserved(), name.topic, name.partition))
    });
    Ok(partitions)
}

fn partition_of(dir: &Path) -> Option<TopicPartition> {
    dir.file_name().and_then(|name| parse_dir_name(name.to_str()?))
}

/// What is said of a partition that an error has come from.
fn not_looked_at(dir: &Path, error: &InspectError) -> Finding {
    if error.source.kind() == io::ErrorKind::NotFound && !dir.exists() {
        return Finding::note(Kind::Deleted, ".", "its topic was deleted meanwhile");
    }
    let file = error.path.strip_prefix(dir).ok().filter(|file| !file.as_os_str().is_empty());
    let file = file.unwrap_or(Path::new(".")).display().to_string();
    let message = format!("{}; what is behind it was not gone through", error.source);
    Finding::damage(Kind::Unreadable, &file, &message)
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}

fn lock(dir: &Path) -> Result<DirLock, ToolError> {
    DirLock::acquire(dir).map_err(|error| match error {
        DataDirError::Held { path, holder } => ToolError::Held { path, holder },
        error @ DataDirError::Unusable { .. } => ToolError::Lock(error),
    })
}

fn copy_mode(from: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// What root has made in a directory belongs to whom the broker's files belong: else the broker could not open it.
fn give_to_owner_of(dir: &Path, model: &Path) -> io::Result<()> {
    let owner = fs::metadata(model)?;
    if !rustix::process::geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    let give = |path: &Path| lchown(path, Some(owner.uid()), Some(owner.gid()));
    if fs::metadata(dir)?.uid() == 0 {
        give(dir)?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.metadata()?.uid() == 0 {
            give(&entry.path())?;
        }
    }
    Ok(())
}
