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

use std::io::{self, Write as _};

use serde::Serialize;

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

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}

fn print_json(result: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(result);
    print(
        &(json.map_err(|error| Failure::runtime("cannot write the result as JSON", &error))?
            + "\n"),
    )
}
