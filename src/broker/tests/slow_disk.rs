//! A disk whose syncs of files wait at a gate, and which notes how they meet there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::storage::sim_disk::{DiskOver, FileOver, SimDisk};
use crate::storage::{Disk, File, Open};

/// Longest wait at the gate.
const HANG: Duration = Duration::from_secs(20);

/// The disk. Clones share it; so does the [`SimDisk`] in it.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowDisk {
    pub(super) disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// For syncs in this directory alone.
    only: Option<PathBuf>,
    /// So many may pass all the same.
    passes: usize,
    /// What a sync takes once it is through.
    pause: Duration,
    /// Directories of the files whose syncs are in the gate or behind it.
    inside: Vec<PathBuf>,
    /// Two syncs in one directory at once.
    met: bool,
}

impl SlowDisk {
    /// Syncs wait from now on.
    pub(super) fn close(&self) {
        self.gate.state.lock().closed = true;
    }

    /// Syncs in this directory wait from now on.
    pub(super) fn close_in(&self, dir: &Path) {
        let mut state = self.gate.state.lock();
        (state.closed, state.only) = (true, Some(dir.to_owned()));
    }

    /// Lets those through that wait, and all that come.
    pub(super) fn open(&self) {
        let mut state = self.gate.state.lock();
        (state.closed, state.passes) = (false, 0);
        drop(state);
        self.gate.opened.notify_all();
    }

    /// Lets one through.
    pub(super) fn pass_one(&self) {
        self.gate.state.lock().passes += 1;
        self.gate.opened.notify_all();
    }

    /// Whether whoever was let through is through.
    pub(super) fn passed(&self) -> bool {
        self.gate.state.lock().passes == 0
    }

    /// Each sync takes this long.
    pub(super) fn pause(&self, pause: Duration) {
        self.gate.state.lock().pause = pause;
    }

    /// Syncs that have begun and not ended.
    pub(super) fn syncing(&self) -> usize {
        self.gate.state.lock().inside.len()
    }

    /// Whether ever two syncs were in one directory at once.
    pub(super) fn met(&self) -> bool {
        self.gate.state.lock().met
    }
}

impl Gate {
    fn enter(&self, dir: &Path) {
        let mut state = self.state.lock();
        state.met |= state.inside.iter().any(|inside| inside == dir);
        state.inside.push(dir.to_owned());
        let kept_out = state.only.as_ref().is_none_or(|only| only == dir);
        while kept_out && state.closed && state.passes == 0 {
            // A test that fails with the gate closed must end all the same.
            state.closed &= !self.opened.wait_for(&mut state, HANG).timed_out();
        }
        state.passes = state.passes.saturating_sub(1);
        let pause = state.pause;
        drop(state);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }

    fn leave(&self, dir: &Path) {
        let mut state = self.state.lock();
        let at = state.inside.iter().position(|inside| inside == dir).unwrap();
        state.inside.swap_remove(at);
    }
}

impl DiskOver for SlowDisk {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let (file, gate) = (self.disk.open(path, how)?, Arc::clone(&self.gate));
        Ok(Arc::new(SlowFile { file, dir: path.parent().unwrap().to_owned(), gate }))
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    dir: PathBuf,
    gate: Arc<Gate>,
}

impl FileOver for SlowFile {
    fn file(&self) -> &dyn File {
        &*self.file
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.enter(&self.dir);
        let result = self.file.sync_data();
        self.gate.leave(&self.dir);
        result
    }
}
