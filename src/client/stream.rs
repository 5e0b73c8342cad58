//! A connection's socket, plain or with TLS on it, as the clients use it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
use super::tls::{TlsOptions, Unsecured};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    /// Connects to `HOST:PORT`.
    pub(super) async fn plain(addr: &str) -> io::Result<Self> {
        Ok(Self::Plain(socket(addr).await?))
    }

    /// Connects to `HOST:PORT` with TLS.
    #[cfg(feature = "tls")]
    pub(super) async fn secured(addr: &str, tls: &TlsOptions) -> Result<Self, Unsecured> {
        let socket = socket(addr).await.map_err(Unsecured::Io)?;
        Ok(Self::Tls(Box::new(tls.secure(socket, addr).await?)))
    }

    /// Waits until there may be something to read, or, if `writing`, room to write. What is encrypted and was not sent is sent
    /// meanwhile.
    pub(super) async fn ready(&mut self, writing: bool) -> io::Result<()> {
        let (socket, writing) = match self {
            Self::Plain(socket) => (&*socket, writing),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let (socket, session) = stream.get_ref();
                (socket, writing || session.wants_write())
            }
        };
        tokio::select! {
            biased;
            ready = socket.readable() => ready,
            ready = socket.writable(), if writing => ready,
        }
    }

    /// Reads what is there. `WouldBlock` if nothing is.
    pub(super) fn try_read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read(buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let mut buf = ReadBuf::new(buf);
                match polled(|cx| Pin::new(&mut **stream).poll_read(cx, &mut buf)) {
                    Ok(()) => Ok(buf.filled().len()),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Writes what fits. `WouldBlock` if nothing does.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => polled(|cx| Pin::new(&mut **stream).poll_write(cx, bytes)),
        }
    }

    /// Sends what is encrypted and was not sent, as far as the socket takes it.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unnecessary_wraps, reason = "with TLS it can fail")
    )]
    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match polled(|cx| Pin::new(&mut **stream).poll_flush(cx)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                flushed => flushed,
            },
        }
    }
}

async fn socket(addr: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(addr).await?;
    // Frames and requests are gathered here already; the kernel must not hold them back for more.
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// What a poll says now, without having anybody woken.
#[cfg(feature = "tls")]
fn polled<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>) -> io::Result<T> {
    match poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

#[cfg(feature = "tls")]
impl Drop for Stream {
    /// Says that the end is meant, as far as the socket takes it.
    fn drop(&mut self) {
        if let Self::Tls(stream) = self {
            let _ = polled(|cx| Pin::new(&mut **stream).poll_shutdown(cx));
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
