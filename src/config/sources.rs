//! What a configuration is read from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::layer::{self, Layer};
use super::{Container, Problem};

/// Where a configuration file is looked for when none is named; the first that exists is read.
const SEARCH: &[&str] = &["./hermitmq.toml", "./hermitmq.json", "/etc/hermitmq/hermitmq.toml"];

/// A value given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the operator typed it, such as `--port`.
    pub name: String,
    /// Its value, as text.
    pub value: String,
}

/// What to read. The default reads nothing but the built-in defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file to read; it must exist. If none is named, the first of `search` that exists.
    pub file: Option<PathBuf>,
    /// Where to look for a file when none is named.
    pub search: Vec<PathBuf>,
    /// The environment, names and values.
    pub env: Vec<(OsString, OsString)>,
    /// Dotted key to the flag that sets it.
    pub flags: BTreeMap<String, Flag>,
    /// What the process may use.
    pub container: Container,
}

impl Sources {
    /// What a running program reads: its environment, the named file or one of the usual places, and its control groups.
    pub fn of_process(file: Option<PathBuf>, flags: BTreeMap<String, Flag>) -> Self {
        let search = SEARCH.iter().map(PathBuf::from).collect();
        let (env, container) = (std::env::vars_os().collect(), Container::of_process());
        Self { file, search, env, flags, container }
    }

    /// The file, if one is named or found. A problem with it is added to `problems`.
    pub(super) fn file_layer(&self, problems: &mut Vec<Problem>) -> Option<(PathBuf, Layer)> {
        let read = |path: &PathBuf| Ok((path.clone(), layer::file(path)?));
        self.path().and_then(|path| path.map(read).transpose()).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })
    }

    /// The file that is named, else the first of `search` that is there. One that cannot be looked at may be there: it is not passed
    /// over.
    fn path(&self) -> Result<Option<&PathBuf>, Problem> {
        if self.file.is_some() {
            return Ok(self.file.as_ref());
        }
        for path in &self.search {
            match std::fs::metadata(path) {
                Ok(_) => return Ok(Some(path)),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let message = format!("cannot see whether it is there: {error}");
                    return Err(Problem::source(path.display(), message));
                }
            }
        }
        Ok(None)
    }
}
