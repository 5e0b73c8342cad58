//! A disk in memory that knows what was written from what was synced, so that tests can cut its power.
//!
//! * [`SimDisk::kill`]: the process dies. Everything written stays.
//! * [`SimDisk::crash`]: the power goes. What was synced stays. Of the writes since then either a prefix stays (the last
//!   one perhaps in part) or any subset (each perhaps in part), with zeros in the holes; of the directory changes and of
//!   the words stored through a mapping any subset.
//!
//! Both return a new disk and leave the old one to whoever still holds its files. The same seed crashes the same way.

mod inode;
mod names;
mod over;
mod seeded;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use self::inode::{Inode, Write, words_of};
use self::names::{Change, Shared, State};
pub(crate) use self::over::{DiskOver, FileOver};
pub(crate) use self::seeded::Seeded;
use super::disk::{Disk, Duplicate, Entry, File, Map, Open};

const WORD: usize = size_of::<u64>();

/// What the disk refuses.
#[expect(clippy::struct_excessive_bools, reason = "faults are independent of each other")]
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Bytes that writes may still take before the disk is full; `None` for no limit.
    pub(crate) space: Option<usize>,
    /// These bytes of files whose path contains this cannot be read.
    pub(crate) unreadable: Option<(&'static str, std::ops::Range<u64>)>,
    /// The next write takes only this many bytes.
    pub(crate) short_write: Option<usize>,
    /// Growing a mapped file whose path contains this says the disk is full.
    pub(crate) no_grow: Option<&'static str>,
    /// Setting space aside says the disk is full.
    pub(crate) no_reserve: bool,
    /// Creating a file whose path contains this says the disk is full.
    pub(crate) no_create: Option<&'static str>,
    /// Renaming says the disk is full.
    pub(crate) no_rename: bool,
    /// Removing a directory whose path contains this fails.
    pub(crate) no_remove: Option<&'static str>,
    /// Cutting a file fails.
    pub(crate) no_set_len: bool,
    /// The next sync of a file fails, and what it should have written is lost, although memory holds it.
    pub(crate) sync_error: bool,
    /// There are no descriptors: a directory cannot be opened to be synced, and there is no room for more files.
    pub(crate) no_descriptors: bool,
    /// Files and directories that can still be removed, directories renamed, and directories synced before that fails;
    /// `None` for no limit.
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

impl SimDisk {
    /// The disk after the process died: everything written is there, synced or not.
    pub(crate) fn kill(&self) -> Self {
        let state = self.state.lock().killed();
        Self { state: Arc::new(Mutex::new(state)), ..Self::default() }
    }

    /// The disk after the power went, as `seed` wants it.
    pub(crate) fn crash(&self, seed: &mut Seeded) -> Self {
        let state = self.state.lock().crashed(seed);
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
        let inode = Arc::clone(self.state.lock().now.files.get(path)?);
        let mut inode = inode.lock();
        inode.absorb();
        Some(inode.bytes.clone())
    }

    /// Puts a file there (or over another), durably.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        let inode = Arc::new(Mutex::new(Inode::synced(bytes.to_vec())));
        let mut state = self.state.lock();
        state.settle(path);
        state.now.files.insert(path.to_owned(), Arc::clone(&inode));
        state.durable.files.insert(path.to_owned(), inode);
    }

    /// Removes a file, durably.
    pub(crate) fn remove(&self, path: &Path) {
        let mut state = self.state.lock();
        state.now.files.remove(path);
        state.durable.files.remove(path);
        state.settle(path);
    }

    /// Paths of all files, sorted.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.state.lock().now.files.keys().cloned().collect()
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        let inode = match state.now.files.get(path) {
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
                state.change(Change::File { removed, added, inode: Arc::clone(&inode) });
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
        // New directories are durable at once: the tests look at files.
        let mut state = self.state.lock();
        state.now.dirs.insert(path.to_owned());
        state.durable.dirs.insert(path.to_owned());
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state.lock();
        let files = state.now.files.keys().map(|path| (path, false));
        let dirs = state.now.dirs.iter().map(|path| (path, true));
        let here = files.chain(dirs).filter(|(entry, _)| entry.parent() == Some(path));
        Ok(here
            .filter_map(|(entry, is_dir)| {
                Some(Entry { name: entry.file_name()?.to_str()?.to_owned(), is_dir })
            })
            .collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.lock().change()?;
        if self.faults.lock().no_rename {
            return Err(full());
        }
        let mut state = self.state.lock();
        if state.now.dirs.contains(from) {
            self.faults.lock().change_names()?;
            assert!(!state.now.dirs.contains(to), "two directories of one name");
            state.change(Change::Dir { from: from.to_owned(), to: to.to_owned() });
            return Ok(());
        }
        let inode = state.now.files.get(from).map(Arc::clone);
        let inode = inode.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let (removed, added) = (Some(from.to_owned()), Some(to.to_owned()));
        state.change(Change::File { removed, added, inode });
        Ok(())
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        let mut state = self.state.lock();
        let inode = state.now.files.get(from).map(Arc::clone);
        let mut inode = inode.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if state.now.files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !link {
            let mut source = inode.lock();
            source.absorb();
            let copy = Inode::synced(source.bytes.clone());
            drop(source);
            inode = Arc::new(Mutex::new(copy));
        }
        state.change(Change::File { removed: None, added: Some(to.to_owned()), inode });
        Ok(if link { Duplicate::Linked } else { Duplicate::Copied })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.faults.lock().change_names()?;
        let mut state = self.state.lock();
        if let Some(inode) = state.now.files.get(path).map(Arc::clone) {
            state.change(Change::File { removed: Some(path.to_owned()), added: None, inode });
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let refused = self.faults.lock().no_remove;
        if refused.is_some_and(|refused| path.to_string_lossy().contains(refused)) {
            return Err(io::Error::other("simulated"));
        }
        self.faults.lock().change_names()?;
        let mut state = self.state.lock();
        // Durable at once: nobody looks for it any more.
        state.settle(path);
        let State { now, durable, .. } = &mut *state;
        for tree in [now, durable] {
            tree.files.retain(|file, _| !file.starts_with(path));
            tree.dirs.retain(|dir| !dir.starts_with(path));
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
        self.state.lock().sync(path);
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
        let unreadable = self.disk.faults.lock().unreadable.clone();
        if let Some((path, bytes)) = unreadable
            && self.path.to_string_lossy().contains(path)
            && position < bytes.end
            && position + buf.len() as u64 > bytes.start
        {
            return Err(rustix::io::Errno::IO.into());
        }
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
        let inode = self.inode.lock().take();
        if let Some(inode) = inode {
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
