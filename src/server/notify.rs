//! What the service manager is told: sd_notify(3), a few lines of text in a datagram.
//!
//! Whoever starts the process names a socket in `NOTIFY_SOCKET`; without one nothing is told. A message that cannot be
//! sent is dropped: the manager has its own timeouts, and nobody else could be told.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A service manager that waits for messages; or none.
#[derive(Debug)]
pub(super) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// The one that started this process.
    pub(super) fn of_process() -> Self {
        let of_us =
            env::var("WATCHDOG_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        let usec = env::var("WATCHDOG_USEC").ok().and_then(|usec| usec.parse().ok());
        Self {
            to: env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name)),
            watchdog: usec.filter(|usec| *usec > 0 && of_us).map(Duration::from_micros),
        }
    }

    /// How long the manager waits for a sign of life; `None` if it wants none.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.to.is_some())
    }

    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    pub(super) fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_usec()));
    }

    pub(super) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// Says how far the start is, and that it goes on for at least `more`.
    pub(super) fn starting(&self, status: &str, more: Duration) {
        self.send(&format!("STATUS={status}\nEXTEND_TIMEOUT_USEC={}", more.as_micros()));
    }

    pub(super) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        if let Some((socket, manager)) = &self.to
            && let Err(error) = socket.send_to_addr(message.as_bytes(), manager)
        {
            tracing::debug!(%error, "the service manager was not told");
        }
    }
}

/// The socket of a name: a path, or with `@` in front a name in the abstract namespace.
fn connect(name: &OsStr) -> Option<(UnixDatagram, SocketAddr)> {
    let addr = match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        [b'@', rest @ ..] => abstract_name(rest),
        _ => None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    // A manager that does not read must not hold up anybody.
    socket.set_nonblocking(true).ok()?;
    addr.map(|addr| (socket, addr))
}

#[cfg(target_os = "linux")]
fn abstract_name(name: &[u8]) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name).ok()
}

#[cfg(not(target_os = "linux"))]
fn abstract_name(_name: &[u8]) -> Option<SocketAddr> {
    None
}

/// The clock by which the manager orders reloads.
fn monotonic_usec() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}
