//! What can be typed behind `hermitmq log`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::show::Form;
use crate::model::Offset;

const VERIFY_HELP: &str = "\
Nothing is written, so DIR may be mounted read-only. Every byte is compared with its checksum, every frame walked, and
the whole offset index compared with the frames. Beside a running broker only what is flushed is judged.

Damage is: bytes that are not those that were written, bytes behind the end of the log (a torn tail, which a start
would cut off), files of another length than was flushed, offsets that are missing between segments, files that cannot
be read, a broken catalog, partitions of it that are not there. Offset indexes
and checksums that are missing or wrong are made anew by a start or by `hermitmq log repair`: they are reported, and
count as damage with --strict. The rest are notes.

Examples:
  hermitmq log verify /data
  hermitmq log verify /data/events_0 --output json

Exit codes: 0 nothing is damaged, 1 could not look, 2 wrong usage, 3 damage found.";

const DUMP_HELP: &str = "\
Frames come in the order of their offsets, one line each, partition by partition. What is damaged is a line of its
own, and the dump goes on behind it. Nothing is written. Beside a running broker only what is flushed is shown.

As text, bytes that are no UTF-8 and control characters are escaped (\\xff, \\n). As JSON, a key or payload that is no
UTF-8 is base64; key_encoding and payload_encoding say which it is.

Examples:
  hermitmq log dump /data/events_0 --from 1000 --to 1010
  hermitmq log dump /data --output json | jq -r 'select(.type == \"frame\") | .payload'

Exit codes: 0 success, 1 could not look, 2 wrong usage, 3 something is damaged.";

const REPAIR_HELP: &str = "\
Without --apply nothing is written: each line says what would be done. The broker must be stopped.

Offset indexes and checksums that are missing or wrong are made anew. Bytes behind the end of the log are cut off and
kept as BASE.torn-N. Damaged frames stay where they are, and readers stop at them, unless --quarantine takes them out
of the log: their bytes are kept as BASE.bad-N, their offsets are not given again.

Examples:
  hermitmq log repair /data
  hermitmq log repair /data/events_0 --quarantine --apply

Exit codes: 0 nothing is left to be done, 1 failure, 2 wrong usage, 3 something is left to be done or damaged.";

const BACKUP_HELP: &str = "\
DST must be new or empty. The broker may go on: everything that was flushed when the backup began is in it. Sealed
segments become hard links if DST is on the same file system (then there is one copy of their bytes), else clones
or copies. To restore, start a broker on DST, or on a copy of it.

Examples:
  hermitmq log backup /data /data-backup/today
  hermitmq log backup /data /mnt/other-disk/hermitmq && hermitmq log verify /mnt/other-disk/hermitmq

Exit codes: 0 success, 1 failure (DST is not finished: remove it), 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LogCommand {
    /// Look at every byte, and say what is damaged
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Print frames as text or JSON lines
    #[command(after_help = DUMP_HELP)]
    Dump(DumpArgs),
    /// Put a directory right, or show what that would be
    #[command(after_help = REPAIR_HELP)]
    Repair(RepairArgs),
    /// Copy a data directory while its broker runs
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArgs {
    /// A data directory, or the directory of one partition
    pub(super) dir: PathBuf,
    /// Count missing and wrong indexes and checksums as damage
    #[arg(long)]
    pub(super) strict: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub(super) output: Form,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DumpArgs {
    /// A data directory, or the directory of one partition
    pub(super) dir: PathBuf,
    /// First offset; a batch that holds it comes whole
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(super) from: Offset,
    /// Stop before this offset
    #[arg(long, value_name = "OFFSET", default_value_t = Offset::MAX, hide_default_value = true)]
    pub(super) to: Offset,
    /// How to print frames
    #[arg(long, value_enum, default_value_t = DumpFormat::Text)]
    pub(super) output: DumpFormat,
    /// How to print keys and payloads
    #[arg(long, value_enum, default_value_t = PayloadFormat::Utf8)]
    pub(super) payload: PayloadFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RepairArgs {
    /// A data directory, or the directory of one partition
    pub(super) dir: PathBuf,
    /// Take damaged frames out of the log
    #[arg(long)]
    pub(super) quarantine: bool,
    /// Do it
    #[arg(long)]
    pub(super) apply: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = DumpFormat::Text)]
    pub(super) output: DumpFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BackupArgs {
    /// The data directory
    pub(super) src: PathBuf,
    /// Where to
    pub(super) dst: PathBuf,
    /// Copy every byte; no hard links
    #[arg(long)]
    pub(super) copy: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = DumpFormat::Text)]
    pub(super) output: DumpFormat,
}

/// How lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DumpFormat {
    /// For people
    Text,
    /// JSON
    Json,
}

/// How bytes of records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PayloadFormat {
    /// As text where they are UTF-8
    Utf8,
    /// Two digits a byte
    Hex,
    /// RFC 4648, with padding
    Base64,
    /// Not the payload at all
    None,
}
