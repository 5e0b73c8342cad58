//! `hermitmq log repair`.

use serde::Serialize;

use super::args::{DumpFormat, RepairArgs};
use super::failed;
use super::places::{count, file, finding, span};
use crate::cli::failure::Failure;
use crate::cli::progress::Progress;
use crate::cli::show;
use crate::server::data_dir::{Action, DataDir, Repair, RepairOptions, Step};

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    dir: String,
    /// Whether it was done.
    applied: bool,
    partitions: &'a [Repair],
}

pub(super) fn run(args: &RepairArgs) -> Result<(), Failure> {
    let dir = DataDir::open(&args.dir).map_err(|error| failed(&error))?;
    let progress = Progress::bytes("looking", Some(dir.bytes()));
    let options = RepairOptions { quarantine: args.quarantine, apply: args.apply };
    let mut repaired = Vec::new();
    let ended = dir.repair(options, &mut |bytes| progress.add(bytes), &mut repaired);
    drop(progress);
    match args.output {
        DumpFormat::Text => show::print(text(&repaired, args.apply, ended.is_ok()).as_bytes())?,
        DumpFormat::Json => show::json_line(&Report {
            dir: args.dir.display().to_string(),
            applied: args.apply,
            partitions: &repaired,
        })?,
    }
    ended.map_err(|error| failed(&error))?;
    let steps: usize = repaired.iter().map(|repair| repair.steps.len()).sum();
    let left: usize = repaired.iter().map(|repair| repair.left.len()).sum();
    let mut said = Vec::new();
    if steps > 0 && !args.apply {
        let steps = count(steps, "thing", "things");
        said.push(format!("{steps} to be done, nothing was changed; --apply does it"));
    }
    if left > 0 {
        let hint = if args.quarantine { "" } else { "; --quarantine takes damaged frames out" };
        said.push(format!(
            "{} left as it is{hint}",
            count(left, "damaged place", "damaged places")
        ));
    }
    if said.is_empty() { Ok(()) } else { Err(Failure::Damaged(said.join("\n"))) }
}

fn text(repaired: &[Repair], applied: bool, complete: bool) -> String {
    let lines = repaired.iter().flat_map(|repair| {
        let name = repair.partition.as_str();
        let steps = repair.steps.iter().map(move |step| line(name, step, applied));
        let left = repair.left.iter().map(move |left| format!("left: {}\n", finding(name, left)));
        steps.chain(left)
    });
    let text: String = lines.collect();
    if text.is_empty() && complete { "nothing to do\n".to_owned() } else { text }
}

fn line(partition: &str, step: &Step, applied: bool) -> String {
    let file = file(partition, &step.file);
    let bytes = step.bytes.as_ref().map(span).unwrap_or_default();
    let offsets = step.offsets.as_ref().map(|offsets| format!(" (offsets {})", span(offsets)));
    let offsets = offsets.unwrap_or_default();
    let kept = step.kept.as_deref().map(|kept| format!(", kept as {kept}")).unwrap_or_default();
    let verb = |would, did| if applied { did } else { would };
    let what = match step.action {
        Action::FinishReplacement => {
            format!("{} replacing {file}", verb("would finish", "finished"))
        }
        Action::CutTail => format!("{} bytes {bytes} off {file}{kept}", verb("would cut", "cut")),
        Action::Quarantine => {
            format!("{} bytes {bytes}{offsets} out of {file}{kept}", verb("would take", "took"))
        }
        Action::RebuildChecksums | Action::RebuildIndex => {
            format!("{} {file}", verb("would rebuild", "rebuilt"))
        }
    };
    what + "\n"
}
