//! TLS on a socket that does not block.

use std::io::{self, Read as _, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{Error, ServerConfig, ServerConnection};

use super::{Failure, Read, UNSENT_MAX, retried};
use crate::metrics::TlsFailure;
use crate::tls::principal;

/// With less room than this nothing is decrypted in place.
const IN_PLACE_MIN: usize = 4 * 1024;

/// Reads of what comes behind a failure, before others get their turn.
const DISCARDS_PER_TURN: usize = 16;

/// The state of one TLS connection, of its handshake and behind it.
#[derive(Debug)]
pub(super) struct TlsState {
    connection: ServerConnection,
    /// Why it cannot go on: it was told to the peer as far as its socket took it.
    failure: Option<Failure>,
    /// A read has said so.
    failure_told: bool,
    /// The socket has nothing more behind what was read.
    ended: bool,
    /// The end was said.
    end_said: bool,
    /// Encrypted bytes that the socket has taken.
    flushed: u64,
}

impl TlsState {
    pub(super) fn new(config: Arc<ServerConfig>) -> io::Result<Box<Self>> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(UNSENT_MAX));
        Ok(Box::new(Self {
            connection,
            failure: None,
            failure_told: false,
            ended: false,
            end_said: false,
            flushed: 0,
        }))
    }

    /// What was decrypted before comes first. Else the socket is read into `buf` and decrypted there, piece by piece: what comes
    /// out of a record is shorter than it, so it fits into the place of what is done with. The socket is read once: nothing may
    /// come of that, but there may be more then. Behind [`TlsState::say_end`] bytes are as they come, of use to nobody.
    pub(super) fn read(&mut self, socket: &mut TcpStream, buf: &mut [u8]) -> io::Result<Read> {
        if self.end_said {
            // What comes behind the own end is dropped by whoever reads it. rustls is to answer none of it: it has said its end.
            let len = retried(|| socket.read(buf))?;
            return Ok(Read { len, more: len == buf.len() });
        }
        let mut len = self.take(buf);
        if self.failure.is_some() && len == 0 {
            return self.discard(socket, buf);
        }
        if self.failure.is_some() || len == buf.len() {
            return Ok(Read { len, more: true });
        }
        if self.ended {
            // What is left of a record that was cut off means nothing.
            return Ok(Read { len, more: false });
        }
        let before = len;
        let full = match self.read_once(socket, buf, &mut len) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && len > 0 => {
                return Ok(Read { len, more: false });
            }
            full => full?,
        };
        // Nothing comes of the start of a record, of the handshake, or of records that hold nothing, of which there may be very
        // many. A socket that is empty says so itself.
        let nothing = len == before;
        let more = nothing || full || self.ended || self.failure.is_some() || self.has_plaintext();
        Ok(Read { len, more })
    }

    /// Reads the socket once, and puts what comes of it at `buf[len..]`. Whether the socket may have more, by the bytes that
    /// came.
    fn read_once(
        &mut self,
        socket: &mut TcpStream,
        buf: &mut [u8],
        len: &mut usize,
    ) -> io::Result<bool> {
        if buf.len() - *len < IN_PLACE_MIN {
            // A record would take many reads. What comes of it and does not fit stays with rustls.
            let got = retried(|| self.connection.read_tls(socket))?;
            self.ended |= got == 0;
            self.process(socket)?;
            *len += self.take(&mut buf[*len..]);
            return Ok(true);
        }
        let got = retried(|| socket.read(&mut buf[*len..]))?;
        self.ended |= got == 0;
        let full = *len + got == buf.len();
        *len = self.decrypt(socket, buf, *len, got)?;
        Ok(full)
    }

    /// Decrypts the `got` bytes at `buf[at..]` to the same place; returns where what came of them ends.
    fn decrypt(
        &mut self,
        socket: &mut TcpStream,
        buf: &mut [u8],
        at: usize,
        got: usize,
    ) -> io::Result<usize> {
        let (mut done, end) = (at, at + got);
        let mut len = at;
        while done < end && self.failure.is_none() {
            match self.connection.read_tls(&mut &buf[done..end])? {
                // The peer has said its end: what comes behind it means nothing.
                0 => break,
                read => done += read,
            }
            self.process(socket)?;
            len += self.take(&mut buf[len..done]);
        }
        Ok(len)
    }

    /// Acts on the records that are complete: answers those of the handshake.
    fn process(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.ended |= state.peer_has_closed();
                if self.connection.wants_write() {
                    self.flush(socket)?;
                }
                Ok(())
            }
            Err(error) => {
                self.failure = Some(Failure { kind: kind_of(&error), text: error.to_string() });
                // The alert, and the end. The peer may be gone already.
                if self.flush(socket).is_ok() {
                    let _ = socket.shutdown(Shutdown::Write);
                }
                Ok(())
            }
        }
    }

    /// Behind a failure, which is told once: what the peer still sends is read and dropped, so that closing does not take back the
    /// alert that is on its way to it.
    fn discard(&mut self, socket: &mut TcpStream, buf: &mut [u8]) -> io::Result<Read> {
        if !std::mem::replace(&mut self.failure_told, true) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for _ in 0..DISCARDS_PER_TURN {
            if retried(|| socket.read(buf))? == 0 {
                return Ok(Read { len: 0, more: false });
            }
        }
        // One that sends for ever is not read for ever.
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Takes what is decrypted; 0 if there is nothing, or nothing fits.
    fn take(&mut self, buf: &mut [u8]) -> usize {
        let mut len = 0;
        while len < buf.len() {
            match self.connection.reader().read(&mut buf[len..]) {
                Ok(read @ 1..) => len += read,
                // Nothing more, for now or because the socket has ended.
                Ok(0) | Err(_) => break,
            }
        }
        len
    }

    /// Whether something is decrypted and was not taken.
    fn has_plaintext(&mut self) -> bool {
        use std::io::BufRead as _;
        self.connection.reader().fill_buf().is_ok_and(|plaintext| !plaintext.is_empty())
    }

    /// Encrypts bytes from the start of `bytes` and sends them, unless earlier ones are kept here; what the socket does not take
    /// is kept.
    pub(super) fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        if self.failure.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.flush(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.connection.writer().write(bytes)?;
        self.flush(socket)?;
        Ok(taken)
    }

    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    pub(super) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Sends what is encrypted; false if the socket does not take all of it now.
    pub(super) fn flush(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match retried(|| self.connection.write_tls(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.flushed += sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Puts the message that the end is meant behind what is kept, once.
    pub(super) fn say_end(&mut self) {
        if self.failure.is_none() && !std::mem::replace(&mut self.end_said, true) {
            self.connection.send_close_notify();
        }
    }

    pub(super) fn in_handshake(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whom the certificate names that the peer has shown and rustls has checked.
    pub(super) fn certificate(&self) -> Option<Arc<str>> {
        let chain = self.connection.peer_certificates()?;
        principal(chain.first()?)
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }
}

fn kind_of(error: &Error) -> TlsFailure {
    match error {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => TlsFailure::Certificate,
        Error::AlertReceived(_) => TlsFailure::Alert,
        _ => TlsFailure::Protocol,
    }
}
