//! Where values come from: each source becomes a [`Layer`] that remembers who set which key.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use figment::providers::{Format, Json, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};

use super::error::one_line;
use super::{Flag, Problem, flatten};
use crate::model::read_named_file;

/// The name of the layer of built-in defaults.
pub(super) const DEFAULT: &str = "default";

/// What a configuration file may have, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Every environment variable of this program begins with it.
const ENV_PREFIX: &str = "HERMITMQ_";

/// Between the section and the key in the name of an environment variable.
const ENV_SEPARATOR: &str = "__";

/// What Docker puts between a link's alias and a variable of the linked container.
const ENV_DOCKER_LINK: &str = "ENV_";

/// Values from one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    name: String,
    dict: Dict,
    /// Dotted key to the exact place that set it, where that is more precise than `name`.
    places: BTreeMap<String, String>,
}

impl Layer {
    /// No values.
    pub(super) fn empty() -> Self {
        Self::default()
    }

    /// Values that all come from the place called `name`.
    pub(super) fn named(name: impl Into<String>, dict: Dict) -> Self {
        Self { name: name.into(), dict, places: BTreeMap::new() }
    }

    /// Adds one value. A key with more than one dot, which no valid key is, makes no more tables than one: whoever sets a
    /// variable does not choose how deep the stack goes.
    fn insert(&mut self, key: &str, place: &str, value: Value) {
        let table = |name: &str, value| Dict::from([(name.to_owned(), value)]);
        let nested = match key.split_once('.') {
            Some((section, name)) => table(section, Value::from(table(name, value))),
            None => table(key, value),
        };
        merge(&mut self.dict, nested);
        self.places.insert(key.to_owned(), place.to_owned());
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        let (name, places) = (self.name.clone(), self.places.clone());
        Metadata::named(name.clone()).interpolater(move |_: &Profile, path: &[&str]| {
            places.get(&path.join(".")).unwrap_or(&name).clone()
        })
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

fn merge(into: &mut Dict, from: Dict) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Dict(_, inner)), Value::Dict(_, new)) => merge(inner, new),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Reads a file; its extension says whether it is TOML or JSON.
pub(super) fn file(path: &Path) -> Result<Layer, Problem> {
    let parse = match path.extension().and_then(|e| e.to_str()) {
        Some("toml") => parse_toml,
        Some("json") => parse_json,
        _ => {
            let message = "the name of a configuration file must end in .toml or .json";
            return Err(Problem::source(path.display(), message));
        }
    };
    let text = read_named_file(path, FILE_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
        .map_err(|e| Problem::source(path.display(), format!("cannot read it: {e}")))?;
    let dict = parse(&text).map_err(|message| Problem::source(path.display(), message))?;
    Ok(Layer::named(path.display().to_string(), dict))
}

fn parse_toml(text: &str) -> Result<Dict, String> {
    Toml::from_str(text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("not valid TOML: line {line}: {}", one_line(e.message()))
    })
}

fn parse_json(text: &str) -> Result<Dict, String> {
    Json::from_str(text).map_err(|e| format!("not valid JSON: {}", one_line(&e.to_string())))
}

/// The variables `HERMITMQ_<SECTION>__<KEY>`. Every other name is somebody else's and is passed over in silence:
/// Kubernetes and Docker inject `HERMITMQ_PORT=tcp://…` and the like for a service or link called hermitmq.
pub(super) fn environment(
    variables: &[(OsString, OsString)],
    defaults: &Dict,
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut layer = Layer::named("environment", Dict::new());
    let known = flatten(defaults);
    for (name, value) in variables {
        let Some((name, key)) = name.to_str().and_then(|n| Some((n, env_key(n)?))) else {
            continue;
        };
        if name.bytes().any(|b| b.is_ascii_lowercase()) {
            let message = format!("must be upper-case: {}", name.to_ascii_uppercase());
            problems.push(Problem::source(name, message));
            continue;
        }
        match value.to_str() {
            Some(text) => layer.insert(&key, name, typed(text, known.get(&key))),
            None => problems.push(Problem::key(&key, name, "the value is not valid UTF-8")),
        }
    }
    layer
}

/// The dotted key that an environment variable sets, if it is configuration.
fn env_key(name: &str) -> Option<String> {
    let name = name.strip_prefix(ENV_PREFIX)?;
    let (section, key) = name.split_once(ENV_SEPARATOR)?;
    if section.is_empty() || key.is_empty() || section.starts_with(ENV_DOCKER_LINK) {
        return None;
    }
    Some(format!("{section}.{key}").to_ascii_lowercase())
}

/// The values given on the command line.
pub(super) fn flags(flags: &BTreeMap<String, Flag>, defaults: &Dict) -> Layer {
    let mut layer = Layer::named("flag", Dict::new());
    let known = flatten(defaults);
    for (key, flag) in flags {
        layer.insert(key, &flag.name, typed(&flag.value, known.get(key)));
    }
    layer
}

/// Text as the type that the key's default has, or as text where it does not read as that type. So a directory may be
/// called `123`, and a port may not be called `abc`.
fn typed(text: &str, default: Option<&Value>) -> Value {
    let trimmed = text.trim();
    let number = || {
        let whole = trimmed.parse::<u64>().map(Value::from);
        let whole = whole.or_else(|_| trimmed.parse::<i64>().map(Value::from)).ok();
        whole.or_else(|| trimmed.parse::<f64>().map(Value::from).ok())
    };
    let value = match default {
        Some(Value::Bool(..)) => trimmed.parse::<bool>().map(Value::from).ok(),
        Some(Value::Num(..) | Value::Empty(..)) => number(),
        _ => None,
    };
    value.unwrap_or_else(|| Value::from(text))
}
