//! The real disk.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::io::retry_on_intr;

use super::disk::{Disk, Duplicate, Entry, File, Map, Open};
use super::mmap::FileMap;

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(how != Open::Read)
            .create(matches!(how, Open::Create | Open::Truncate))
            .truncate(how == Open::Truncate)
            .open(path)?;
        Ok(Arc::new(OsFile { file, path: path.to_owned() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn duplicate(&self, from: &Path, to: &Path, link: bool) -> io::Result<Duplicate> {
        if link {
            match fs::hard_link(from, to) {
                Ok(()) => return Ok(Duplicate::Linked),
                Err(error) if is_about_names(&error) => return Err(error),
                // Another file system, or one that has no links, or a policy against them.
                Err(_) => {}
            }
        }
        let mut source = fs::File::open(from)?;
        let mut copy = fs::OpenOptions::new().write(true).create_new(true).open(to)?;
        let how = if clone_of(&source, &copy) {
            Duplicate::Cloned
        } else {
            io::copy(&mut source, &mut copy)?;
            Duplicate::Copied
        };
        copy.set_permissions(source.metadata()?.permissions())?;
        copy.sync_all()?;
        Ok(how)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn has_room_for(&self, files: u64) -> io::Result<()> {
        // The lowest free number: all below it are taken.
        let taken = fs::File::open("/dev/null")?.as_raw_fd();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        if has_room(u64::try_from(taken).unwrap_or(u64::MAX), files, limit) {
            Ok(())
        } else {
            Err(rustix::io::Errno::MFILE.into())
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(path)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

impl OsDisk {
    /// Warns if the file system of `path` never writes in place: then space that is set aside is used up by the first write,
    /// and a later store into a mapped file needs new space.
    pub fn warn_of_copies_on_write(path: &Path) {
        if let Some(file_system) = copies_on_write(path) {
            tracing::warn!(
                path = %path.display(), file_system,
                "this file system writes nothing in place: if it is ever full, a write to a mapped file can end the process; \
                 docs/RELIABILITY.md says what helps"
            );
        }
    }
}

/// The name of the file system of `path`, if it is one of those that are known to write nothing in place.
#[cfg(target_os = "linux")]
fn copies_on_write(path: &Path) -> Option<&'static str> {
    let kind = i128::from(rustix::fs::statfs(path).ok()?.f_type);
    // As `statfs(2)` has them, in 32 bits whatever the type.
    match kind & 0xffff_ffff {
        0x9123_683e => Some("btrfs"),
        0x2fc1_2fc1 => Some("zfs"),
        _ => None,
    }
}

/// The name of the file system of `path`, if it is one of those that are known to write nothing in place.
#[cfg(not(target_os = "linux"))]
fn copies_on_write(_path: &Path) -> Option<&'static str> {
    None
}

/// Copying would fail for the same reason.
fn is_about_names(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

/// Whether the file system has made `copy`, which is empty, share the bytes of `source`.
#[cfg(target_os = "linux")]
fn clone_of(source: &fs::File, copy: &fs::File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

/// Whether the file system has made `copy`, which is empty, share the bytes of `source`.
#[cfg(not(target_os = "linux"))]
fn clone_of(_source: &fs::File, _copy: &fs::File) -> bool {
    false
}

/// A quarter of the descriptors is kept for connections, flushes and new segments.
fn has_room(taken: u64, files: u64, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| taken.saturating_add(files) <= limit - limit / 4)
}

#[derive(Debug)]
struct OsFile {
    file: fs::File,
    path: PathBuf,
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(buf, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        reserve(&self.file, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, position: u64) -> bool {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let mut byte = [0];
        let mut parts = [io::IoSliceMut::new(&mut byte)];
        let read = preadv2(&self.file, &mut parts, position, ReadWriteFlags::NOWAIT);
        // Any other error: a file system that cannot tell, or a fault that the read itself will meet.
        !matches!(read, Err(Errno::AGAIN))
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, position: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(&self.file, position, len, rustix::fs::Advice::WillNeed);
    }

    #[cfg(target_os = "linux")]
    fn forget(&self, position: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(&self.file, position, len, rustix::fs::Advice::DontNeed);
    }

    fn map(&self, capacity: usize) -> io::Result<Box<dyn Map>> {
        Ok(Box::new(FileMap::new(&self.file, &self.path, capacity)?))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(target_os = "linux")]
fn reserve(file: &fs::File, len: u64) -> io::Result<()> {
    let from = file.metadata()?.len();
    if len > from {
        let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| rustix::fs::fallocate(file, keep, from, len - from))?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &fs::File, _len: u64) -> io::Result<()> {
    Ok(())
}

/// Extends the file to `len` with disk space behind every byte, so that writing through a mapping cannot fail.
#[cfg(target_os = "linux")]
pub(super) fn allocate(file: &fs::File, len: u64) -> io::Result<()> {
    // From its end on: what is there has space, and a large file is not gone through each time it grows.
    let from = file.metadata()?.len();
    if len <= from {
        return Ok(());
    }
    let grow = rustix::fs::FallocateFlags::empty();
    match retry_on_intr(|| rustix::fs::fallocate(file, grow, from, len - from)) {
        // Network file systems and those of virtual machines often cannot.
        Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, len),
        result => Ok(result?),
    }
}

/// Extends the file to `len` with disk space behind every byte, so that writing through a mapping cannot fail.
#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(file: &fs::File, len: u64) -> io::Result<()> {
    write_zeros(file, len)
}

/// Extends the file to `len` with zeros; what is there stays.
fn write_zeros(file: &fs::File, len: u64) -> io::Result<()> {
    let zeros = [0; 4096];
    let mut at = file.metadata()?.len();
    while at < len {
        let chunk = usize::try_from(len - at).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all_at(&zeros[..chunk], at)?;
        at += chunk as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_leave_descriptors_for_the_rest() {
        assert!(has_room(10, 182, Some(256)));
        assert!(!has_room(10, 183, Some(256)));
        assert!(!has_room(255, 2, Some(256)));
        assert!(has_room(u64::MAX, 2, None));
        OsDisk.has_room_for(2).unwrap();
        assert!(OsDisk.has_room_for(u64::MAX / 2).is_err());
    }

    #[test]
    fn a_file_is_linked_or_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("from"), b"bytes").unwrap();
        assert_eq!(
            OsDisk.duplicate(&path("from"), &path("link"), true).unwrap(),
            Duplicate::Linked
        );
        let how = OsDisk.duplicate(&path("from"), &path("copy"), false).unwrap();
        assert_ne!(how, Duplicate::Linked);
        fs::write(path("from"), b"other").unwrap();
        assert_eq!(fs::read(path("link")).unwrap(), b"other");
        assert_eq!(fs::read(path("copy")).unwrap(), b"bytes");
        for link in [true, false] {
            let there = OsDisk.duplicate(&path("from"), &path("copy"), link).unwrap_err();
            assert_eq!(there.kind(), io::ErrorKind::AlreadyExists);
            let gone = OsDisk.duplicate(&path("none"), &path("new"), link).unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn most_file_systems_write_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut stat = std::process::Command::new("stat");
        let found = stat.args(["-f", "-c", "%T"]).arg(dir.path()).output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        let expected = ["btrfs", "zfs"].into_iter().find(|name| found.trim() == *name);
        assert_eq!(copies_on_write(dir.path()), expected);
    }

    #[test]
    fn zeros_are_written_behind_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (there, len) in [(0, 0), (0, 1), (3, 4096), (3, 10_000), (5000, 100)] {
            fs::write(&path, vec![7; there]).unwrap();
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            write_zeros(&file, len).unwrap();
            let mut expected = vec![7; there];
            expected.resize(there.max(usize::try_from(len).unwrap()), 0);
            assert!(fs::read(&path).unwrap() == expected, "{there} bytes to {len}");
        }
    }
}
