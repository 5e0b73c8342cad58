//! Looking past what the disk cannot give.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::checksums::BLOCK;
use super::compare::is_medium_error;
use super::disk::{File, Map};

/// A file in which what the disk cannot give reads as zeros, which are no frames: for walking past it.
#[derive(Debug)]
pub(super) struct Forgiving(pub(super) Arc<dyn File>);

impl Forgiving {
    /// Reads up to the end of the block at `position`.
    fn read_block(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let in_block = usize::try_from(BLOCK - position % BLOCK).unwrap_or(usize::MAX);
        let in_file = self.0.len()?.saturating_sub(position);
        let want = buf.len().min(in_block).min(usize::try_from(in_file).unwrap_or(usize::MAX));
        match self.0.read_at(&mut buf[..want], position) {
            Err(error) if is_medium_error(&error) => {
                buf[..want].fill(0);
                Ok(want)
            }
            result => result,
        }
    }
}

impl File for Forgiving {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        match self.0.read_at(buf, position) {
            Err(error) if is_medium_error(&error) => self.read_block(buf, position),
            result => result,
        }
    }

    fn write_at(&self, _buf: &[u8], _position: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn map(&self, _capacity: usize) -> io::Result<Box<dyn Map>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
