//! `hermitmq log`: a data directory without its broker, or beside it.
//!
//! `args` is what can be typed; `verify`, `dump`, `repair` and `backup` are one command each. `places` says where
//! something is.

mod args;
mod backup;
mod dump;
mod places;
mod repair;
mod verify;

pub(super) use args::LogCommand;

use super::failure::{Failure, causes};
use crate::server::data_dir::ToolError;

pub(super) fn run(command: &LogCommand) -> Result<(), Failure> {
    match command {
        LogCommand::Verify(args) => verify::run(args),
        LogCommand::Dump(args) => dump::run(args),
        LogCommand::Repair(args) => repair::run(args),
        LogCommand::Backup(args) => backup::run(args),
    }
}

fn failed(error: &ToolError) -> Failure {
    Failure::Runtime(causes(error))
}
