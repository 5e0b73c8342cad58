//! `hermitmq bench`: what a broker does, what the machine could do, and the ratio of both.
//!
//! The load generators are threads over blocking sockets with large buffers, so that they are not what is measured. A
//! broker and a bare loop are driven by the same generator. Only bytes that went through a socket count.
//!
//! Reading order: `args` is what can be typed. `produce`, `consume` and `e2e` are the generators, over connections to
//! whatever is behind them; `shape` makes their frames, `pace` says when one is due, `stats` sums up. `single` runs one
//! against a `target`, with `silent` connections open if asked for. `limit_server` is the other side of the bare loops,
//! `limit` this side of them. `compare` goes through the `workload`s: each has `rounds`, for which a `stage` is set (both
//! sides, each a process of its own: `peer`) and on which `measure` runs one side; `cold` reads from the disk meanwhile.
//! `tls` is one broker without and with TLS.

mod args;
mod cold;
mod compare;
mod consume;
mod e2e;
mod limit;
mod limit_server;
mod link;
mod measure;
mod pace;
mod peer;
mod produce;
mod report;
mod rounds;
mod shape;
mod silent;
mod single;
mod stage;
mod stats;
mod target;
mod tls;
mod workload;

pub(super) use args::BenchCommand;

use super::failure::Failure;
use super::{progress, runtime, scratch, table};

/// Runs one of the benchmarks.
pub(super) fn run(command: &BenchCommand) -> Result<(), Failure> {
    if let BenchCommand::LimitServer(args) = command {
        // Ends with its parent, which cleans up.
        return limit_server::run(args);
    }
    runtime::clean_up_on_signals()?;
    match command {
        BenchCommand::Produce(args) => single::produce(args),
        BenchCommand::Consume(args) => single::consume(args),
        BenchCommand::E2e(args) => single::e2e(args),
        BenchCommand::Limit(args) => limit::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Tls(args) => tls::run(args),
        BenchCommand::LimitServer(args) => limit_server::run(args),
    }
}
