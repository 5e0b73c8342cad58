//! The names of a disk's files and directories: now, on the platter, and what happened in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::inode::Inode;
use super::seeded::Seeded;

pub(super) type Shared = Arc<Mutex<Inode>>;

/// Names at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<PathBuf, Shared>,
    pub(super) dirs: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) now: Tree,
    pub(super) durable: Tree,
    /// Changes of names since the last sync of their directory.
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    File {
        removed: Option<PathBuf>,
        added: Option<PathBuf>,
        inode: Shared,
    },
    /// A directory was renamed, with all that is in it.
    Dir {
        from: PathBuf,
        to: PathBuf,
    },
}

impl Change {
    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::File { removed, added, inode } => {
                if let Some(removed) = removed {
                    tree.files.remove(removed);
                }
                if let Some(added) = added {
                    tree.files.insert(added.clone(), Arc::clone(inode));
                }
            }
            Self::Dir { from, to } => {
                let files = std::mem::take(&mut tree.files);
                tree.files =
                    files.into_iter().map(|(path, file)| (moved(path, from, to), file)).collect();
                let dirs = std::mem::take(&mut tree.dirs);
                tree.dirs = dirs.into_iter().map(|path| moved(path, from, to)).collect();
            }
        }
    }

    /// What it is about.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::File { removed, added, .. } => added.as_deref().or(removed.as_deref()),
            Self::Dir { to, .. } => Some(to),
        }
    }

    /// The directory that the change is in: renames stay in theirs.
    fn dir(&self) -> Option<&Path> {
        self.path()?.parent()
    }

    /// The same in a directory that has another name now.
    fn follow(self, from: &Path, to: &Path) -> Self {
        match self {
            Self::File { removed, added, inode } => Self::File {
                removed: removed.map(|path| moved(path, from, to)),
                added: added.map(|path| moved(path, from, to)),
                inode,
            },
            dir @ Self::Dir { .. } => dir,
        }
    }
}

/// The path after a directory was renamed.
fn moved(path: PathBuf, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path,
    }
}

impl State {
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    /// Forgets the changes of a path and of all below it.
    pub(super) fn settle(&mut self, path: &Path) {
        self.changes.retain(|change| !change.path().is_some_and(|of| of.starts_with(path)));
    }

    /// Makes the entries of a directory durable.
    pub(super) fn sync(&mut self, dir: &Path) {
        for change in std::mem::take(&mut self.changes) {
            if change.dir() == Some(dir) {
                change.apply(&mut self.durable);
                if let Change::Dir { from, to } = &change {
                    let before = std::mem::take(&mut self.changes);
                    self.changes = before.into_iter().map(|other| other.follow(from, to)).collect();
                }
            } else {
                self.changes.push(change);
            }
        }
    }

    /// The names after the process died.
    pub(super) fn killed(&self) -> Self {
        let mut copy = CopyInodes { copied: Vec::new(), make: Inode::killed };
        Self {
            now: copy.tree(&self.now),
            durable: copy.tree(&self.durable),
            changes: self
                .changes
                .iter()
                .map(|change| match change {
                    Change::File { removed, added, inode } => Change::File {
                        removed: removed.clone(),
                        added: added.clone(),
                        inode: copy.inode(inode),
                    },
                    dir @ Change::Dir { .. } => dir.clone(),
                })
                .collect(),
        }
    }

    /// The names after the power went.
    pub(super) fn crashed(&self, seed: &mut Seeded) -> Self {
        let mut tree = self.durable.clone();
        for change in &self.changes {
            if seed.coin() {
                change.apply(&mut tree);
            }
        }
        let make = |inode: &mut Inode| inode.crashed(seed);
        let tree = CopyInodes { copied: Vec::new(), make }.tree(&tree);
        Self { durable: tree.clone(), now: tree, changes: Vec::new() }
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

    fn tree(&mut self, tree: &Tree) -> Tree {
        let files = tree.files.iter().map(|(path, inode)| (path.clone(), self.inode(inode)));
        Tree { files: files.collect(), dirs: tree.dirs.clone() }
    }
}
