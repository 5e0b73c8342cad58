//! The lists of section `access`: tables in a file, each checked as a section is. What their values mean is for
//! [`crate::access`] to say; here only their form is.

use figment::Figment;
use figment::value::{Dict, Value};

use super::check::{Checked, layer_of};
use super::layer::DEFAULT;
use super::{Config, Problem, dict_of, flatten, keys, shown};

/// The section.
pub(super) const ACCESS: &str = "access";

/// Key of the file of client certificates' authority: with it anybody may be the principal of its certificate's name.
const CLIENT_CA: (&str, &str) = ("tls", "client_ca_file");

/// What a value of a table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// A text that no message repeats.
    Secret,
    /// A list of texts.
    Texts,
    /// One that may be left out.
    OptionalTexts,
}

/// The lists, and what is in their tables.
const LISTS: &[(&str, &[(&str, Form)])] = &[
    ("certificate", &[("principal", Form::Text), ("subject", Form::Text)]),
    ("network", &[("cidr", Form::Text), ("principal", Form::Text)]),
    (
        "rule",
        &[
            ("groups", Form::OptionalTexts),
            ("operations", Form::Texts),
            ("principals", Form::Texts),
            ("topics", Form::OptionalTexts),
        ],
    ),
    ("token", &[("hash", Form::Secret), ("principal", Form::Text)]),
];

/// The keys of the lists: `access.rule` and so on.
pub(super) fn list_keys() -> impl Iterator<Item = String> {
    LISTS.iter().map(|(list, _)| format!("{ACCESS}.{list}"))
}

/// Takes the lists out of the merged values and checks them; what may be used of them stands in `checked`.
pub(super) fn check(figment: &Figment, merged: &mut Dict, checked: &mut Checked) {
    let Some(Value::Dict(_, section)) = merged.get_mut(ACCESS) else { return };
    let mut usable = Dict::new();
    for (list, fields) in LISTS {
        let Some(value) = section.remove(*list) else { continue };
        let key = format!("{ACCESS}.{list}");
        let Value::Array(_, items) = &value else {
            let message = format!("is a list in a file, each of it a table [[{key}]]");
            let alone = Dict::from([(key, value.clone())]);
            for (key, value) in flatten(&alone) {
                let layer = layer_of(figment, &key, &value);
                checked.problems.push(Problem::key(&key, &layer, &*message));
            }
            continue;
        };
        let tables = items.iter().enumerate().map(|(number, item)| {
            table(figment, &format!("{key}[{number}]"), item, fields, checked)
        });
        usable.insert((*list).to_owned(), Value::from(tables.collect::<Vec<_>>()));
    }
    if let Some(Value::Dict(_, section)) = checked.values.get_mut(ACCESS) {
        section.extend(usable);
    }
}

fn table(
    figment: &Figment,
    key: &str,
    item: &Value,
    fields: &[(&str, Form)],
    checked: &mut Checked,
) -> Value {
    let mut wrong = |key: &str, value: &Value, message: String| {
        checked.problems.push(Problem::key(key, &layer_of(figment, key, value), message));
    };
    let Value::Dict(_, dict) = item else {
        wrong(key, item, format!("must be a table, not {}", shown(item)));
        return Value::from(Dict::new());
    };
    for (name, value) in dict {
        let key = format!("{key}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            None => wrong(&key, value, unknown(&key, fields)),
            Some((_, form)) => match form.judge(value) {
                Err(message) => wrong(&key, value, message),
                Ok(()) => {
                    checked.layers.insert(key.clone(), layer_of(figment, &key, value));
                }
            },
        }
    }
    let mut wrong = |key: &str, message: &str| {
        checked.problems.push(Problem::key(key, &layer_of(figment, key, item), message));
    };
    for (name, form) in fields {
        if !dict.contains_key(*name) && *form != Form::OptionalTexts {
            wrong(&format!("{key}.{name}"), "is missing");
        }
    }
    item.clone()
}

fn unknown(key: &str, fields: &[(&str, Form)]) -> String {
    let table = key.rsplit_once('.').map_or(key, |(table, _)| table);
    let known: Vec<String> = fields.iter().map(|(name, _)| format!("{table}.{name}")).collect();
    match keys::nearest(key, &known) {
        Some(name) => format!("unknown key; did you mean {name}?"),
        None => format!("unknown key; it has {}", known.join(", ")),
    }
}

impl Form {
    fn judge(self, value: &Value) -> Result<(), String> {
        let is_text = |value: &Value| value.as_str().is_some();
        match self {
            Self::Text if !is_text(value) => Err(format!("must be a string, not {}", shown(value))),
            Self::Secret if !is_text(value) => Err("must be a string".to_owned()),
            Self::Text | Self::Secret => Ok(()),
            Self::Texts | Self::OptionalTexts => match value.as_array() {
                Some(items) if items.iter().all(is_text) => Ok(()),
                _ => Err(format!("must be a list of strings, not {}", shown(value))),
            },
        }
    }
}

/// Adds what the section itself finds wrong with a configuration whose form is right.
pub(super) fn judge(config: &Config, checked: &mut Checked) {
    let (problems, warnings) = config.access.check(certificates(&checked.values));
    let layer = |key: &str| {
        let exact = checked.layers.get(key);
        // Behind the key may stand which line it is.
        let whole = || checked.layers.get(key.split(' ').next().unwrap_or(key));
        exact.or_else(whole).map_or(DEFAULT, String::as_str).to_owned()
    };
    for warning in warnings {
        let (key, message) = (&warning.key, &warning.message);
        checked.warnings.push(format!("{key} (set by {}): {message}", layer(key)));
    }
    let problems =
        problems.into_iter().map(|it| Problem::key(&it.key, &layer(&it.key), it.message));
    checked.problems.extend(problems.collect::<Vec<_>>());
}

/// Whether somebody can be told from others, and there are rules for it.
pub(super) fn guards(values: &Dict) -> bool {
    let section = values.get(ACCESS).and_then(Value::as_dict);
    let Some(section) = section else { return false };
    let has = |name: &str| match section.get(name) {
        Some(Value::Array(_, items)) => !items.is_empty(),
        Some(value) => value.as_str().is_some_and(|text| !text.is_empty()),
        None => false,
    };
    let known = ["tokens", "tokens_file", "token", "network"].into_iter().any(has);
    has("rule") && (known || certificates(values))
}

impl Config {
    /// Whether the admin listener asks who somebody is: there are rules, and somebody can be told from others.
    pub fn guards_admin(&self) -> bool {
        dict_of(self).is_ok_and(|values| guards(&values))
    }
}

/// Whether clients may show certificates.
fn certificates(values: &Dict) -> bool {
    let (section, name) = CLIENT_CA;
    let file = values.get(section).and_then(Value::as_dict).and_then(|section| section.get(name));
    file.and_then(Value::as_str).is_some_and(|file| !file.is_empty())
}

/// The values of the lists with their keys, as `hermitmq config show` lists them.
pub(super) fn leaves(key: &str, list: &Value) -> Vec<(String, Value)> {
    let items = list.as_array().unwrap_or_default();
    let of_item = |(number, item): (usize, &Value)| {
        let dict = item.as_dict().cloned().unwrap_or_default();
        dict.into_iter().map(move |(name, value)| (format!("{key}[{number}].{name}"), value))
    };
    items.iter().enumerate().flat_map(of_item).collect()
}
