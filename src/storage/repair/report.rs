//! What a repair does, for people and programs. The names of the fields are those of `--output json`.

use std::path::Path;

use serde::Serialize;

use crate::storage::damage::BadRange;
use crate::storage::inspect::{Finding, Span};

/// Something that a repair does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Finishes replacing a segment.
    FinishReplacement,
    /// Cuts off bytes behind the end of the log, and keeps them.
    CutTail,
    /// Takes damaged bytes out of a segment, and keeps them.
    Quarantine,
    /// Makes the checksums anew.
    RebuildChecksums,
    /// Makes the offset index anew.
    RebuildIndex,
}

/// One thing that is done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What.
    pub action: Action,
    /// To which file of the partition's directory.
    pub file: String,
    /// Bytes of it.
    pub bytes: Option<Span>,
    /// Offsets of records that are not served afterwards.
    pub offsets: Option<Span>,
    /// The file beside it that holds what is taken away.
    pub kept: Option<String>,
}

impl Step {
    pub(super) fn new(action: Action, file: &str) -> Self {
        Self { action, file: file.to_owned(), bytes: None, offsets: None, kept: None }
    }

    pub(super) fn takes(mut self, bytes: &std::ops::Range<u64>, kept: &str) -> Self {
        self.bytes = Some(Span::bytes(bytes));
        self.kept = Some(kept.to_owned());
        self
    }

    pub(super) fn takes_frames(mut self, bad: &BadRange, kept: &str) -> Self {
        self.offsets = Some(Span::offsets(&bad.offsets)).filter(|_| !bad.offsets.is_empty());
        self.takes(&bad.positions, kept)
    }
}

/// What is done to one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Name of its directory.
    pub partition: String,
    /// In this order.
    pub steps: Vec<Step>,
    /// Damage that is left as it is.
    pub left: Vec<Finding>,
}

impl Repair {
    pub(super) fn of(dir: &Path) -> Self {
        let partition = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
        Self { partition, steps: Vec::new(), left: Vec::new() }
    }
}
