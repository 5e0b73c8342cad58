//! `hermitmq config`: what is in effect, and whether a file is right.

use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::config::{Config, Sources};

use super::args::ServeArgs;
use super::failure::Failure;
use super::serve;

/// Prints the settings in effect.
pub(super) fn show(args: &ServeArgs) -> Result<(), Failure> {
    let loaded = serve::load(args)?;
    warn(&loaded.warnings);
    let text = loaded.show().map_err(|error| Failure::Usage(error.to_string()))?;
    print(&text)
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
