//! Putting a partition's directory right: derived files are made anew, a torn tail is cut, damaged frames are taken out.
//!
//! What to do follows from what [`inspect`](super::inspect) finds; without being told to apply it, nothing is written. Nothing is
//! removed that was not copied before, durably; and whatever ends the process, a start finds the old or the new state.
//!
//! Reading order: this file (what is to be done), `apply` (doing it), `sums` (checksums that remember the old ones).

mod apply;
mod report;
mod sums;

use std::path::Path;
use std::sync::Arc;

use super::disk::Open;
use super::inspect::{
    Behind, Examined, Finding, InspectError, Layout, ReadOnlyDisk, Severity, State, examine_all,
};
use super::log::Environment;
use super::recovery::TORN;
use super::{replace, segment};
use apply::{Names, Work};

pub use report::{Action, Repair, Step};
pub(super) use sums::NewSums;

/// What is taken out of a segment, and kept.
const BAD: &str = "bad";

/// What a repair may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Takes damaged frames out of the log, so that readers go on behind them.
    pub quarantine: bool,
    /// Does it. Otherwise nothing is written.
    pub apply: bool,
}

/// Repairs a partition's directory, which no broker may have, or says what that would be. `progress` is told how many bytes
/// were looked at. What was done before an error is in the result, too.
pub fn repair_partition(
    env: &Environment,
    dir: &Path,
    options: RepairOptions,
    progress: &mut dyn FnMut(u64),
) -> (Repair, Result<(), InspectError>) {
    let mut repair = Repair::of(dir);
    let result = run(env, dir, options, progress, &mut repair);
    (repair, result)
}

fn run(
    env: &Environment,
    dir: &Path,
    options: RepairOptions,
    progress: &mut dyn FnMut(u64),
    repair: &mut Repair,
) -> Result<(), InspectError> {
    let looked = ReadOnlyDisk(Arc::clone(&env.disk));
    let layout = Layout::read(&looked, dir).map_err(InspectError::at(dir))?;
    for files in layout.segments.iter().filter(|files| files.replaced) {
        if options.apply {
            replace::finish(&*env.disk, dir, files.base).map_err(InspectError::at(dir))?;
        }
        repair.steps.push(Step::new(Action::FinishReplacement, &files.wal));
    }
    for files in layout.segments.iter().filter(|files| files.state == State::Active) {
        if options.apply {
            // What is judged is what the disk has, as at a start.
            let wal = segment::path(dir, files.base, segment::WAL);
            let synced = env.disk.open(&wal, Open::Existing).and_then(|file| file.sync_data());
            synced.map_err(InspectError::at(wal))?;
        }
    }
    let (segments, findings) = examine_all(&looked, dir, false, progress)?;
    let mut names = Names::read(&looked, dir).map_err(InspectError::at(dir))?;
    for segment in &segments {
        let work = plan(segment, options.quarantine, &mut names);
        if options.apply {
            work.apply(env, dir).map_err(InspectError::at(dir.join(&segment.view.files.wal)))?;
        }
        repair.steps.extend(work.steps());
        repair.left.extend(left(segment, options.quarantine));
    }
    repair.left.extend(findings.into_iter().filter(|finding| finding.severity > Severity::Note));
    Ok(())
}

/// What is to be done with a segment.
fn plan<'a>(segment: &'a Examined, quarantine: bool, names: &mut Names) -> Work<'a> {
    let base = segment.view.files.base;
    let mut work = Work::none(segment);
    if segment.is_left_alone() {
        return work;
    }
    if let Behind::Torn(range) = &segment.view.behind {
        work.cut = Some((range.clone(), names.unused(base, TORN)));
    }
    if quarantine {
        work.take_out =
            segment.bad.iter().map(|bad| (bad.clone(), names.unused(base, BAD))).collect();
        if let Some(surplus) = segment.surplus() {
            work.take_out.push((surplus, names.unused(base, BAD)));
        }
    }
    let rewritten = !work.take_out.is_empty();
    let shorter = quarantine && segment.is_too_short();
    // New checksums of a segment that is too short would say that it is whole.
    let renewed = segment.sums_wrong && !segment.is_too_short();
    work.sums = rewritten || work.cut.is_some() || shorter || renewed;
    work.index = rewritten || segment.index_wrong;
    work
}

/// What stays as it is.
fn left(segment: &Examined, quarantine: bool) -> Vec<Finding> {
    let quarantine = quarantine && !segment.is_left_alone();
    let stays = |finding: &&Finding| {
        finding.severity == Severity::Damage && !finding.kind.is_repaired(quarantine)
    };
    segment.report.findings.iter().filter(stays).cloned().collect()
}
