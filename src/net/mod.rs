//! The data plane: sockets on one side, broker calls on the other.
//!
//! * [`connection`]: the protocol state machine of one connection, without I/O;
//! * `admit`: who a connection is, and whether it may; `open`: from a handshake to a partition; `status`: errors become what is told;
//! * `admission`: how many connections there may be; `bounds`: what else holds for them;
//! * `budget`: memory for large frames;
//! * `quota`: how much a principal may produce and consume;
//! * `reactor`: the threads that turn readiness into reads, appends and `sendfile`;
//! * `sys`: what is asked of the operating system.
//!
//! [`DataPlane`] starts and stops all of it.

mod admission;
mod admit;
mod bounds;
mod budget;
pub mod connection;
mod open;
mod options;
mod quota;
mod reactor;
mod status;
mod sys;

pub use options::{Options, QuotaOptions, SecurityOptions};
#[doc(hidden)]
pub use reactor::Endpoint;
pub use reactor::{
    ConnectionId, ConnectionInfo, Connections, DataPlane, InvalidConnectionId, Listed, ListenError,
    Listener, Pulse, StopReport,
};
pub(crate) use sys::raise_descriptor_limit;
