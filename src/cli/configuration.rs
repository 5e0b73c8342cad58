//! `hermitmq config`: what is in effect, and whether a file is right.

use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::Serialize;

use crate::config::{Config, Setting, Sources};

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

/// Checks a file over the defaults alone.
pub(super) fn check(file: PathBuf) -> Result<(), Failure> {
    let name = file.display().to_string();
    let sources = Sources { file: Some(file), ..Sources::default() };
    let loaded = Config::load(&sources).map_err(|error| Failure::Usage(error.to_string()))?;
    warn(&loaded.warnings);
    print(&format!("{name}: ok\n"))
}

fn warn(warnings: &[String]) {
    let mut stderr = io::stderr().lock();
    for warning in warnings {
        // The result does not depend on whether anybody reads the warnings.
        let _ = writeln!(stderr, "hermitmq: warning: {warning}");
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}
