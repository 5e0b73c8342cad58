//! macOS: `sendfile(2)`, whose signature is its own.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;

use crate::storage::file_slice::FileSlice;

/// Sends bytes from the start of the slice; returns how many. `WouldBlock` if the socket takes none now.
pub(in crate::net) fn send_file(socket: &TcpStream, slice: &FileSlice) -> io::Result<usize> {
    let Some(file) = slice.fd() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let position = libc::off_t::try_from(slice.position()).map_err(out_of_range)?;
    let mut len = libc::off_t::try_from(slice.len()).map_err(out_of_range)?;
    // SAFETY: both descriptors are open for as long as the borrows live; `len` is a valid, exclusive pointer to an
    // `off_t`, in and out; the header pointer may be null.
    let result = unsafe {
        libc::sendfile(
            file.as_raw_fd(),
            socket.as_raw_fd(),
            position,
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    // Bytes may have been sent even where the call says that it was interrupted or would block.
    match (result, usize::try_from(len).unwrap_or(0)) {
        (0, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, sent) if sent > 0 => Ok(sent),
        _ => Err(io::Error::last_os_error()),
    }
}
