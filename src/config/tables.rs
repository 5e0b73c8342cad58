//! Lists of tables in a file, each table checked as a section is.

use figment::Figment;
use figment::value::{Dict, Value};

use super::check::{Checked, judge_number, layer_of};
use super::{Problem, flatten, keys, shown};

/// What a value of a table is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// A text that no message repeats.
    Secret,
    /// A list of texts.
    Texts,
    /// One that may be left out.
    OptionalTexts,
    /// A whole number from the first to the second, that may be left out.
    OptionalNumber(u64, u64),
}

/// Checks the list at `key`, whose tables have these fields; what may be used of it, if it is a list.
pub(super) fn check(
    figment: &Figment,
    key: &str,
    list: &Value,
    fields: &[(&str, Form)],
    checked: &mut Checked,
) -> Option<Value> {
    let Value::Array(_, items) = list else {
        let message = format!("is a list in a file, each of it a table [[{key}]]");
        refuse(figment, key, list, &message, checked);
        return None;
    };
    let tables = items
        .iter()
        .enumerate()
        .map(|(number, item)| table(figment, &format!("{key}[{number}]"), item, fields, checked));
    Some(Value::from(tables.collect::<Vec<_>>()))
}

/// Says that the value at `key` is no list: a single table, or variables such as `HERMITMQ_TOPIC__NAME`. Each is named.
pub(super) fn refuse(
    figment: &Figment,
    key: &str,
    value: &Value,
    message: &str,
    checked: &mut Checked,
) {
    let alone = Dict::from([(key.to_owned(), value.clone())]);
    for (key, value) in flatten(&alone) {
        checked.problems.push(Problem::key(&key, &layer_of(figment, &key, &value), message));
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
            None => {
                let known = fields.iter().map(|(name, _)| *name);
                wrong(&key, value, unknown(&key, "it", known));
            }
            Some((_, form)) => match form.judge(&key, value) {
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
        if !dict.contains_key(*name) && !form.is_optional() {
            wrong(&format!("{key}.{name}"), "is missing");
        }
    }
    item.clone()
}

/// What to say of a key in a table that has others: of `it`, or what it is.
pub(super) fn unknown<'a>(key: &str, it: &str, known: impl Iterator<Item = &'a str>) -> String {
    let table = key.rsplit_once('.').map_or(key, |(table, _)| table);
    let known: Vec<String> = known.map(|name| format!("{table}.{name}")).collect();
    match keys::nearest(key, &known) {
        Some(name) => format!("unknown key; did you mean {name}?"),
        None => format!("unknown key; {it} has {}", known.join(", ")),
    }
}

impl Form {
    fn is_optional(self) -> bool {
        matches!(self, Self::OptionalTexts | Self::OptionalNumber(..))
    }

    fn judge(self, key: &str, value: &Value) -> Result<(), String> {
        let is_text = |value: &Value| value.as_str().is_some();
        match self {
            Self::Text if !is_text(value) => Err(format!("must be a string, not {}", shown(value))),
            Self::Secret if !is_text(value) => Err("must be a string".to_owned()),
            Self::Text | Self::Secret => Ok(()),
            Self::Texts | Self::OptionalTexts => match value.as_array() {
                Some(items) if items.iter().all(is_text) => Ok(()),
                _ => Err(format!("must be a list of strings, not {}", shown(value))),
            },
            Self::OptionalNumber(..) if matches!(value, Value::Empty(..)) => Ok(()),
            Self::OptionalNumber(min, max) => judge_number(key, value, (min, max)),
        }
    }
}
