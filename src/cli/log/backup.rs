//! `hermitmq log backup`.

use super::args::{BackupArgs, DumpFormat};
use super::failed;
use super::places::count;
use crate::cli::failure::Failure;
use crate::cli::progress::Progress;
use crate::cli::show;
use crate::server::data_dir::{Backup, DataDir};

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    let dir = DataDir::open(&args.src).map_err(|error| failed(&error))?;
    let progress = Progress::bytes("copying", Some(dir.bytes()));
    let done = dir.backup(&args.dst, !args.copy, &mut |bytes| progress.add(bytes));
    drop(progress);
    let done = done.map_err(|error| failed(&error))?;
    match args.output {
        DumpFormat::Text => show::print(text(&done).as_bytes())?,
        DumpFormat::Json => show::json_line(&done)?,
    }
    if done.failed.is_empty() {
        return Ok(());
    }
    let failed = done.failed.join("\n");
    let unfinished = "could not be copied; the rest was, and the backup is not finished";
    let count = count(done.failed.len(), "place", "places");
    Err(Failure::Runtime(format!("{failed}\n{count} {unfinished}")))
}

fn text(done: &Backup) -> String {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let left_out = done.left_out.iter().map(|name| format!("left out: {name}\n"));
    let damaged = done.log.damaged.iter();
    let damaged = damaged.map(|file| format!("copied as it is, damaged: {file}\n"));
    let beside = done
        .broker
        .iter()
        .map(|broker| format!("a broker (process {broker}) has it: what was flushed was copied\n"));
    let sum = format!(
        "{}, {}, {} bytes of log ({} linked, {} cloned) in {}\n",
        count(number(done.partitions), "partition", "partitions"),
        count(number(done.log.segments), "segment", "segments"),
        done.log.bytes,
        done.log.linked_bytes,
        done.log.cloned_bytes,
        done.to,
    );
    left_out.chain(damaged).chain(beside).chain([sum]).collect()
}
