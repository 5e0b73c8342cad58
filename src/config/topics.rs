//! The topics that a configuration declares: a list of tables `[[topic]]`, each checked as a section is.

use std::collections::BTreeMap;

use figment::Figment;
use figment::value::{Dict, Value};

use super::check::{Checked, judge_number, layer_of, tried};
use super::{Problem, keys, shown, tables};
use crate::broker::TopicOptions;
use crate::model::{TopicName, limits};

/// The key of the list.
pub(super) const TOPIC: &str = "topic";

const NAME: &str = "name";

/// The whole numbers that a topic may have, with the smallest and largest values, both allowed.
const RANGES: &[(&str, u64, u64)] = &[
    ("partitions", 1, limits::PARTITIONS_PER_TOPIC_MAX as u64),
    ("retention_hours", 0, keys::U32_MAX),
    ("retention_mb", 0, keys::U32_MAX),
    ("max_segment_mb", 1, limits::SEGMENT_MB_MAX as u64),
    ("max_payload_mb", 1, limits::PAYLOAD_MB_MAX as u64),
];

/// Name of the topic that values are tried on. Every legal name would do.
const TRIED: &str = "tried";

/// Checks the list and adds what it says to `checked`.
pub(super) fn check(figment: &Figment, list: &Value, checked: &mut Checked) {
    const LIST: &str = "topics are declared in a file, each as a table [[topic]]";
    let mut topics = Vec::new();
    // First key that has the name, by name.
    let mut names = BTreeMap::new();
    match list {
        Value::Array(_, items) => {
            for (number, item) in items.iter().enumerate() {
                let key = format!("{TOPIC}[{number}]");
                if let Value::Dict(_, dict) = item {
                    let topic = topic(figment, &key, item, dict, checked);
                    checked.unique(figment, &key, &topic, &mut names);
                    topics.push(Value::from(topic));
                } else {
                    let message = format!("must be a table, not {}; {LIST}", shown(item));
                    checked.problems.push(Problem::key(
                        &key,
                        &layer_of(figment, &key, item),
                        message,
                    ));
                }
            }
        }
        other => tables::refuse(figment, TOPIC, other, LIST, checked),
    }
    checked.values.insert(TOPIC.to_owned(), Value::from(topics));
}

/// Checks one table, which stands at `key`; returns what may be used of it.
fn topic(figment: &Figment, key: &str, item: &Value, dict: &Dict, checked: &mut Checked) -> Dict {
    let known = template();
    let mut accepted = Dict::new();
    for (name, value) in dict {
        let key = format!("{key}.{name}");
        let layer = layer_of(figment, &key, value);
        let judged = match known.get(name) {
            None => Err(tables::unknown(&key, "a topic", known.keys().map(String::as_str))),
            Some(_) if matches!(value, Value::Empty(..)) => continue,
            Some(_) => judge(name, value),
        };
        match judged {
            Ok(()) => {
                accepted.insert(name.clone(), value.clone());
                checked.layers.insert(key, layer);
            }
            Err(message) => checked.problems.push(Problem::key(&key, &layer, message)),
        }
    }
    if !dict.contains_key(NAME) {
        let layer = layer_of(figment, key, item);
        let message = "is missing: a declared topic has a name";
        checked.problems.push(Problem::key(&format!("{key}.{NAME}"), &layer, message));
    }
    accepted
}

fn judge(name: &str, value: &Value) -> Result<(), String> {
    if let Some(&(_, min, max)) = RANGES.iter().find(|(known, ..)| *known == name) {
        return judge_number(name, value, (min, max));
    }
    // The value alone on a topic that is right: whatever the types refuse is about this key.
    let of_topic = |value| {
        let mut dict = template();
        dict.insert(name.to_owned(), value);
        dict
    };
    let topic: TopicOptions = tried(value, of_topic)?;
    if topic.name.is_reserved() {
        return Err(format!("{} is a name that the broker keeps for itself", shown(value)));
    }
    Ok(())
}

/// A topic that is right. Its keys are the valid ones.
fn template() -> Dict {
    let options = TopicName::parse(TRIED).map(TopicOptions::named);
    let dict = options.ok().and_then(|options| Value::serialize(options).ok()?.into_dict());
    dict.unwrap_or_default()
}

impl Checked {
    fn unique(
        &mut self,
        figment: &Figment,
        key: &str,
        topic: &Dict,
        names: &mut BTreeMap<String, String>,
    ) {
        let Some(value) = topic.get(NAME) else { return };
        let Some(name) = value.as_str() else { return };
        if let Some(first) = names.get(name) {
            let key = format!("{key}.{NAME}");
            let message = format!("{name:?} is declared by {first} already");
            self.problems.push(Problem::key(&key, &layer_of(figment, &key, value), message));
        } else {
            names.insert(name.to_owned(), key.to_owned());
        }
    }
}

/// The values of a checked list with their keys, as `hermitmq config show` lists them.
pub(super) fn leaves(list: &Value) -> Vec<(String, Value)> {
    let items = list.as_array().unwrap_or_default();
    let of_item = |(number, item): (usize, &Value)| {
        let dict = item.as_dict().cloned().unwrap_or_default();
        dict.into_iter().map(move |(name, value)| (format!("{TOPIC}[{number}].{name}"), value))
    };
    items.iter().enumerate().flat_map(of_item).collect()
}
