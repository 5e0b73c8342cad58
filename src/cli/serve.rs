//! `hermitmq serve`: the configuration, then the broker.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::{Config, Flag, Loaded, Sources};
use crate::server::{self, Server};

use super::args::ServeArgs;
use super::failure::{Failure, causes};

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let sources = Sources::of_process(args.config.clone(), flags(args)?);
    let load = |file| Config::load(&Sources { file, ..sources.clone() });
    let loaded = load(args.config.clone()).map_err(|error| Failure::Usage(error.to_string()))?;
    // The server starts the log, so it is the one to tell the warnings.
    server::run(loaded, &load).map_err(|error| Failure::Runtime(causes(&error)))
}

/// The configuration that these arguments, the environment and the files make.
pub(super) fn load(args: &ServeArgs) -> Result<Loaded, Failure> {
    let sources = Sources::of_process(args.config.clone(), flags(args)?);
    Config::load(&sources).map_err(|error| Failure::Usage(error.to_string()))
}

/// A broker in this process, on a free port, with its data in a directory, these settings (`KEY=VALUE`) and an admin listener at
/// this address, if it is not empty. Files and the environment have no say: they are for the machine's own broker.
pub(super) fn in_process(
    data_dir: PathBuf,
    set: Vec<String>,
    admin: &str,
) -> Result<Server, Failure> {
    let port = Some("0".to_owned());
    let flags = flags(&ServeArgs { port, set, ..ServeArgs::default() })?;
    let loaded = Config::load(&Sources { flags, ..Sources::default() })
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let mut config = loaded.config;
    config.storage.data_dir = data_dir;
    admin.clone_into(&mut config.admin.listen);
    Server::start(&config).map_err(|error| Failure::Runtime(causes(&error)))
}

/// The flags as layers of the configuration: a flag of its own wins over `--set`, a later `--set` over an earlier one.
pub(super) fn flags(args: &ServeArgs) -> Result<BTreeMap<String, Flag>, Failure> {
    let mut flags = BTreeMap::new();
    for setting in &args.set {
        let (key, value) =
            setting.split_once('=').filter(|(key, _)| is_dotted(key)).ok_or_else(|| {
                let message =
                    format!("--set {setting}: must be KEY=VALUE, such as server.port=9092");
                Failure::Usage(message)
            })?;
        flags.insert(key.to_owned(), Flag { name: "--set".to_owned(), value: value.to_owned() });
    }
    let named = [
        ("--host", "server.host", &args.host),
        ("--port", "server.port", &args.port),
        ("--data-dir", "storage.data_dir", &args.data_dir),
        ("--log-level", "telemetry.log_level", &args.log_level),
    ];
    for (name, key, value) in named {
        if let Some(value) = value {
            let flag = Flag { name: name.to_owned(), value: value.clone() };
            flags.insert(key.to_owned(), flag);
        }
    }
    Ok(flags)
}

fn is_dotted(key: &str) -> bool {
    key.contains('.') && key.split('.').all(|part| !part.is_empty())
}
