//! What was asked for on standard output: as text in columns, as JSON or as YAML.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::Serialize;

use super::failure::Failure;
use super::yaml;

/// How an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people
    Table,
    /// For programs, with the names and in the order of the admin listener's answers
    Json,
    /// The same as YAML, in the order of the names
    Yaml,
}

/// Prints an answer in the form that was asked for.
pub(super) fn show<T: Serialize>(
    form: Form,
    answer: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match form {
        Form::Table => table(answer),
        Form::Json => serde_json::to_string_pretty(answer).map_err(|error| cannot(&error))? + "\n",
        Form::Yaml => {
            yaml::document(&serde_json::to_value(answer).map_err(|error| cannot(&error))?)
        }
    };
    print(text.as_bytes())
}

/// Prints a result as JSON on one line.
pub(super) fn json_line(result: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(result).map_err(|error| cannot(&error))?;
    print((json + "\n").as_bytes())
}

/// All that a command has to say, on standard output.
pub(super) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}

fn cannot(error: &serde_json::Error) -> Failure {
    Failure::runtime("the answer is no JSON", error)
}

/// A number that may not be there.
pub(super) fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `true` as a word, `false` as nothing to see.
pub(super) fn flag(set: bool) -> String {
    if set { "yes" } else { "-" }.to_owned()
}
