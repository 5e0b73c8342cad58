//! The control plane: HTTP for those who look after a broker. It never holds up a reactor.
//!
//! * [`Listener`]: takes the address, before the log is recovered; [`Admin`]: answers.
//! * [`State`]: how far the broker is; what is above tells it.
//! * `health`: `/livez`, `/startupz`, `/readyz`; `metrics`: `/metrics`; `api`: everything below `/api/v1`.
//! * `dashboard`: the pages for a browser, which use that; `live`: what it tells them once a second.
//! * `authorize`: who asks, and whether it may; `hosts`: under which names it answers.
//! * `extract`: requests into values; `refusals` and `problem`: errors into problem details. Only there.
//!

mod api;
mod authorize;
mod bodies;
mod dashboard;
mod extract;
mod health;
mod hosts;
mod listener;
mod live;
mod metrics;
mod options;
mod places;
mod problem;
mod refusals;
mod routes;
mod server;
mod state;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use bodies::RequestBody;
pub use listener::{BindError, Listener};
pub use options::Options;
pub use server::Admin;
pub use state::{
    About, CloseError, Connection, Connections, LogLevel, Pulse, Running, Setting, State,
};
