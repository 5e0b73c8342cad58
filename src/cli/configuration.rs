//! `hermitmq config`: what is in effect, and whether a file is right.

use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::Serialize;

use crate::access::{Operation, Principal, Resource, Table};
use crate::config::{Config, Setting, Sources};
use crate::model::{GroupName, TopicName};
use crate::server;

use super::args::ShowArgs;
use super::failure::Failure;
use super::serve;
use super::show;

/// A setting for programs.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    key: &'a str,
    /// As it would stand in a file.
    value: &'a str,
    /// What set it.
    source: &'a str,
}

/// Prints the settings in effect.
pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let loaded = serve::load(&args.serve)?;
    warn(&loaded.warnings);
    let wrong = |error: &dyn std::error::Error| Failure::Usage(error.to_string());
    let settings = loaded.settings().map_err(|error| wrong(&error))?;
    let text = loaded.show().map_err(|error| wrong(&error))?;
    let shown =
        settings.iter().map(|Setting { key, value, layer }| Shown { key, value, source: layer });
    show::show(args.output, &shown.collect::<Vec<_>>(), |_| text)
}

/// Checks a file over the defaults alone, and the files that it names; with `can`, says whether a principal may do something to
/// something, and leaves those alone.
pub(super) fn check(file: PathBuf, can: Option<&[String]>) -> Result<(), Failure> {
    let name = file.display().to_string();
    let sources = Sources { file: Some(file), ..Sources::default() };
    let loaded = Config::load(&sources).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(can) = can {
        warn(&loaded.warnings);
        return decide(&loaded.config, can);
    }
    let of_files = server::check_files(&loaded.config).map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Failure::Usage(lines.join("\n"))
    })?;
    warn(&loaded.warnings);
    warn(of_files.as_slice());
    show::print(format!("{name}: ok\n").as_bytes())
}

fn decide(config: &Config, can: &[String]) -> Result<(), Failure> {
    let [principal, operation, resource] = can else {
        return Err(Failure::Usage("--can takes PRINCIPAL OPERATION RESOURCE".to_owned()));
    };
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("--can: {error}"));
    let table = Table::rules_of(&config.access).map_err(|error| wrong(&error))?;
    let principal = Principal::parse(principal).map_err(|error| wrong(&error))?;
    let operation: Operation = operation.parse().map_err(|error| wrong(&error))?;
    let (kind, name) = match resource.split_once(':') {
        Some(both) => both,
        None if operation == Operation::Commit => ("group", resource.as_str()),
        None if resource == "broker" && operation == Operation::Admin => ("broker", ""),
        None => ("topic", resource.as_str()),
    };
    let (topic, group);
    let resource = match kind {
        "topic" => {
            topic = TopicName::parse(name).map_err(|error| wrong(&error))?;
            Resource::Topic(&topic)
        }
        "group" => {
            group = GroupName::parse(name).map_err(|error| wrong(&error))?;
            Resource::Group(&group)
        }
        "broker" => Resource::Broker,
        _ => return Err(wrong(&"RESOURCE must be a name, topic:NAME, group:NAME or broker")),
    };
    let decision = table.decide(&principal, operation, &resource);
    let word = if decision.is_allowed() { "allowed" } else { "denied" };
    let line = format!("{word}: {principal} {operation} {resource}: {decision}\n");
    show::print(line.as_bytes())?;
    if decision.is_allowed() { Ok(()) } else { Err(Failure::Denied) }
}

fn warn(warnings: &[String]) {
    let mut stderr = io::stderr().lock();
    for warning in warnings {
        // The result does not depend on whether anybody reads the warnings.
        let _ = writeln!(stderr, "hermitmq: warning: {warning}");
    }
}
