//! What the data plane asks of the operating system, beyond what mio does:
//!
//! * [`send_file`]: bytes of a file to a socket, without a copy in user space;
//! * [`configure`]: options of an accepted socket;
//! * [`raise_descriptor_limit`]: as many descriptors as the process may have.
//!
//! Linux has the real thing in safe wrappers; macOS needs one call of its own; elsewhere the bytes are copied.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{SockRef, TcpKeepalive};

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

/// A peer that vanished without a word while nothing was on its way to it is noticed after this and three probes more.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Options of an accepted socket: small answers go out at once, and vanished peers are noticed.
pub(super) fn configure(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(3);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
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
