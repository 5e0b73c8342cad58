//! A disk in memory that knows what was written from what was synced, so that tests can cut its power.
//!
//! * [`SimDisk::kill`]: the process dies. Everything written stays.
//! * [`SimDisk::crash`]: the power goes. What was synced stays. Of the writes since then either a prefix stays (the last
//!   one perhaps in part) or any subset (each perhaps in part), with zeros in the holes; of the directory changes and of
//!   the words stored through a mapping any subset.
//!
//! Both return a new disk and leave the old one to whoever still holds its files. The same seed crashes the same way.

mod inode;
mod seeded;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use self::inode::{Inode, Write, words_of};
pub(crate) use self::seeded::Seeded;
use super::disk::{Disk, Duplicate, Entry, File, Map, Open};

const WORD: usize = size_of::<u64>();

/// What the disk refuses.
#[expect(clippy::struct_excessive_bools, reason = "faults are independent of each other")]
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Bytes that writes may still take before the disk is full; `None` for no limit.
    pub(crate) space: Option<usize>,
    /// The next write takes only this many bytes.
    pub(crate) short_write: Option<usize>,
    /// Growing a mapped file whose path contains this says the disk is full.
    pub(crate) no_grow: Option<&'static str>,
    /// Setting space aside says the disk is full.
    pub(crate) no_reserve: bool,
    /// Creating a file whose path contains this says the disk is full.
    pub(crate) no_create: Option<&'static str>,
    /// Cutting a file fails.
    pub(crate) no_set_len: bool,
    /// The next sync of a file fails, and what it should have written is lost, although memory holds it.
    pub(crate) sync_error: bool,
    /// There are no descriptors: a directory cannot be opened to be synced, and there is no room for more files.
    pub(crate) no_descriptors: bool,
    /// Files that can still be removed and directories synced before that fails; `None` for no limit.
    pub(crate) names_left: Option<usize>,
    /// Changes of any kind that the disk still takes before it takes none at all: what ends the process comes next.
    pub(crate) changes_left: Option<usize>,
    /// Bytes that the file system says it has left; `None` for more than anybody needs.
    pub(crate) free: Option<u64>,
}

impl Faults {
    fn change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => return Err(io::Error::other("simulated")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn change_names(&mut self) -> io::Result<()> {
        self.change()?;
        match &mut self.names_left {
            Some(0) => return Err(io::Error::other("simulated")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

/// The disk. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
    faults: Arc<Mutex<Faults>>,
    syncs: Arc<AtomicUsize>,
}

type Names = BTreeMap<PathBuf, Shared>;

#[derive(Debug, Default)]
struct State {
    names: Names,
    durable_names: Names,
    /// Changes of names since the last sync of their directory.
    changes: Vec<Change>,
    dirs: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone)]
struct Change {
    removed: Option<PathBuf>,
    added: Option<PathBuf>,
    inode: Shared,
}

type Shared = Arc<Mutex<Inode>>;

impl SimDisk {
    /// The disk after the process died: everything written is there, synced or not.
    pub(crate) fn kill(&self) -> Self {
        let state = self.state.lock();
        let mut copy = CopyInodes { copied: Vec::new(), make: Inode::killed };
        let state = State {
            names: copy.names(&state.names),
            durable_names: copy.names(&state.durable_names),
            changes: state
                .changes
                .iter()
                .map(|change| Change { inode: copy.inode(&change.inode), ..change.clone() })
                .collect(),
            dirs: state.dirs.clone(),
        };
        Self { state: Arc::new(Mutex::new(state)), ..Self::default() }
    }

    /// The disk after the power went, as `seed` wants it.
    pub(crate) fn crash(&self, seed: &mut Seeded) -> Self {
        let state = self.state.lock();
        let mut names = state.durable_names.clone();
        for change in &state.changes {
            if seed.coin() {
                change.apply(&mut names);
            }
        }
        let mut copy =
            CopyInodes { copied: Vec::new(), make: |inode: &mut Inode| inode.crashed(seed) };
        let names = copy.names(&names);
        let state = State {
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
            dirs: state.dirs.clone(),
        };
        Self { state: Arc::new(Mutex::new(state)), ..Self::default() }
    }

    /// Changes what the disk refuses.
    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock());
    }

    /// Calls of `sync_data` so far, failed ones included.
    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Ordering::Relaxed)
    }

    /// The bytes of a file; `None` if there is none of that name.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let inode = Arc::clone(self.state.lock().names.get(path)?);
        let mut inode = inode.lock();
        inode.absorb();
        Some(inode.bytes.clone())
    }

    /// Puts a file there (or over another), durably.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        let inode = Arc::new(Mutex::new(Inode::synced(bytes.to_vec())));
        let mut state = self.state.lock();
        state.changes.retain(|change| !change.is_of(path));
        state.names.insert(path.to_owned(), Arc::clone(&inode));
        state.durable_names.insert(path.to_owned(), inode);
    }

    /// Removes a file, durably.
    pub(crate) fn remove(&self, path: &Path) {
        let mut state = self.state.lock();
        state.names.remove(path);
        state.durable_names.remove(path);
        state.changes.retain(|change| !change.is_of(path));
    }

    /// Paths of all files, sorted.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }
}

/// Copies inodes, each once, so that names of one file still share it.
struct CopyInodes<F> {
    copied: Vec<(Shared, Shared)>,
    make: F,
}

impl<F: FnMut(&mut Inode) -> Inode> CopyInodes<F> {
    fn inode(&mut self, inode: &Shared) -> Shared {
        if let Some((_, copy)) = self.copied.iter().find(|(old, _)| Arc::ptr_eq(old, inode)) {
            return Arc::clone(copy);
        }
        let copy = Arc::new(Mutex::new((self.make)(&mut inode.lock())));
        self.copied.push((Arc::clone(inode), Arc::clone(&copy)));
        copy
    }

    fn names(&mut self, names: &Names) -> Names {
        names.iter().map(|(path, inode)| (path.clone(), self.inode(inode))).collect()
    }
}

impl Change {
    fn apply(&self, names: &mut Names) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some(added) = &self.added {
            names.insert(added.clone(), Arc::clone(&self.inode));
        }
    }

    /// The directory that the change is in: renames stay in theirs.
    fn dir(&self) -> Option<&Path> {
        self.added.as_ref().or(self.removed.as_ref())?.parent()
    }

    fn is_of(&self, path: &Path) -> bool {
        self.added.as_deref().or(self.removed.as_deref()) == Some(path)
    }
}

impl State {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        let inode = match state.names.get(path) {
            Some(inode) => Arc::clone(inode),
            None if matches!(how, Open::Existing | Open::Read) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            None => {
                self.faults.lock().change()?;
                let refused = self.faults.lock().no_create;
                if refused.is_some_and(|refused| path.to_string_lossy().contains(refused)) {
                    return Err(full());
                }
                let inode = Shared::default();
                let (removed, added) = (None, Some(path.to_owned()));
                state.change(Change { removed, added, inode: Arc::clone(&inode) });
                inode
            }
        };
        if how == Open::Truncate && !inode.lock().bytes.is_empty() {
            self.faults.lock().change()?;
            inode.lock().set_len(0);
        }
        Ok(Arc::new(SimFile { inode, disk: self.clone(), path: path.to_owned() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        // Directories are durable at once: the tests look at files.
        self.state.lock().dirs.insert(path.to_owned());
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state.lock();
        let files = state.names.keys().map(|path| (path, false));
        let dirs = state.dirs.iter().map(|path| (path, true));
        let here = files.chain(dirs).filter(|(entry, _)| entry.parent() == Some(path));
        Ok(here
            .filter_map(|(entry, is_dir)| {
                Some(Entry { name: entry.file_name()?.to_str()?.to_owned(), is_dir })
            })
            .collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.lock().change()?;
        let mut state = self.state.lock();
        let inode = state.names.get(from).map(Arc::clone);
        let inode = inode.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.change(Change { removed: Some(from.to_owned()), added: Some(to.to_owned()), inode });
        Ok(())
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        let mut state = self.state.lock();
        let inode = state.names.get(from).map(Arc::clone);
        let mut inode = inode.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !link {
            let mut source = inode.lock();
            source.absorb();
            let copy = Inode::synced(source.bytes.clone());
            drop(source);
            inode = Arc::new(Mutex::new(copy));
        }
        state.change(Change { removed: None, added: Some(to.to_owned()), inode });
        Ok(if link { Duplicate::Linked } else { Duplicate::Copied })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.faults.lock().change_names()?;
        let mut state = self.state.lock();
        if let Some(inode) = state.names.get(path).map(Arc::clone) {
            state.change(Change { removed: Some(path.to_owned()), added: None, inode });
        }
        Ok(())
    }

    fn has_room_for(&self, _files: u64) -> io::Result<()> {
        if self.faults.lock().no_descriptors {
            return Err(rustix::io::Errno::MFILE.into());
        }
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.faults.lock().free.unwrap_or(u64::MAX))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.has_room_for(1)?;
        self.faults.lock().change_names()?;
        let mut state = self.state.lock();
        for change in std::mem::take(&mut state.changes) {
            if change.dir() == Some(path) {
                change.apply(&mut state.durable_names);
            } else {
                state.changes.push(change);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    inode: Shared,
    disk: SimDisk,
    path: PathBuf,
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.lock().bytes.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut inode = self.inode.lock();
        inode.absorb();
        let at = usize::try_from(position).unwrap().min(inode.bytes.len());
        let n = buf.len().min(inode.bytes.len() - at);
        buf[..n].copy_from_slice(&inode.bytes[at..at + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        let mut faults = self.disk.faults.lock();
        faults.change()?;
        let mut n = buf.len().min(faults.short_write.take().unwrap_or(usize::MAX));
        if let Some(space) = &mut faults.space {
            if *space == 0 {
                return Err(full());
            }
            n = n.min(*space);
            *space -= n;
        }
        drop(faults);
        let at = usize::try_from(position).unwrap();
        self.inode.lock().do_write(Write::At(at, buf[..n].to_vec()));
        Ok(n)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut faults = self.disk.faults.lock();
        faults.change()?;
        if faults.no_set_len {
            return Err(io::Error::other("simulated"));
        }
        drop(faults);
        self.inode.lock().set_len(usize::try_from(len).unwrap());
        Ok(())
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        if self.disk.faults.lock().no_reserve { Err(full()) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.faults.lock().change()?;
        self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        if std::mem::take(&mut self.disk.faults.lock().sync_error) {
            self.inode.lock().lose();
            return Err(io::Error::other("simulated"));
        }
        self.inode.lock().sync();
        Ok(())
    }

    fn forget(&self, position: u64, len: u64) {
        let start = usize::try_from(position).unwrap();
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        self.inode.lock().forget(start..end);
    }

    fn map(&self, capacity: usize) -> io::Result<Box<dyn Map>> {
        let mut inode = self.inode.lock();
        inode.absorb();
        // All mappings of a file are the same words.
        let words = match &inode.words {
            Some(words) if words.len() >= capacity => Arc::clone(words),
            _ => words_of(&inode.bytes, capacity),
        };
        inode.words = Some(Arc::clone(&words));
        let backed = AtomicUsize::new((inode.bytes.len() / WORD).min(capacity));
        drop(inode);
        let (inode, disk) = (Mutex::new(Some(Arc::clone(&self.inode))), self.disk.clone());
        let path = self.path.clone();
        Ok(Box::new(SimMap { words, backed, capacity, inode, disk, path }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[derive(Debug)]
struct SimMap {
    words: Arc<[AtomicU64]>,
    backed: AtomicUsize,
    capacity: usize,
    inode: Mutex<Option<Shared>>,
    disk: SimDisk,
    path: PathBuf,
}

impl SimMap {
    fn refuses_to_grow(&self) -> bool {
        let refused = self.disk.faults.lock().no_grow;
        refused.is_some_and(|refused| self.path.to_string_lossy().contains(refused))
    }
}

impl Map for SimMap {
    fn words(&self) -> &[AtomicU64] {
        &self.words[..self.backed.load(Ordering::Acquire)]
    }

    fn grow(&self, words: usize) -> io::Result<()> {
        if words <= self.backed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.disk.faults.lock().change()?;
        let inode = self.inode.lock();
        match &*inode {
            Some(inode) if words <= self.capacity && !self.refuses_to_grow() => {
                inode.lock().set_len(words * WORD);
            }
            _ => return Err(full()),
        }
        self.backed.fetch_max(words, Ordering::AcqRel);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn seal(&self, words: usize) -> io::Result<()> {
        if let Some(inode) = self.inode.lock().take() {
            self.disk.faults.lock().change()?;
            self.backed.fetch_min(words, Ordering::AcqRel);
            let mut inode = inode.lock();
            if inode.bytes.len() != words * WORD {
                inode.set_len(words * WORD);
            }
        }
        Ok(())
    }
}

#[test]
fn the_same_seed_crashes_the_same_way() {
    let disk = SimDisk::default();
    let path = Path::new("/file");
    let file = disk.open(path, Open::Create).unwrap();
    file.write_all_at(b"synced", 0).unwrap();
    file.sync_data().unwrap();
    let named = |seed| disk.crash(&mut Seeded::new(seed)).read(path);
    assert!((0..50).any(|seed| named(seed).is_none()), "a name that was not synced may be lost");
    disk.sync_dir(Path::new("/")).unwrap();
    for number in 0..10 {
        file.write_all_at(&[number; 10], 6 + u64::from(number) * 10).unwrap();
    }
    let whole = disk.read(path).unwrap();
    let mut lengths = BTreeSet::new();
    let mut holes = 0;
    for seed in 0..200 {
        let found = named(seed).unwrap();
        assert!(found.starts_with(b"synced"));
        let written = |(now, then): (&u8, &u8)| now == then || *now == 0;
        assert!(found.iter().zip(&whole).all(written), "each byte is there, or was not written");
        holes += usize::from(!whole.starts_with(&found));
        assert_eq!(named(seed), Some(found.clone()));
        lengths.insert(found.len());
    }
    assert!(lengths.contains(&6) && lengths.contains(&whole.len()));
    assert!(lengths.iter().any(|len| len % 10 != 6), "torn inside a write");
    assert!(holes > 0, "what was written later may be there, and what was before it not");
    assert_eq!(disk.kill().read(path), Some(whole));
}
