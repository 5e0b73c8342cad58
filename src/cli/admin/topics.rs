//! `hermitmq topic`

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{
    AlterArgs, CreateArgs, DeleteTopicArgs, Setting, Target, TopicArgs, TopicCommand,
};
use super::ask;
use super::confirm::confirm;
use crate::cli::failure::Failure;
use crate::cli::show::{flag, show};
use crate::cli::table::Table;
use crate::client::admin::{TopicChange, TopicDescription, TopicSettings, TopicSummary};

pub(in crate::cli) fn run(command: &TopicCommand) -> Result<(), Failure> {
    match command {
        TopicCommand::Create(args) => create(args),
        TopicCommand::List(target) => list(target),
        TopicCommand::Describe(args) => describe(args),
        TopicCommand::Alter(args) => alter(args),
        TopicCommand::Delete(args) => delete(args),
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let CreateArgs { topic, partitions, set, target } = args;
    // By name: whether a setting exists is for the broker to say.
    let set = set.iter().filter(|setting| !setting.value.is_null());
    let other: BTreeMap<_, _> =
        set.map(|Setting { key, value }| (key.clone(), value.clone())).collect();
    let settings = TopicSettings { partitions: *partitions, other, ..TopicSettings::default() };
    let created = ask(target, async |admin| admin.create_topic(topic, &settings).await)?;
    show(target.output, &created, description)
}

fn list(target: &Target) -> Result<(), Failure> {
    let topics = ask(target, async |admin| admin.topics().await)?;
    show(target.output, &topics, |topics| table(topics))
}

fn describe(args: &TopicArgs) -> Result<(), Failure> {
    let TopicArgs { topic, target } = args;
    let described = ask(target, async |admin| admin.describe_topic(topic).await)?;
    show(target.output, &described, description)
}

fn alter(args: &AlterArgs) -> Result<(), Failure> {
    let AlterArgs { topic, partitions, set, target } = args;
    let mut change = TopicChange::new();
    if let Some(partitions) = partitions {
        change = change.set("partitions", *partitions);
    }
    for Setting { key, value } in set {
        change = change.set(key, value.clone());
    }
    let altered = ask(target, async |admin| admin.alter_topic(topic, &change).await)?;
    show(target.output, &altered, description)
}

fn delete(args: &DeleteTopicArgs) -> Result<(), Failure> {
    let DeleteTopicArgs { topic, yes, target } = args;
    confirm(*yes, &format!("delete topic {topic} with all its records"))?;
    ask(target, async |admin| admin.delete_topic(topic).await)?;
    show(target.output, &json!({ "deleted": topic.as_str() }), |_| format!("deleted {topic}\n"))
}

fn table(topics: &[TopicSummary]) -> String {
    let mut table = Table::new(&["topic", "partitions", "bytes", "reserved"]);
    for topic in topics {
        let TopicSummary { name, reserved, partitions, bytes } = topic;
        let numbers = [partitions.to_string(), bytes.to_string(), flag(*reserved)];
        table.row([vec![name.clone()], numbers.to_vec()].concat());
    }
    table.text()
}

fn description(topic: &TopicDescription) -> String {
    let mut text = format!("{}\n", topic.name);
    let set = by_name(&topic.settings);
    for (name, value) in by_name(&topic.effective) {
        let whose =
            if set.get(&name).is_some_and(|value| !value.is_null()) { "" } else { "  (default)" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name} = {}{whose}", plain(&value));
    }
    if topic.declared {
        text.push_str("  declared in the configuration of the broker\n");
    }
    let mut table = Table::new(&[
        "partition",
        "start",
        "end",
        "flushed",
        "segments",
        "bytes",
        "read-only",
        "damaged",
    ]);
    for partition in &topic.partitions {
        let numbers = [
            partition.start_offset,
            partition.end_offset,
            partition.flushed_offset,
            partition.segments,
            partition.bytes,
        ];
        let damaged = partition.damaged.iter().map(|range| range.end_offset - range.start_offset);
        let mut row = vec![partition.partition.to_string()];
        row.extend(numbers.map(|number| number.to_string()));
        row.extend([flag(partition.read_only), damaged.sum::<u64>().to_string()]);
        table.row(row);
    }
    text + &table.text()
}

/// The settings that a description has, whether this program knows them or not.
fn by_name(settings: &TopicSettings) -> BTreeMap<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(name, _)| name != "name").collect(),
        _ => BTreeMap::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
