//! One broker for each data directory.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::disk::Disk as _;
use super::error::is_full;
use super::os_disk::OsDisk;

/// Name of the lock file in the data directory.
const LOCK_FILE: &str = ".lock";

/// A tool that asks for the holder has the lock itself for a moment; it must not keep a broker from starting.
const ATTEMPTS: u32 = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// A data directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It is not a directory, or cannot be created or written.
    #[error(
        "cannot use the data directory {}: {source}; it must be a directory that user id {uid} can write{}, or \
         choose another with --data-dir", path.display(), remedy(source, *uid, path)
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// User id of this process.
        uid: u32,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another broker holds it.
    #[error(
        "the data directory {} is in use by another broker (process {holder}); stop it, or choose another with \
         --data-dir", path.display()
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// Process id that the holder wrote down, or `unknown`.
        holder: String,
    },
}

/// What makes a directory usable, where that is known.
fn remedy(error: &io::Error, uid: u32, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(" (try: chown -R {uid} {})", path.display()),
        io::ErrorKind::ReadOnlyFilesystem => " (mount it for writing)".to_owned(),
        _ if is_full(error) => " (make room there)".to_owned(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            " (something else has that name)".to_owned()
        }
        _ => String::new(),
    }
}

/// The lock on a data directory, held until it is dropped (or the process ends, however it ends).
#[derive(Debug)]
pub struct DirLock {
    _file: fs::File,
}

impl DirLock {
    /// Creates the directory if it is missing, and locks it. Touches no other file in it.
    pub fn acquire(dir: &Path) -> Result<Self, DataDirError> {
        let unusable = |source| DataDirError::Unusable {
            path: dir.to_owned(),
            uid: rustix::process::geteuid().as_raw(),
            source,
        };
        create_dirs(dir).map_err(unusable)?;
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(LOCK_FILE))
            .map_err(unusable)?;
        if !try_lock(&file).map_err(unusable)? {
            return Err(DataDirError::Held { path: dir.to_owned(), holder: holder(&mut file) });
        }
        match write_pid(&mut file) {
            // The lock holds without it, and a full disk is to be read from.
            Err(error) if is_full(&error) => {}
            written => written.map_err(unusable)?,
        }
        Ok(Self { _file: file })
    }

    /// Process id (or `unknown`) of the broker that holds the directory; `None` if none does. Writes nothing.
    pub fn holder(dir: &Path) -> io::Result<Option<String>> {
        let mut file = match fs::File::open(dir.join(LOCK_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(holder(&mut file))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Creates the directory and what is missing above it, durably: what is flushed into it is lost with its name.
fn create_dirs(dir: &Path) -> io::Result<()> {
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    fs::create_dir_all(dir)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        // The parent of a name alone is empty.
        match OsDisk.sync_dir(&Path::new(".").join(parent)) {
            // Who may write there need not be able to open it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Takes the lock, if nobody holds it for longer than a moment.
fn try_lock(file: &fs::File) -> io::Result<bool> {
    for attempt in 1..=ATTEMPTS {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if attempt < ATTEMPTS => {
                thread::sleep(BETWEEN_ATTEMPTS);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn holder(file: &mut fs::File) -> String {
    let mut pid = String::new();
    let read = file.take(32).read_to_string(&mut pid);
    match (read, pid.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => pid.to_string(),
        _ => "unknown".to_owned(),
    }
}

fn write_pid(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
