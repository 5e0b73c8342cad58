//! `hermitmq completions` and `hermitmq man`: what shells and `man` want to know of the command line.

use std::fs;

use clap::CommandFactory as _;

use super::args::{Cli, CompletionsArgs, ManArgs};
use super::failure::Failure;
use super::show;

/// The name that is completed.
const NAME: &str = "hermitmq";

/// Prints what a shell is to load.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    show::print(&script)
}

/// Writes a page for each command.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    let written = fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir));
    written.map_err(|error| Failure::runtime(&format!("cannot write to {}", dir.display()), &error))
}
