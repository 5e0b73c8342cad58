//! Systems without a usable `sendfile`: the bytes are copied through a buffer.

use std::io::{self, Write};

use mio::net::TcpStream;

use crate::storage::file_slice::FileSlice;

/// Sends bytes from the start of the slice; returns how many. `WouldBlock` if the socket takes none now.
pub(in crate::net) fn send_file(mut socket: &TcpStream, slice: &FileSlice) -> io::Result<usize> {
    let mut buf = [0; 64 * 1024];
    match slice.read(&mut buf)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => socket.write(&buf[..read]),
    }
}
