//! Temporary directories, and what a signal must not leave behind.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::failure::Failure;

/// Memory as a file system, where Linux has it.
const MEMORY: &str = "/dev/shm";

/// Free bytes that memory must have to be used: containers have 64 MiB of it, and what is measured writes more.
const MEMORY_MIN: u64 = 1 << 30;

/// Whether there is room for what is measured.
fn has_room(path: &Path) -> bool {
    let free = rustix::fs::statvfs(path).map(|stat| stat.f_bavail * stat.f_frsize);
    free.is_ok_and(|free| free >= MEMORY_MIN)
}

/// Something that outlives this process unless it is cleaned up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leftover {
    /// A directory and all that is in it.
    Dir(PathBuf),
    /// A child process.
    Process(u32),
}

static LEFTOVERS: Mutex<Vec<Leftover>> = Mutex::new(Vec::new());

fn leftovers() -> MutexGuard<'static, Vec<Leftover>> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cleans up, and does what is to end the process.
pub(super) fn clean_up_and(end: impl FnOnce()) {
    // Held to the end: nothing new is made, and nobody else reports that what it used is gone.
    let leftovers = leftovers();
    // The youngest first: processes before the directories they write to.
    leftovers.iter().rev().for_each(clean_up);
    end();
}

fn clean_up(leftover: &Leftover) {
    match leftover {
        Leftover::Process(pid) => {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        Leftover::Dir(path) => {
            // A broker that is just ending may still add a file.
            for _ in 0..50 {
                if fs::remove_dir_all(path).is_ok() || !path.exists() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Notes something to clean up.
pub(super) fn remember(leftover: Leftover) {
    leftovers().push(leftover);
}

/// Forgets what is cleaned up.
pub(super) fn forget(leftover: &Leftover) {
    leftovers().retain(|other| other != leftover);
}

/// A temporary directory; removed when dropped, or by a signal.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new directory in `parent`, else in memory if there is room, else where the system has its temporary files.
    pub(super) fn new(parent: Option<&Path>) -> Result<Self, Failure> {
        let memory = Some(Path::new(MEMORY)).filter(|path| has_room(path));
        let parent = parent.or(memory).map_or_else(std::env::temp_dir, Path::to_path_buf);
        let random = RandomState::new().build_hasher().finish();
        let path = parent.join(format!("hermitmq-{random:016x}"));
        let cannot = |error| Failure::runtime(&format!("cannot create {}", path.display()), &error);
        // Children run elsewhere, so the path must not depend on where this process runs.
        let path = std::path::absolute(&path).map_err(cannot)?;
        remember(Leftover::Dir(path.clone()));
        let scratch = Self(path);
        fs::create_dir(&scratch.0).map_err(|error| {
            Failure::runtime(&format!("cannot create {}", scratch.0.display()), &error)
        })?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let leftover = Leftover::Dir(self.0.clone());
        clean_up(&leftover);
        forget(&leftover);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_away_with_its_files() {
        let scratch = Scratch::new(Some(&std::env::temp_dir())).unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        assert!(leftovers().contains(&Leftover::Dir(path.clone())));
        drop(scratch);
        assert!(!path.exists());
        assert!(!leftovers().contains(&Leftover::Dir(path)));
    }

    #[test]
    fn a_missing_parent_is_said() {
        let failure = Scratch::new(Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(failure.to_string().starts_with("cannot create /nonexistent/"), "{failure}");
    }
}
