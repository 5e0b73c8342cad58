//! The command line.
//!
//! Reading order: `args` is what can be typed, `usage` what is said of anything else. [`main`] picks the command, one file
//! each does it: `serve`, `configuration`, `token`, `produce`, `consume`, `health`, `generate`, `demo`, and the folders
//! `admin`, `bench`, `log` and `top`. `failure` is how every one of them can end, `runtime` what they need of the process:
//! the signals, above all; `scratch` is what is removed whatever ends them. `lines` and `tally` are what `produce` is made
//! of, `output` and `template` what `consume` is; `time` reads the times that `--from` and `--to` take, `tls` is for
//! whatever connects. `show` prints an answer: as a `table`, as JSON, or with `yaml`; `words` are its numbers, `encode` its
//! bytes, `progress` is for what takes long.

mod admin;
mod args;
mod bench;
mod configuration;
mod consume;
mod demo;
mod encode;
mod failure;
mod generate;
mod health;
mod lines;
mod log;
mod output;
mod produce;
mod progress;
mod runtime;
mod scratch;
mod serve;
mod show;
mod table;
mod tally;
mod template;
mod time;
mod tls;
mod token;
mod top;
mod usage;
mod words;
mod yaml;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::telemetry;

use args::{Cli, Command, ConfigCommand, TokenCommand};
use failure::Failure;

/// Runs the command that the arguments ask for (the first one is the program's name) and gives its exit code:
/// 0 for success, 1 if it failed while running, 2 for wrong usage or configuration, 3 if what was looked at is damaged.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return report(&usage::failure(&args, &error)),
        Err(help) => {
            // A reader that went away wanted no more of it.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    match run(cli.command.unwrap_or(Command::Serve(cli.serve))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Config(ConfigCommand::Show(args)) => configuration::show(&args),
        Command::Config(ConfigCommand::Check { file, can }) => {
            configuration::check(file, can.as_deref())
        }
        Command::Token(TokenCommand::Generate { principal }) => {
            token::generate(principal.as_deref())
        }
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Topic(command) => admin::run_topic(&command),
        Command::Group(command) => admin::run_group(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Log(command) => log::run(&command),
        Command::Top(args) => top::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
    }
}

fn report(failure: &Failure) -> ExitCode {
    if failure.is_quiet() {
        return ExitCode::from(failure.exit_code());
    }
    let text = failure.to_string();
    let lines: Vec<_> = text.lines().map(|line| format!("hermitmq: {line}\n")).collect();
    // Behind what a broker has logged.
    telemetry::tell(&lines.concat());
    telemetry::flush();
    ExitCode::from(failure.exit_code())
}

#[cfg(test)]
mod documents;
#[cfg(test)]
mod tests;
