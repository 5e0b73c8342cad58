//! Answers on standard output: as JSON, or as text in columns.

use std::io::{self, Write as _};

use serde::Serialize;

use super::args::Form;
use crate::cli::failure::Failure;

/// Prints an answer in the form that was asked for.
pub(super) fn show<T: Serialize>(
    form: Form,
    answer: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match form {
        Form::Table => table(answer),
        Form::Json => {
            let json = serde_json::to_string_pretty(answer);
            json.map_err(|error| Failure::runtime("the answer is no JSON", &error))? + "\n"
        }
    };
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}

/// A number that may not be there.
pub(super) fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `true` as a word, `false` as nothing to see.
pub(super) fn flag(set: bool) -> String {
    if set { "yes" } else { "-" }.to_owned()
}
