//! Linux: `sendfile(2)`.

use std::io;

use mio::net::TcpStream;

use crate::storage::file_slice::FileSlice;

/// Sends bytes from the start of the slice; returns how many. `WouldBlock` if the socket takes none now.
pub(in crate::net) fn send_file(socket: &TcpStream, slice: &FileSlice) -> io::Result<usize> {
    let Some(file) = slice.fd() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut position = slice.position();
    let len = usize::try_from(slice.len()).unwrap_or(usize::MAX);
    loop {
        match rustix::fs::sendfile(socket, file, Some(&mut position), len) {
            // The slice lies within the file: fewer bytes than published means that someone cut the file.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(sent) => return Ok(sent),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
