//! A transport without a reactor: what fuzzing and its twin drive.

use std::io;
use std::net::TcpStream;

use super::{Read, Transport};
use crate::tls::Tls;

/// The broker's end of a connection, as a reactor has it.
#[derive(Debug)]
pub struct Endpoint(Transport);

impl Endpoint {
    /// The listener's side of `socket`, which must not block.
    pub fn new(socket: TcpStream, tls: &Tls) -> Self {
        let socket = mio::net::TcpStream::from_std(socket);
        Self(Transport::new(socket, Some((tls.mode(), tls.config()))))
    }

    /// Reads into `buf`: how many bytes, 0 at the end, and whether there may be more. `WouldBlock` if nothing is there now.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<(usize, bool)> {
        self.0.read(buf).map(|Read { len, more }| (len, more))
    }

    /// Writes from the start of `bytes`: how many were taken. `WouldBlock` if none is now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// Sends what is kept; false if the socket does not take all of it now.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.0.flush()
    }

    /// Says the end; false if the socket does not take that now.
    pub fn finish(&mut self) -> io::Result<bool> {
        self.0.finish()
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.is_tls()
    }

    /// What is wrong, if it is not the socket.
    pub fn failure(&self) -> Option<String> {
        self.0.failure().map(|failure| failure.text)
    }
}
