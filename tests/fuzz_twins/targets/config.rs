//! Configuration files and variables: refused with a text for people, or accepted for good.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use hermitmq::config::{Config, ConfigError, Loaded, Sources};

use super::input::Input;

/// Between the file and the variables, and between two of them.
const SEPARATOR: u8 = 0;

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let json = input.byte() & 1 != 0;
    let mut parts = input.rest().split(|byte| *byte == SEPARATOR);
    let text = parts.next().unwrap_or_default();
    let env: Vec<(OsString, OsString)> = parts.filter_map(variable).collect();

    match load(text, json, env) {
        Ok(loaded) => {
            assert!(!loaded.show().unwrap().is_empty());
            // What was accepted is accepted once more, and means the same.
            let again = serde_json::to_vec(&loaded.config).unwrap();
            let again = load(&again, true, Vec::new()).expect("it was right before");
            assert_eq!(again.config, loaded.config);
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            for problem in error.problems() {
                assert!(!problem.message.is_empty());
            }
            let lines = error.to_string().lines().count();
            assert_eq!(lines, error.problems().len(), "one line each: {error}");
        }
    }
}

/// `NAME=VALUE` as the process gets it.
fn variable(part: &[u8]) -> Option<(OsString, OsString)> {
    let at = part.iter().position(|byte| *byte == b'=')?;
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((text(&part[..at]), text(&part[at + 1..])))
}

fn load(text: &[u8], json: bool, env: Vec<(OsString, OsString)>) -> Result<Loaded, ConfigError> {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let extension = if json { ".json" } else { ".toml" };
    let named = |b: &mut tempfile::Builder<'_, '_>| b.tempfile_in(&parent).unwrap();
    let file = named(tempfile::Builder::new().prefix("hermitmq-fuzz-").suffix(extension));
    std::fs::write(file.path(), text).unwrap();
    Config::load(&Sources { file: Some(file.path().to_owned()), env, ..Sources::default() })
}
