//! Checks the merged values against the defaults: unknown keys, wrong types, impossible values.

use std::collections::BTreeMap;

use figment::error::Kind;
use figment::value::{Dict, Value};
use figment::{Figment, Profile};
use serde::de::DeserializeOwned;

use super::access;
use super::error::one_line;
use super::layer::{DEFAULT, Layer};
use super::tables::{self, Form};
use super::topics::{self, TOPIC};
use super::{Config, Problem, flatten, flatten_to, keys, shown};

/// The list of quotas, and what is in its tables.
pub(super) const QUOTA: &str = "security.quota";
const QUOTA_FIELDS: &[(&str, Form)] = &[
    ("consume_kb_per_s", Form::OptionalNumber(1, keys::U32_MAX)),
    ("principal", Form::Text),
    ("produce_kb_per_s", Form::OptionalNumber(1, keys::U32_MAX)),
];

/// The outcome of a check.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The values to use, where there are no problems.
    pub(super) values: Dict,
    /// Dotted key to the layer that set it.
    pub(super) layers: BTreeMap<String, String>,
    /// One sentence each.
    pub(super) warnings: Vec<String>,
    /// What stops the start.
    pub(super) problems: Vec<Problem>,
}

/// What to do with one value.
enum Verdict {
    Use,
    /// Use the default, and warn.
    UseDefault(String),
    Refuse(String),
}

/// Checks every value of `merged`, whose layers `figment` knows.
pub(super) fn check(figment: &Figment, merged: &Dict, defaults: &Dict) -> Checked {
    let known = flatten(defaults);
    let mut checked = Checked { values: defaults.clone(), ..Checked::default() };
    let mut merged = merged.clone();
    if let Some(list) = merged.remove(TOPIC) {
        topics::check(figment, &list, &mut checked);
    }
    access::check(figment, &mut merged, &mut checked);
    for (key, value) in flatten_to(&merged, &|key| known.contains_key(key)) {
        let layer = layer_of(figment, &key, &value);
        let Some(default) = known.get(&key) else {
            checked.unknown(&key, &layer, &value, &known);
            continue;
        };
        if layer == DEFAULT || matches!(value, Value::Empty(..)) {
            checked.layers.insert(key, DEFAULT.to_owned());
            continue;
        }
        if key == QUOTA {
            if let Some(list) = tables::check(figment, &key, &value, QUOTA_FIELDS, &mut checked) {
                checked.accept(key, layer, list);
            }
            continue;
        }
        match judge(&key, &value, default) {
            Verdict::Use => checked.accept(key, layer, value),
            Verdict::UseDefault(why) => {
                checked.warnings.push(format!("{key} (set by {layer}) {why}"));
                checked.layers.insert(key, DEFAULT.to_owned());
            }
            Verdict::Refuse(message) => {
                checked.problems.push(Problem::key(&key, &layer, message));
            }
        }
    }
    checked
}

impl Checked {
    fn accept(&mut self, key: String, layer: String, value: Value) {
        if let Some(warning) = keys::warning(&key) {
            self.warnings.push(format!("{key} (set by {layer}) {warning}"));
        }
        set(&mut self.values, &key, value);
        self.layers.insert(key, layer);
    }

    fn unknown(&mut self, key: &str, layer: &str, value: &Value, known: &BTreeMap<String, Value>) {
        let section = format!("{key}.");
        let is_section = known.keys().any(|k| k.starts_with(&section));
        if is_section {
            // An empty table sets nothing.
            if !matches!(value, Value::Dict(..)) {
                let hint = if key == "topics" && matches!(value, Value::Array(..)) {
                    "; topics are declared as [[topic]]"
                } else {
                    ""
                };
                let message =
                    format!("this is a section with keys of its own, not {}{hint}", shown(value));
                self.problems.push(Problem::key(key, layer, message));
            }
            return;
        }
        let lists: Vec<String> = access::list_keys().chain([TOPIC.to_owned()]).collect();
        let message = match keys::nearest(key, known.keys().chain(&lists)) {
            Some(name) => format!("unknown key; did you mean {name}?"),
            None => "unknown key; `hermitmq config show` lists the keys".to_owned(),
        };
        self.problems.push(Problem::key(key, layer, message));
    }
}

fn judge(key: &str, value: &Value, default: &Value) -> Verdict {
    if let Some(range) = keys::range(key) {
        return match whole_number(value) {
            Some(n) if n <= 0 && keys::zero_is_default(key) => {
                let default = match default {
                    Value::Empty(..) => "ignored".to_owned(),
                    default => format!("the default, {}", shown(default)),
                };
                Verdict::UseDefault(format!("is {n}, which means {default}"))
            }
            _ => judge_number(key, value, range).map_or_else(Verdict::Refuse, |()| Verdict::Use),
        };
    }
    if value.as_str() == Some("") {
        return judge_empty(key);
    }
    // The value alone over the defaults: whatever the types refuse is about this key.
    let alone = |value| {
        let mut values = Dict::new();
        set(&mut values, key, value);
        values
    };
    tried::<Config>(value, alone).map_or_else(Verdict::Refuse, |_| Verdict::Use)
}

/// Reads a value among others that are right; what its type says if it refuses it.
pub(super) fn tried<T: DeserializeOwned>(
    value: &Value,
    among: impl Fn(Value) -> Dict,
) -> Result<T, String> {
    let read = |value| {
        let values = Layer::named(DEFAULT, among(value));
        Figment::from(values).extract::<T>().map_err(|error| error.kind)
    };
    read(value.clone()).map_err(|kind| {
        // A choice tells its words to whoever has given another word.
        let is_choice = matches!(&kind, Kind::InvalidType(_, it) if it.starts_with("enum "));
        let of_word = || read(Value::from("")).err();
        refusal(&is_choice.then(of_word).flatten().unwrap_or(kind), value)
    })
}

fn refusal(kind: &Kind, value: &Value) -> String {
    match kind {
        Kind::UnknownVariant(_, valid) => {
            format!("must be one of {}, not {}", valid.join(", "), shown(value))
        }
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            let expected = match expected.as_str() {
                "a boolean" => "true or false",
                "path string" => "a string",
                other => other,
            };
            format!("must be {expected}, not {}", shown(value))
        }
        other => one_line(&other.to_string()),
    }
}

/// Whether the value of a key is a whole number from `min` to `max`; what to say if it is not.
pub(super) fn judge_number(key: &str, value: &Value, (min, max): (u64, u64)) -> Result<(), String> {
    match whole_number(value) {
        Some(n) if n >= i128::from(min) && n <= i128::from(max) => Ok(()),
        _ => {
            let of_unit = keys::unit(key).map_or_else(String::new, |unit| format!(" of {unit}"));
            let given = shown(value);
            Err(format!("must be a whole number{of_unit} from {min} to {max}, not {given}"))
        }
    }
}

fn whole_number(value: &Value) -> Option<i128> {
    value.to_num().and_then(|num| {
        num.to_i128().or_else(|| num.to_u128_lossy().and_then(|n| i128::try_from(n).ok()))
    })
}

/// An empty text: in the original an empty directory means the default.
fn judge_empty(key: &str) -> Verdict {
    match key {
        "admin.listen" | "access.tokens" | "access.tokens_file" => Verdict::Use,
        "storage.data_dir" => Verdict::UseDefault("is empty, which means the default".to_owned()),
        "server.host" => {
            Verdict::Refuse("must not be empty; 0.0.0.0 listens on every address".to_owned())
        }
        _ => Verdict::Refuse("must not be empty".to_owned()),
    }
}

/// The layer that set a value.
pub(super) fn layer_of(figment: &Figment, key: &str, value: &Value) -> String {
    let path: Vec<&str> = key.split('.').collect();
    figment.get_metadata(value.tag()).map_or_else(
        || DEFAULT.to_owned(),
        |metadata| metadata.interpolate(&Profile::Default, &path),
    )
}

fn set(dict: &mut Dict, key: &str, value: Value) {
    let Some((section, name)) = key.split_once('.') else {
        dict.insert(key.to_owned(), value);
        return;
    };
    let inner = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if let Value::Dict(_, inner) = inner {
        set(inner, name, value);
    }
}
