//! What can be typed and what it means.

use clap::{CommandFactory as _, Parser as _};

use super::args::{Cli, Command};
use super::{serve, usage};

fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("hermitmq").chain(args.iter().copied()))
}

/// The one line that wrong arguments give.
fn complaint(args: &[&str]) -> String {
    let error = parse(args).unwrap_err();
    let args: Vec<_> = std::iter::once(&"hermitmq").chain(args).map(Into::into).collect();
    usage::failure(&args, &error).to_string()
}

#[test]
fn the_definition_holds_together() {
    Cli::command().debug_assert();
}

#[test]
fn no_command_serves() {
    assert!(parse(&[]).unwrap().command.is_none());
    // The flags of `serve` need no command either.
    let cli = Cli::try_parse_from(["hermitmq", "--port", "0"]).unwrap();
    assert_eq!(cli.serve.port.as_deref(), Some("0"));
    assert!(Cli::try_parse_from(["hermitmq", "--port", "0", "produce", "t"]).is_err());
}

#[test]
fn flags_become_keys_of_the_configuration() {
    let args = ["serve", "--set", "server.port=1", "--set", "topics.auto_create=false", "--port"];
    let parsed = parse(&[&args[..], &["2", "--log-level", "debug"]].concat()).unwrap();
    let Some(Command::Serve(args)) = parsed.command else { panic!("not serve") };
    let flags = serve::flags(&args).unwrap();
    let flag = |key: &str| (flags[key].name.as_str(), flags[key].value.as_str());
    assert_eq!(flag("server.port"), ("--port", "2"));
    assert_eq!(flag("topics.auto_create"), ("--set", "false"));
    assert_eq!(flag("telemetry.log_level"), ("--log-level", "debug"));
    assert_eq!(flags.len(), 3);
    let parsed = parse(&["serve", "--set", "server.port"]).unwrap();
    let Some(Command::Serve(args)) = parsed.command else { panic!("not serve") };
    let failure = serve::flags(&args).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("must be KEY=VALUE"));
}

#[test]
fn wrong_usage_is_one_line() {
    for (args, want) in [
        (&["prodcue"][..], "unrecognized subcommand 'prodcue'; tip: a similar subcommand exists"),
        (&["produce"][..], "required arguments were not provided: <TOPIC>; usage"),
        (&["produce", "a b"][..], "the name contains the byte 0x20"),
        (
            &["consume", "a", "--from", "x"][..],
            "must be earliest, latest, an offset, or a time such as 2026-01-31T09:00:00Z, -1h",
        ),
        (&["produce", "a", "--batch", "0"][..], "invalid value '0' for '--batch <N>'"),
    ] {
        let line = complaint(args);
        assert!(line.contains(want) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn wrong_usage_ends_with_the_usage_of_its_own_command() {
    for (args, want) in [
        (
            &["prodcue"][..],
            "usage: `hermitmq [OPTIONS]` or `hermitmq <COMMAND>`; see `hermitmq --help`",
        ),
        (&["--prot", "1"], "; see `hermitmq --help`"),
        (
            &["topic", "create"],
            "usage: `hermitmq topic create [OPTIONS] <TOPIC>`; see `hermitmq topic create --help`",
        ),
        (
            &["topic", "crate", "a"],
            "usage: `hermitmq topic <COMMAND>`; see `hermitmq topic --help`",
        ),
        (
            &["topic"],
            "a command is missing; usage: `hermitmq topic <COMMAND>`; see `hermitmq topic --help`",
        ),
        (
            &["produce", "--rate", "x"],
            "usage: `hermitmq produce [OPTIONS] <TOPIC>`; see `hermitmq produce --help`",
        ),
        (
            &["group", "reset", "g"],
            "usage: `hermitmq group reset [OPTIONS] --topic <TOPIC> --to <POSITION> <GROUP>`; see `hermitmq group reset --help`",
        ),
        (
            &["bench", "e2e", "produce"],
            "usage: `hermitmq bench e2e [OPTIONS]`; see `hermitmq bench e2e --help`",
        ),
        (&["serve", "--port"], "usage: `hermitmq serve [OPTIONS]`; see `hermitmq serve --help`"),
    ] {
        let line = complaint(args);
        assert!(line.ends_with(want), "{line}");
    }
}
