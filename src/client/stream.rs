//! A connection's socket, plain or with TLS on it, as the clients use it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(feature = "tls")]
use super::tls::{TlsOptions, Unsecured};

/// Time that an address of a name has before the next one is tried as well (that of RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

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
    let socket = first_of(lookup_host(addr).await?).await?;
    // Frames and requests are gathered here already; the kernel must not hold them back for more.
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Connects to whichever address answers first, each tried a while after the one before it: one that is dead takes none of
/// the time of the others.
async fn first_of(addrs: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut error = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for addr in addrs {
        attempts.spawn(TcpStream::connect(addr));
        match timeout(HEAD_START, attempts.join_next()).await {
            Ok(Some(Ok(Ok(socket)))) => return Ok(socket),
            Ok(Some(Ok(Err(failed)))) => error = failed,
            // It goes on beside the next.
            _ => {}
        }
    }
    while let Some(ended) = attempts.join_next().await {
        match ended {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(failed)) => error = failed,
            Err(ended) => error = ended.into(),
        }
    }
    Err(error)
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

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_dead_address_keeps_nobody_from_the_next() {
        // Nobody accepts there: once its queue is full, it answers to nothing.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = silent.listen(0).unwrap();
        let dead = silent.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(socket) = timeout(HEAD_START, TcpStream::connect(dead)).await {
            queued.push(socket.unwrap());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addrs = [dead, listener.local_addr().unwrap()];
        let hang = Duration::from_mins(1);
        timeout(hang, first_of(addrs.into_iter())).await.expect("the test hangs").unwrap();
        // Where nobody is there, that is told.
        drop(listener);
        let refused = timeout(hang, first_of(addrs.into_iter().skip(1))).await.unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
