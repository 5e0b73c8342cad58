//! A connection's socket, plain or with TLS on it.
//!
//! Which of them it is is decided by its first byte, where the listener allows both. A plain one costs a look at a
//! discriminant; its files go out with `sendfile`. One with TLS is decrypted within the buffer that it is read into.
//!
//! [`Transport::read`] and [`Transport::write`] are like those of a socket that does not block, but for two things. What was
//! written may be kept here, encrypted, up to [`UNSENT_MAX`]: [`Transport::wants_write`] says so, [`Transport::flush`] sends it, and
//! nothing more is taken before. And a read may leave something here while the socket is empty: [`Read::more`] says so.

mod endpoint;
mod tls;

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::ServerConfig;

pub use self::endpoint::Endpoint;
use self::tls::TlsState;
use crate::metrics::TlsFailure;
use crate::net::status::TLS_RECORD;
use crate::net::sys::send_file;
use crate::storage::file_slice::FileSlice;
use crate::tls::Mode;

/// Plaintext that is encrypted at once, and encrypted bytes that are kept at most if the socket does not take them.
pub(super) const UNSENT_MAX: usize = 64 * 1024;

/// A socket, and what is on it.
#[derive(Debug)]
pub(super) struct Transport {
    socket: TcpStream,
    layer: Layer,
}

#[derive(Debug)]
enum Layer {
    Plain,
    /// No byte has come; TLS with this configuration, if it is one. Whether it may be plain.
    Undecided(Arc<ServerConfig>, bool),
    Tls(Box<TlsState>),
    /// TLS is required, and the first byte was none of it.
    Refused,
}

/// What a read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// Bytes at the start of the buffer. 0 if the peer sends no more; or, if there may be more, nothing has come of what was
    /// read.
    pub(super) len: usize,
    /// There may be more, as far as is known.
    pub(super) more: bool,
}

/// Why a connection cannot go on.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: TlsFailure,
    /// In the words of what has found it.
    pub(super) text: String,
}

impl Transport {
    /// A socket of a listener in this mode, with the configuration for TLS, if there is one.
    pub(super) fn new(socket: TcpStream, tls: Option<(Mode, Arc<ServerConfig>)>) -> Self {
        let layer = match tls {
            Some((Mode::Required, config)) => Layer::Undecided(config, false),
            Some((Mode::Optional, config)) => Layer::Undecided(config, true),
            Some((Mode::Off, _)) | None => Layer::Plain,
        };
        Self { socket, layer }
    }

    /// For the poll.
    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// For what is set on a socket.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket, if what goes through it goes as it is.
    pub(super) fn plain(&self) -> Option<&TcpStream> {
        matches!(self.layer, Layer::Plain).then_some(&self.socket)
    }

    /// Reads into `buf`, which is not empty. `WouldBlock` if nothing is there now.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> io::Result<Read> {
        debug_assert!(!buf.is_empty(), "an empty read would look like the end");
        if matches!(self.layer, Layer::Undecided(..)) {
            self.decide()?;
        }
        match &mut self.layer {
            Layer::Plain => {
                let len = retried(|| self.socket.read(buf))?;
                // A short read means that the socket is empty: one system call saved.
                Ok(Read { len, more: len == buf.len() })
            }
            Layer::Tls(tls) => tls.read(&mut self.socket, buf),
            // `decide` has come to its end, or read the peer's.
            Layer::Undecided(..) => Ok(Read { len: 0, more: false }),
            Layer::Refused => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Looks at the first byte, and leaves it where it is.
    fn decide(&mut self) -> io::Result<()> {
        let mut first = [0; 1];
        if retried(|| self.socket.peek(&mut first))? == 0 {
            return Ok(());
        }
        let Layer::Undecided(config, or_plain) = &self.layer else { return Ok(()) };
        self.layer = match (first[0] == TLS_RECORD, *or_plain) {
            (true, _) => Layer::Tls(TlsState::new(Arc::clone(config))?),
            (false, true) => Layer::Plain,
            (false, false) => Layer::Refused,
        };
        Ok(())
    }

    /// Writes bytes from the start of `bytes`; returns how many were taken. `WouldBlock` if none is now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain => retried(|| self.socket.write(bytes)),
            Layer::Tls(tls) => tls.write(&mut self.socket, bytes),
            Layer::Undecided(..) | Layer::Refused => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends bytes from the start of a slice; returns how many were taken. `WouldBlock` if none is now. `buf` is used if they
    /// have to be read.
    pub(super) fn send_slice(&mut self, slice: &FileSlice, buf: &mut Vec<u8>) -> io::Result<usize> {
        let Layer::Tls(tls) = &mut self.layer else { return send_file(&self.socket, slice) };
        if !tls.flush(&mut self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Taken by the first who needs it: without TLS there is none.
        buf.resize(UNSENT_MAX, 0);
        match slice.read(buf)? {
            // The slice lies within the file: fewer bytes than published means that someone cut the file.
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => tls.write(&mut self.socket, &buf[..read]),
        }
    }

    /// Whether something that was written is kept here.
    pub(super) fn wants_write(&self) -> bool {
        match &self.layer {
            Layer::Tls(tls) => tls.wants_write(),
            Layer::Plain | Layer::Undecided(..) | Layer::Refused => false,
        }
    }

    /// Bytes of what was kept here, or might have been, that the socket has taken so far.
    pub(super) fn flushed(&self) -> u64 {
        match &self.layer {
            Layer::Tls(tls) => tls.flushed(),
            Layer::Plain | Layer::Undecided(..) | Layer::Refused => 0,
        }
    }

    /// Sends what is kept here; false if the socket does not take all of it now.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.layer {
            Layer::Tls(tls) => tls.flush(&mut self.socket),
            Layer::Plain | Layer::Undecided(..) | Layer::Refused => Ok(true),
        }
    }

    /// Says that nothing more will be written, and that what is still read means nothing; false if the socket does not take that now. To be called again, then, once it
    /// does.
    pub(super) fn finish(&mut self) -> io::Result<bool> {
        if let Layer::Tls(tls) = &mut self.layer {
            tls.say_end();
            if !tls.flush(&mut self.socket)? {
                return Ok(false);
            }
        }
        self.socket.shutdown(Shutdown::Write)?;
        Ok(true)
    }

    /// Says, as far as the socket takes it, that the end is meant. Before the socket is closed.
    pub(super) fn say_end(&mut self) {
        if let Layer::Tls(tls) = &mut self.layer {
            tls.say_end();
            // The peer may be gone already.
            let _ = tls.flush(&mut self.socket);
        }
    }

    /// Whether a TLS handshake has begun and is not done.
    pub(super) fn in_handshake(&self) -> bool {
        match &self.layer {
            Layer::Tls(tls) => tls.in_handshake(),
            Layer::Plain | Layer::Undecided(..) | Layer::Refused => false,
        }
    }

    /// Whether it is encrypted.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self.layer, Layer::Tls(_))
    }

    /// Whom the certificate names that the peer has shown.
    pub(super) fn certificate(&self) -> Option<Arc<str>> {
        match &self.layer {
            Layer::Tls(tls) => tls.certificate(),
            Layer::Plain | Layer::Undecided(..) | Layer::Refused => None,
        }
    }

    /// What is wrong, if it is not the socket.
    pub(super) fn failure(&self) -> Option<Failure> {
        match &self.layer {
            Layer::Tls(tls) => tls.failure(),
            Layer::Refused => Some(Failure {
                kind: TlsFailure::Plaintext,
                text: "a client without TLS, where tls.mode is required".to_owned(),
            }),
            Layer::Plain | Layer::Undecided(..) => None,
        }
    }
}

/// Does it again as long as a signal has interrupted it.
fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
