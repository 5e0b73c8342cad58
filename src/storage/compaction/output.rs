//! A segment that takes the place of others, while it is written beside them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::Offset;
use crate::storage::checksums::{BLOCK, Checksums, Mark, Note};
use crate::storage::disk::{Disk, File, Open};
use crate::storage::index::{IndexEntry, IndexPolicy, OffsetIndex};
use crate::storage::{replace, segment};

/// Bytes collected before they are written.
const BATCH: usize = 256 * 1024;

/// The files of a segment that is being written: `BASE.wal.tmp`, `BASE.sum.swap`, `BASE.idx.tmp`.
#[derive(Debug)]
pub(super) struct Output {
    dir: Arc<Path>,
    base: Offset,
    file: Arc<dyn File>,
    sums: Checksums,
    index: OffsetIndex,
    policy: IndexPolicy,
    /// Checksum of the last block so far.
    tail: u32,
    buf: Vec<u8>,
    /// Bytes before those in `buf`.
    written: u64,
}

impl Output {
    /// Begins a segment that will have at most `most` bytes. `created_ns` is when its first records came.
    pub(super) fn begin(
        disk: &dyn Disk,
        dir: &Arc<Path>,
        base: Offset,
        created_ns: u64,
        most: u64,
    ) -> io::Result<Self> {
        let path = |extension| segment::path(dir, base, extension);
        let file = disk.open(&path(replace::WAL_TEMPORARY), Open::Truncate)?;
        let sums = Checksums::create(disk, &path(replace::SUM_SWAP), base, created_ns, most)?;
        let idx = path(replace::IDX_TEMPORARY);
        disk.open(&idx, Open::Truncate)?;
        let index = OffsetIndex::open_active(disk, &idx, 0, most)?;
        Ok(Self {
            dir: Arc::clone(dir),
            base,
            file,
            sums,
            index,
            policy: IndexPolicy::default(),
            tail: 0,
            buf: Vec::with_capacity(BATCH),
            written: 0,
        })
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    /// What is appended next begins a frame with this offset.
    pub(super) fn begin_frame(&mut self, offset: Offset) {
        let position = self.len();
        if self.policy.wants(position) {
            self.index.push(IndexEntry { offset, position });
        }
    }

    /// Appends bytes; returns how many were written to the file.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.buf.extend_from_slice(bytes);
        if self.buf.len() < BATCH { Ok(0) } else { self.write() }
    }

    fn write(&mut self) -> io::Result<u64> {
        let len = self.buf.len() as u64;
        self.sums.reserve(self.written + len)?;
        self.file.write_all_at(&self.buf, self.written)?;
        self.sums.extend(self.written, &self.buf, &mut self.tail);
        self.written += len;
        self.buf.clear();
        Ok(len)
    }

    /// Makes everything durable but the names. `at_ns` is when its last record came.
    pub(super) fn complete(mut self, disk: &dyn Disk, note: Note, at_ns: u64) -> io::Result<Done> {
        self.write()?;
        let Self { dir, base, file, sums, index, tail, written: position, .. } = self;
        file.sync_data()?;
        sums.set_note(Some(note));
        sums.seal(position)?;
        let partial = if position.is_multiple_of(BLOCK) { 0 } else { tail };
        sums.sync_with(Mark { position, next_offset: note.covers, at_ns, partial })?;
        // The confirmation too.
        sums.sync()?;
        // One that could not be written whole is noticed by the next start.
        index.seal()?;
        drop(index);
        disk.open(&segment::path(&dir, base, replace::IDX_TEMPORARY), Open::Existing)?
            .sync_data()?;
        Ok(Done { dir, base, file, len: position, note, began_ns: sums.began_ns(), at_ns })
    }
}

/// A segment that is durable, but for its names.
#[derive(Debug)]
pub(super) struct Done {
    dir: Arc<Path>,
    pub(super) base: Offset,
    pub(super) file: Arc<dyn File>,
    pub(super) len: u64,
    pub(super) note: Note,
    pub(super) began_ns: u64,
    pub(super) at_ns: u64,
}

impl Done {
    fn path(&self, extension: &str) -> PathBuf {
        segment::path(&self.dir, self.base, extension)
    }

    /// Gives the index its name and opens it. Without one, lookups walk the segment until the next start.
    pub(super) fn index(&self, disk: &dyn Disk) -> OffsetIndex {
        let idx = self.path(segment::IDX);
        let renamed = disk.rename(&self.path(replace::IDX_TEMPORARY), &idx);
        let opened = renamed.and_then(|()| OffsetIndex::open_sealed(disk, &idx, self.len));
        opened.unwrap_or_else(|error| {
            tracing::warn!(index = %idx.display(), %error, "no offset index; lookups walk the segment");
            OffsetIndex::none()
        })
    }
}

/// Takes away what was written of a segment that will not take another's place. What stays, the next start removes.
pub(super) fn discard(disk: &dyn Disk, dir: &Path, base: Offset) {
    for extension in [replace::WAL_TEMPORARY, replace::SUM_SWAP, replace::IDX_TEMPORARY] {
        let path = segment::path(dir, base, extension);
        if let Err(error) = disk.remove_file(&path) {
            tracing::debug!(file = %path.display(), %error, "not removed");
        }
    }
}
