//! What is said of a command line that cannot be parsed: what is wrong, and the usage of the command that was meant.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::args::Cli;
use super::failure::Failure;

/// The arguments, the program's name first, and what the parser says of them.
pub(super) fn failure(args: &[OsString], error: &clap::Error) -> Failure {
    let complaint = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
        _ => in_one_line(&error.to_string()),
    };
    let mut command = Cli::command();
    command.build();
    let command = meant(&command, args);
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<_> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    Failure::Usage(format!("{complaint}; usage: `{}`; see `{name} --help`", usage.join("` or `")))
}

/// The command as far as it is one.
fn meant<'a>(mut command: &'a clap::Command, args: &[OsString]) -> &'a clap::Command {
    for word in args.iter().skip(1) {
        match command.find_subcommand(word) {
            Some(found) => command = found,
            None => break,
        }
    }
    command
}

/// A complaint that spreads over several lines.
fn in_one_line(complaint: &str) -> String {
    let lines = complaint.lines().map(str::trim);
    let wanted = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty());
    let mut text = String::new();
    for line in wanted {
        let line = line.trim_start_matches("error: ");
        text.push_str(match (text.is_empty(), line.starts_with("tip:")) {
            (true, _) => "",
            (false, true) => "; ",
            (false, false) => " ",
        });
        text.push_str(line);
    }
    text
}
