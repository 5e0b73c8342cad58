//! What the data plane asks of the operating system, beyond what mio does:
//!
//! * [`send_file`]: bytes of a file to a socket, without a copy in user space;
//! * [`configure`]: options of an accepted socket; [`forget_unsent`]: of one that is given up;
//! * [`raise_descriptor_limit`]: as many descriptors as the process may have.
//!
//! Linux has the real thing in safe wrappers; macOS needs one call of its own; elsewhere the bytes are copied.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{SockRef, TcpKeepalive};

use super::bounds::Bounds;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(super) use linux::send_file;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(super) use macos::send_file;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod copy;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) use copy::send_file;

/// Time between two questions of keepalive, and how many go unanswered before the peer is taken for gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Options of an accepted socket: small answers go out at once, and vanished peers are noticed, whether or not something is
/// on its way to them.
pub(super) fn configure(socket: &TcpStream, bounds: &Bounds) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    if let Some(idle) = bounds.keepalive {
        let interval = KEEPALIVE_INTERVAL.min(idle);
        let keepalive = TcpKeepalive::new()
            .with_time(idle)
            .with_interval(interval)
            .with_retries(KEEPALIVE_RETRIES);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(bounds.user)?;
    Ok(())
}

/// Has closing take back what the peer did not take: else the system keeps that for it.
pub(super) fn forget_unsent(socket: &TcpStream) {
    if let Err(error) = SockRef::from(socket).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "what was not sent is kept for a while");
    }
}

/// Raises the soft limit of open descriptors to the hard one, if it may; returns what it is then (`None`: no limit).
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    getrlimit(Resource::Nofile).current
}
