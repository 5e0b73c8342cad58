//! HermitMQ: a persistent topic/partition message broker in one small binary.
//!
//! A broker holds *topics*; a topic has *partitions*; a partition is a log of *records*, each at its *offset*. Producers
//! append, consumers read from where their group stands. The bytes of a frame are the same on the wire and on disk, so
//! a run of frames is written with one system call and sent with `sendfile`.
//!
//! # Reading order
//!
//! This is also the order of the layers: a module imports only from those above it in this list, and only the ones
//! that `tests/tidy.rs` names. `ARCHITECTURE.md` follows a record in and out.
//!
//! | module | its one job |
//! |---|---|
//! | [`model`] | names, ids, offsets; every limit in one file |
//! | [`metrics`] | plain atomic instruments |
//! | [`access`] | who may do what: identities and rules |
//! | [`record`] | the 29-byte header and the framed message |
//! | [`telemetry`] | logs and traces |
//! | [`tls`] | certificates and keys, and what connections are accepted with |
//! | [`protocol`] | the wire protocol, without I/O |
//! | [`storage`] | one partition's log: segments, index, recovery |
//! | [`client`] | the SDK: producer and consumer |
//! | [`broker`] | topics, partitions, consumer offsets |
//! | [`net`] | the data plane: reactors, connections, `sendfile` |
//! | [`admin`] | the control plane: health, metrics, topics and groups over HTTP |
//! | [`config`] | layers of configuration, composed of each layer's options |
//! | [`server`] | puts it together: start, signals, shutdown order |
//! | [`cli`] | the command line |
//!
//! # Features
//!
//! `server` (default) is everything. `client` alone is the SDK: [`model`], [`record`], [`protocol`] and [`client`]; with `admin`
//! it can administer a broker, too; with `tls` both speak TLS ([`tls`]).

#[cfg(feature = "server")]
pub mod access;
#[cfg(feature = "server")]
pub mod admin;
#[cfg(feature = "server")]
pub mod broker;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
pub mod metrics;
pub mod model;
#[cfg(feature = "server")]
pub mod net;
pub mod protocol;
pub mod record;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod storage;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "tls")]
pub mod tls;
