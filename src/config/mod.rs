//! The configuration: one [`Config`], composed of the options that each layer owns.
//!
//! Layers, the later one wins: built-in defaults, one file, the environment, flags. Every value keeps the name of the
//! layer that set it, so that an error and `hermitmq config show` can say where it came from.
//!
//! Reading order: [`Sources`] says what to read, `layer` reads it, `keys` is what the types do not say about the keys,
//! `check` (and `topics`, for the declared ones, and `tables` and `access` for other lists) finds everything that is wrong with
//! single values, `relations` what is wrong between them, `derived` puts in what the [`Container`] decides, [`Loaded`] is the result.

mod access;
mod check;
mod container;
mod derived;
mod error;
mod keys;
mod layer;
mod relations;
mod sources;
mod tables;
mod topics;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use figment::value::{Dict, Value};
use figment::{Figment, Profile};
use serde::{Deserialize, Serialize};

use crate::{admin, broker, net, storage, telemetry, tls};

pub use container::{Container, Cpus, Memory};
pub use error::{ConfigError, Problem};
pub use sources::{Flag, Sources};

use layer::Layer;

/// Everything an operator can set. `config/hermitmq.toml` lists the keys with their units.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The listener and its connections.
    pub server: net::Options,
    /// The log on disk.
    pub storage: storage::Options,
    /// Taking superseded records out.
    pub compaction: storage::CompactionOptions,
    /// Limits that protect the broker from its clients.
    pub security: net::SecurityOptions,
    /// Topics and partitions.
    pub topics: broker::Options,
    /// What groups have committed.
    pub offsets: broker::OffsetsOptions,
    /// Topics that are there from the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topic: Vec<broker::TopicOptions>,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// The admin listener.
    pub admin: admin::Options,
    /// TLS, of the listener for clients and of the admin listener.
    pub tls: tls::Options,
    /// Who may do what.
    pub access: crate::access::Options,
}

/// One setting in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its dotted key.
    pub key: String,
    /// Its value, as it would stand in a file.
    pub value: String,
    /// What set it: `default`, what of the container decides it, a file, an environment variable or a flag.
    pub layer: String,
}

/// A configuration that passed every check, and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The effective values.
    pub config: Config,
    /// What the operator should know although it does not stop the start, one sentence each.
    pub warnings: Vec<String>,
    /// For each dotted key the layer that set it: `default`, what of the container decides it, a file, an environment
    /// variable or a flag.
    pub sources: BTreeMap<String, String>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
}

impl Config {
    /// Reads all layers and checks the result. Reports every problem found, not only the first.
    pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        let defaults = defaults()?;
        let mut problems = Vec::new();
        let file = sources.file_layer(&mut problems);
        let path = file.as_ref().map(|(path, _)| path.clone());
        let env = layer::environment(&sources.env, &defaults, &mut problems);
        let figment = Figment::from(Layer::named(layer::DEFAULT, defaults.clone()))
            .merge(file.map_or_else(Layer::empty, |(_, layer)| layer))
            .merge(env)
            .merge(layer::flags(&sources.flags, &defaults));
        let merged = figment.data_of_default_profile()?;
        let mut checked = check::check(&figment, &merged, &defaults);
        let values = Layer::named(layer::DEFAULT, std::mem::take(&mut checked.values));
        let mut config: Result<Self, _> = Figment::from(values).extract();
        // What may be used is judged as a whole, whatever is wrong with the rest.
        if let Ok(config) = &mut config {
            for quota in &mut config.security.quota {
                quota.canonicalize();
            }
            checked.relations(config);
            access::judge(config, &mut checked);
        }
        problems.append(&mut checked.problems);
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        let config = config?;
        let mut loaded =
            Loaded { config, warnings: checked.warnings, sources: checked.layers, file: path };
        loaded.derive(&sources.container);
        Ok(loaded)
    }
}

impl Loaded {
    /// The settings that have a value, by key.
    pub fn settings(&self) -> Result<Vec<Setting>, ConfigError> {
        let leaves =
            flatten(&dict_of(&self.config)?).into_iter().flat_map(|(key, value)| {
                match key.as_str() {
                    topics::TOPIC => topics::leaves(&value),
                    list if access::list_keys().any(|key| key == list) => {
                        access::leaves(list, &value)
                    }
                    _ => vec![(key, value)],
                }
            });
        let set = leaves.filter(|(_, value)| !matches!(value, Value::Empty(..)));
        let settings = set.map(|(key, value)| {
            let layer = self.sources.get(&key).map_or(layer::DEFAULT, String::as_str).to_owned();
            Setting { key, value: written(&value), layer }
        });
        Ok(settings.collect())
    }

    /// The effective values as text: one `key = value  # layer` line for each key that has a value.
    pub fn show(&self) -> Result<String, ConfigError> {
        let mut text = String::new();
        for Setting { key, value, layer } in self.settings()? {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key} = {value}  # {layer}");
        }
        Ok(text)
    }
}

/// The defaults as a tree of values: the valid keys are exactly its keys.
fn defaults() -> Result<Dict, ConfigError> {
    dict_of(&Config::default())
}

fn dict_of(config: &Config) -> Result<Dict, ConfigError> {
    Ok(Value::serialize(config)?.into_dict().unwrap_or_default())
}

/// The leaves of a tree by their dotted keys. An empty table counts as a leaf.
fn flatten(dict: &Dict) -> BTreeMap<String, Value> {
    flatten_to(dict, &|_| false)
}

/// The same; what stands at a key that `is_leaf` is one, also a table.
fn flatten_to(dict: &Dict, is_leaf: &impl Fn(&str) -> bool) -> BTreeMap<String, Value> {
    fn walk(
        prefix: &str,
        dict: &Dict,
        is_leaf: &impl Fn(&str) -> bool,
        leaves: &mut BTreeMap<String, Value>,
    ) {
        for (name, value) in dict {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Dict(_, inner) if !inner.is_empty() && !is_leaf(&key) => {
                    walk(&key, inner, is_leaf, leaves);
                }
                leaf => {
                    leaves.insert(key, leaf.clone());
                }
            }
        }
    }
    let mut leaves = BTreeMap::new();
    walk("", dict, is_leaf, &mut leaves);
    leaves
}

/// A value as an operator would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Char(_, c) => format!("{:?}", c.to_string()),
        Value::Bool(_, b) => b.to_string(),
        Value::Num(_, num) => num
            .to_u128_lossy()
            .map(|n| n.to_string())
            .or_else(|| num.to_i128().map(|n| n.to_string()))
            .or_else(|| num.to_f64().map(|n| format!("{n:?}")))
            .unwrap_or_default(),
        Value::Empty(..) => "null".to_owned(),
        Value::Dict(..) => "a table".to_owned(),
        Value::Array(..) => "a list".to_owned(),
    }
}

/// A value as it would stand in a file, with all that is in a list or a table.
fn written(value: &Value) -> String {
    match value {
        Value::Array(_, items) => {
            let items: Vec<_> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Dict(_, fields) => {
            let set = fields.iter().filter(|(_, value)| !matches!(value, Value::Empty(..)));
            let fields: Vec<_> =
                set.map(|(name, value)| format!("{name} = {}", written(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        leaf => shown(leaf),
    }
}

/// The one profile of a figment that this project uses.
trait DefaultProfile {
    /// The merged values of all layers.
    fn data_of_default_profile(&self) -> Result<Dict, ConfigError>;
}

impl DefaultProfile for Figment {
    fn data_of_default_profile(&self) -> Result<Dict, ConfigError> {
        let mut profiles = figment::Provider::data(self)?;
        Ok(profiles.remove(&Profile::Default).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
