//! Opening a connection: TCP and the handshake.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::protocol::Request;

/// Why there is no connection. Nothing was sent; check the address, or try again when the broker is up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address does not resolve, nobody listens there, or the connection broke during the handshake.
    #[error("cannot connect to {addr}: {source}")]
    Io {
        /// Address that was tried.
        addr: String,
        /// What the system says.
        source: io::Error,
    },
    /// No connection within the time allowed: the host is unreachable, or overloaded.
    #[error("cannot connect to {addr}: no answer within {} ms", after.as_millis())]
    Timeout {
        /// Address that was tried.
        addr: String,
        /// How long.
        after: Duration,
    },
    /// The blocking client could not start its runtime (out of threads or file descriptors).
    #[error("cannot start the client's runtime: {0}")]
    Runtime(io::Error),
}

/// Connects and sends the handshake, in one write. 1.0 does not answer it: a refusal shows as a close later on.
pub(super) async fn open(
    addr: &str,
    request: &Request,
    timeout: Duration,
) -> Result<TcpStream, ConnectError> {
    let connecting = async {
        let mut stream = TcpStream::connect(addr).await?;
        // Frames are gathered here already; the kernel must not hold them back for more.
        stream.set_nodelay(true)?;
        let mut handshake = Vec::new();
        request.write(&mut handshake);
        stream.write_all(&handshake).await?;
        Ok(stream)
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => Err(ConnectError::Io { addr: addr.to_owned(), source }),
        Err(_) => Err(ConnectError::Timeout { addr: addr.to_owned(), after: timeout }),
    }
}
