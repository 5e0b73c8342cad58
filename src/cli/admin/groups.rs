//! `hermitmq group`

use serde_json::json;

use super::args::{DeleteGroupArgs, GroupArgs, GroupCommand, ResetArgs, Target};
use super::ask;
use super::confirm::confirm;
use crate::cli::failure::Failure;
use crate::cli::show::{or_none, show};
use crate::cli::table::Table;
use crate::client::admin::{GroupDescription, GroupReset, GroupSummary, ResetStep};

pub(in crate::cli) fn run(command: &GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::List(target) => list(target),
        GroupCommand::Describe(args) => describe(args),
        GroupCommand::Reset(args) => reset(args),
        GroupCommand::Delete(args) => delete(args),
    }
}

fn list(target: &Target) -> Result<(), Failure> {
    let groups = ask(target, async |admin| admin.groups().await)?;
    show(target.output, &groups, |groups| table(groups))
}

fn describe(args: &GroupArgs) -> Result<(), Failure> {
    let GroupArgs { group, target } = args;
    let described = ask(target, async |admin| admin.describe_group(group).await)?;
    show(target.output, &described, description)
}

fn reset(args: &ResetArgs) -> Result<(), Failure> {
    let ResetArgs { group, topic, partitions, to, dry_run, target } = args;
    let reset = GroupReset {
        topic: topic.clone(),
        partitions: partitions.clone(),
        to: to.0,
        dry_run: *dry_run,
    };
    let steps = ask(target, async |admin| admin.reset_group(group, &reset).await)?;
    show(target.output, &steps, |steps| steps_of(steps, *dry_run))
}

fn delete(args: &DeleteGroupArgs) -> Result<(), Failure> {
    let DeleteGroupArgs { group, yes, target } = args;
    confirm(*yes, &format!("forget where group {group} stands"))?;
    ask(target, async |admin| admin.delete_group(group).await)?;
    show(target.output, &json!({ "deleted": group.as_str() }), |_| format!("deleted {group}\n"))
}

fn table(groups: &[GroupSummary]) -> String {
    let mut table = Table::new(&["group", "consumers", "partitions", "lag"]);
    for group in groups {
        let numbers = [group.consumers, group.partitions, group.lag].map(|n| n.to_string());
        table.row([vec![group.name.clone()], numbers.to_vec()].concat());
    }
    table.text()
}

fn description(group: &GroupDescription) -> String {
    let mut table =
        Table::new(&["topic", "partition", "committed", "start", "end", "lag", "consumers"]);
    for offset in &group.offsets {
        table.row(vec![
            offset.topic.clone(),
            offset.partition.to_string(),
            or_none(offset.committed),
            or_none(offset.start_offset),
            or_none(offset.end_offset),
            or_none(offset.lag),
            offset.consumers.to_string(),
        ]);
    }
    table.text()
}

fn steps_of(steps: &[ResetStep], dry_run: bool) -> String {
    let mut table = Table::new(&["partition", "from", "to", "start", "end"]);
    for step in steps {
        let numbers = [step.to, step.start_offset, step.end_offset].map(|n| n.to_string());
        let row = [vec![step.partition.to_string(), or_none(step.from)], numbers.to_vec()].concat();
        table.row(row);
    }
    let note = if dry_run { "nothing was changed: --dry-run\n" } else { "" };
    table.text() + note
}
