//! Taking the address of the admin listener.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use super::Options;
use super::hosts::Hosts;

/// The admin listener could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host name has no address.
    #[error("cannot listen on {listen}: {source}; check admin.listen")]
    Resolve {
        /// As configured.
        listen: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Others could reach it, and it asks nobody who they are.
    #[error(
        "admin.listen is {addr}, which is not a loopback address, and whoever can connect there may do everything; add \
         tokens and rules in section access, or, if the network keeps others out, set admin.insecure = true"
    )]
    NotLoopback {
        /// The address.
        addr: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr} for administration: {source}; {hint}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
}

/// An address that was taken, whose connections are not accepted yet.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: TcpListener,
    addr: SocketAddr,
    pub(super) hosts: Hosts,
}

impl Listener {
    /// Listens on the configured address; `None` if there is to be no listener. `guarded`: it asks who somebody is.
    pub fn bind(options: &Options, guarded: bool) -> Result<Option<Self>, BindError> {
        let listen = &options.listen;
        if listen.is_empty() {
            return Ok(None);
        }
        let resolve = |source| BindError::Resolve { listen: listen.clone(), source };
        let mut addrs = listen.to_socket_addrs().map_err(resolve)?;
        let addr = addrs.next().ok_or_else(|| resolve(io::ErrorKind::NotFound.into()))?;
        if !addr.ip().is_loopback() && !options.insecure && !guarded {
            return Err(BindError::NotLoopback { addr });
        }
        let bound = || {
            let socket = TcpListener::bind(addr)?;
            socket.set_nonblocking(true)?;
            let addr = socket.local_addr()?;
            Ok(Self { socket, addr, hosts: Hosts::of(listen, addr.ip()) })
        };
        bound().map(Some).map_err(|source: io::Error| {
            let hint = hint(&source);
            BindError::Listen { addr, source, hint }
        })
    }

    /// The address listened on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or set admin.listen to another address, or to an empty text for none"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege; set admin.listen to another port"
        }
        _ => "check admin.listen",
    }
}
