//! A data directory from outside: what `hermitmq log` does with all of its partitions, or with one.
//!
//! Looking and copying may go on beside a broker, which is noticed by the lock it holds; repairing may not.

use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::broker::{parse_deleted_dir_name, parse_dir_name};
use crate::model::Offset;
use crate::storage::backup::{BackupOptions, backup_partition};
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
}

impl DataDir {
    /// Looks what a directory is.
    pub fn open(path: &Path) -> Result<Self, ToolError> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let entries = disk.list(path).map_err(InspectError::at(path))?;
        let parse = |path: &Path| path.file_name().and_then(|name| parse_dir_name(name.to_str()?));
        let has_lock = entries.iter().any(|entry| entry.name == LOCK && !entry.is_dir);
        let dirs = entries.into_iter().filter(|entry| entry.is_dir);
        let mut partitions: Vec<_> = dirs.map(|entry| path.join(entry.name)).collect();
        partitions.retain(|dir| parse(dir).is_some());
        // By topic, then by number: `t_10` is not before `t_9`.
        partitions.sort_by_key(|dir| {
            parse(dir).map(|name| (!name.topic.is_reserved(), name.topic, name.partition))
        });
        let none = partitions.is_empty() && !has_lock;
        let whole = fs::canonicalize(path).map_err(InspectError::at(path))?;
        if is_partition(&disk, path)? || (none && parse(&whole).is_some()) {
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
    pub fn bytes(&self) -> Result<u64, ToolError> {
        let mut bytes = 0;
        for dir in &self.partitions {
            bytes += partition_bytes(&self.disk, dir)?;
        }
        Ok(bytes)
    }

    /// Looks at every byte. Writes nothing. `progress` is told how many bytes were looked at, now and then.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified, ToolError> {
        let mut verified = Verified { dir: self.path.display().to_string(), ..Verified::default() };
        for dir in &self.partitions {
            let mut holder = self.holder()?;
            let mut report = verify_partition(&self.disk, dir, holder.is_some(), progress)?;
            if holder.is_none() && report.severity().is_some() {
                // A broker may have begun to write there just now.
                holder = self.holder()?;
                if holder.is_some() {
                    report = verify_partition(&self.disk, dir, true, progress)?;
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
        findings.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(findings)
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
            if dump_partition(&self.disk, dir, live, range.clone(), &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Puts it right, or says what that would be. No broker may have it. What was done is in `done`, after an error too.
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
        for dir in &self.partitions {
            let (repaired, result) = repair_partition(&env, dir, options, progress);
            done.push(repaired);
            if options.apply {
                give_to_owner_of(dir, dir).map_err(InspectError::at(dir))?;
            }
            result?;
        }
        if let Some(dir) = self.locked_in.as_ref().filter(|_| options.apply) {
            give_to_owner_of(dir, dir).map_err(InspectError::at(dir))?;
        }
        Ok(())
    }

    /// Copies it to a directory that is new or empty, durably. A broker may go on writing meanwhile. With `link`, sealed
    /// segments may be the same files on both sides.
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
        self.copy_files(to, &mut backup)?;
        for dir in &self.partitions {
            self.copy_partition(dir, to, link, &mut backup, progress)?;
        }
        give_to_owner_of(to, &self.path).map_err(InspectError::at(to))?;
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
                let mut entries = fs::read_dir(to).map_err(InspectError::at(to))?;
                if entries.next().is_some() {
                    return Err(ToolError::NotEmpty(to.to_owned()));
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
                if !self.partitions.contains(&entry.path()) {
                    backup.left_out.push(name.to_string_lossy().into_owned());
                }
            } else if kind.is_file() && name != LOCK && name != UNFINISHED {
                let copied = self.disk.duplicate(&entry.path(), &to.join(&name), false);
                match copied {
                    // It was a temporary one.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    result => result.map_err(InspectError::at(entry.path()))?,
                };
                backup.files += 1;
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
            return Ok(());
        }
    }
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
