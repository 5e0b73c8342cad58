//! A range of a segment's bytes, on its way to a socket.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::disk::File;

/// Bytes read at once while warming.
const WARM_STEP: usize = 128 * 1024;

/// Bytes `position .. position + len` of a segment file. Keeps the file open, so a segment that is deleted while it is
/// being sent is sent whole.
#[derive(Debug, Clone)]
pub struct FileSlice {
    file: Arc<dyn File>,
    position: u64,
    len: u64,
}

impl FileSlice {
    pub(super) fn new(file: Arc<dyn File>, position: u64, len: u64) -> Self {
        Self { file, position, len }
    }

    /// First byte of the range, in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes in the range.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first bytes of the range, at most `len`.
    #[must_use]
    pub fn first(&self, len: u64) -> Self {
        Self { len: self.len.min(len), ..self.clone() }
    }

    /// Leaves out the first bytes of the range, those that were sent.
    pub fn advance(&mut self, bytes: u64) {
        let bytes = bytes.min(self.len);
        self.position += bytes;
        self.len -= bytes;
    }

    /// The file's descriptor, for `sendfile`; `None` on a disk without descriptors.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }

    /// Whether sending the range would not wait for the disk, judged by its first and last byte.
    pub fn is_cached(&self) -> bool {
        let last = self.position + self.len.saturating_sub(1);
        self.file.is_cached(self.position) && self.file.is_cached(last)
    }

    /// Has the system begin to read the range into the page cache. May wait for the disk: not for a reactor.
    pub fn read_ahead(&self) {
        self.file.will_read(self.position, self.len);
    }

    /// Reads the range into the page cache. Waits for the disk: not for a reactor.
    pub fn warm(&self) -> io::Result<()> {
        self.file.will_read(self.position, self.len);
        let mut buf = vec![0; WARM_STEP];
        let mut done = 0;
        while done < self.len {
            match self.file.read_at(&mut buf, self.position + done)? {
                0 => break,
                read => done += read as u64,
            }
        }
        Ok(())
    }

    /// Copies bytes from the start of the range into `buf`; returns how many.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(buf.len());
        self.file.read_full_at(&mut buf[..len], self.position)
    }
}
