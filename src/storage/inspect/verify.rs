//! Looking at every byte of a partition.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::layout::{Files, Layout};
use super::listed::{Comparing, Listed};
use super::pieces::{Piece, Pieces, Progress, listed};
use super::read_only::ReadOnlyDisk;
use super::report::{Finding, InspectError, Kind, PartitionReport, SegmentReport, Severity, State};
use super::view::{Behind, View};
use crate::model::Offset;
use crate::storage::checksums::{Checksums, Marked};
use crate::storage::compare::is_medium_error;
use crate::storage::damage::BadRange;
use crate::storage::disk::{Disk, Open};
use crate::storage::index::{IndexEntry, IndexPolicy};
use crate::storage::segment;

/// A broker beside this may remove a segment, or merge some, between two looks: then the look begins again.
const ATTEMPTS: u32 = 20;

/// A segment, looked at whole.
#[derive(Debug)]
pub(in crate::storage) struct Examined {
    pub(in crate::storage) report: SegmentReport,
    pub(in crate::storage) view: View,
    pub(in crate::storage) bad: Vec<BadRange>,
    /// Where no frame begins, and one should.
    pub(in crate::storage) no_frames: Vec<u64>,
    /// What a whole index of the good frames holds.
    pub(in crate::storage) entries: Vec<IndexEntry>,
    /// Some block has no checksum of its own that could be believed.
    pub(in crate::storage) sums_wrong: bool,
    pub(in crate::storage) index_wrong: bool,
}

/// Looks at a partition's directory. `live` says that a broker has it: then only what is flushed is judged. `progress` is
/// told how many bytes were looked at, now and then.
pub fn verify_partition(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    live: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<PartitionReport, InspectError> {
    let disk = ReadOnlyDisk(Arc::clone(disk));
    let (segments, findings) = examine_all(&disk, dir, live, progress)?;
    let partition = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    let segments = segments.into_iter().map(|segment| segment.report).collect();
    Ok(PartitionReport { partition, segments, findings })
}

/// Whether a directory holds files of a partition.
pub fn is_partition(disk: &Arc<dyn Disk>, dir: &Path) -> Result<bool, InspectError> {
    let disk = ReadOnlyDisk(Arc::clone(disk));
    let Layout { segments, beside } = Layout::read(&disk, dir).map_err(InspectError::at(dir))?;
    let ours = |finding: &Finding| finding.kind != Kind::Stranger;
    Ok(!segments.is_empty() || beside.iter().any(ours))
}

/// Bytes of log in a partition's directory: what there is to look at.
pub fn partition_bytes(disk: &Arc<dyn Disk>, dir: &Path) -> Result<u64, InspectError> {
    let disk = ReadOnlyDisk(Arc::clone(disk));
    let layout = Layout::read(&disk, dir).map_err(InspectError::at(dir))?;
    Ok(layout.segments.iter().map(|files| files.len).sum())
}

/// Looks at all segments; also says what is wrong between and beside them.
pub(in crate::storage) fn examine_all(
    disk: &ReadOnlyDisk,
    dir: &Path,
    live: bool,
    progress: Progress<'_>,
) -> Result<(Vec<Examined>, Vec<Finding>), InspectError> {
    let mut attempt = 1;
    loop {
        match look(disk, dir, live, progress) {
            // Not if all of it is gone.
            Err(error)
                if error.source.kind() == io::ErrorKind::NotFound
                    && attempt < ATTEMPTS
                    && disk.list(dir).is_ok() =>
            {
                attempt += 1;
            }
            Ok((segments, _)) if live && attempt < ATTEMPTS && overlap(&segments) => attempt += 1,
            result => return result,
        }
    }
}

fn look(
    disk: &ReadOnlyDisk,
    dir: &Path,
    live: bool,
    progress: Progress<'_>,
) -> Result<(Vec<Examined>, Vec<Finding>), InspectError> {
    let Layout { segments: all, beside: mut findings } =
        Layout::read(disk, dir).map_err(InspectError::at(dir))?;
    if !live {
        lost_segments(disk, dir, &all, &mut findings);
    }
    let mut segments: Vec<Examined> = Vec::new();
    // The one before could be read: what lies between it and the next one can be told.
    let mut known = false;
    for (number, files) in all.iter().enumerate() {
        let at = dir.join(&files.wal);
        if live && files.state == State::Provisional {
            findings.push(provisional(files, "not flushed: not judged"));
            continue;
        }
        let next = all.get(number + 1).filter(|next| next.state != State::Provisional);
        let next = next.filter(|_| files.state == State::Sealed).map(|next| next.base);
        let mut examine = || examine(disk, dir, files, next, live, progress);
        let mut examined = examine();
        if live && examined.as_ref().is_ok_and(Examined::is_damaged) {
            // It may have been replaced meanwhile.
            examined = examine();
        }
        let follows_known = std::mem::replace(&mut known, examined.is_ok());
        let mut found = match examined {
            Err(error) if is_medium_error(&error) => {
                findings.push(unreadable(disk, dir, files, &error));
                continue;
            }
            examined => examined.map_err(InspectError::at(&at))?,
        };
        if files.state == State::Provisional {
            let before = segments.last().map(|before| before.report.next_offset);
            let follows = before == Some(files.base) && found.view.sums.is_some();
            let message = if follows {
                "follows on the segment before it; a start gives it its name"
            } else {
                "does not follow on the segment before it; a start sets it aside"
            };
            found.report.findings.push(provisional(files, message));
        } else if let Some(before) = segments.last_mut().filter(|_| follows_known) {
            let gap = before.until(Some(files.base));
            before.report.findings.extend(gap);
        }
        segments.push(found);
    }
    let last = segments.iter_mut().rfind(|segment| segment.report.state == State::Active);
    if let Some(last) = last {
        let gap = last.until(None);
        last.report.findings.extend(gap);
    }
    Ok((segments, findings))
}

/// Whether two segments hold the same offsets.
fn overlap(segments: &[Examined]) -> bool {
    let mut findings = segments.iter().flat_map(|segment| &segment.report.findings);
    findings.any(|finding| finding.kind == Kind::Overlap)
}

fn provisional(files: &Files, message: &str) -> Finding {
    Finding::note(Kind::Provisional, &files.wal, message)
}

/// The disk does not give what is needed to judge a segment. What cannot be read of its log or of its index is no such error:
/// then it are the checksums, or a whole file.
pub(super) fn unreadable(
    disk: &ReadOnlyDisk,
    dir: &Path,
    files: &Files,
    error: &io::Error,
) -> Finding {
    let log = disk.open(&dir.join(&files.wal), Open::Read).and_then(|file| file.len());
    let file = if log.is_ok() { &files.sum } else { &files.wal };
    let message = format!("cannot be read: {error}; the segment was not looked at");
    Finding::damage(Kind::Unreadable, file, &message)
}

/// Checksums behind the last segment say that there was one, and what was flushed of it. What a crash leaves there says that
/// nothing was.
fn lost_segments(disk: &ReadOnlyDisk, dir: &Path, all: &[Files], findings: &mut [Finding]) {
    let last = all.iter().map(|files| files.base).max();
    let aside = findings.iter().filter(|finding| finding.kind == Kind::SetAside);
    let aside: Vec<_> = aside.map(|finding| finding.file.clone()).collect();
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::Orphan) {
        let base = segment::parse_name(&finding.file, segment::SUM);
        let Some(base) = base.filter(|&base| Some(base) > last) else { continue };
        if aside.iter().any(|name| name.starts_with(&format!("{base:020}."))) {
            continue;
        }
        let sums = Checksums::open(disk, &dir.join(&finding.file), base, 0, 0);
        let marked = sums.ok().flatten().map(|sums| sums.marked());
        if let Some(Marked::Upto(mark)) = marked
            && mark.position > 0
        {
            *finding =
                Finding::damage(Kind::Gap, &finding.file, "the log of these checksums is gone")
                    .offsets(&(base..mark.next_offset));
        }
    }
}

/// Looks at one segment.
fn examine(
    disk: &ReadOnlyDisk,
    dir: &Path,
    files: &Files,
    next_base: Option<Offset>,
    live: bool,
    progress: Progress<'_>,
) -> io::Result<Examined> {
    let view = View::open(disk, dir, files, next_base, live)?;
    let index = listed(disk, dir, &view)?;
    let none = Listed::default();
    let mut comparing = Comparing::new(index.as_ref().unwrap_or(&none));
    let mut pieces = Pieces::new(&view, index.as_ref().unwrap_or(&none), None, progress);
    let (mut frames, mut records) = (0, 0);
    let (mut bad, mut entries) = (Vec::new(), Vec::new());
    let mut policy = IndexPolicy::default();
    let mut findings = view.findings.clone();
    while let Some(piece) = pieces.next()? {
        match piece {
            Piece::Frame(position, header) => {
                frames += 1;
                records += u64::from(header.records());
                comparing.frame(position, header.offset);
                if policy.wants(position) {
                    entries.push(IndexEntry { offset: header.offset, position });
                }
            }
            Piece::Bad(range, why) => {
                comparing.bad(&range.positions);
                findings.push(Finding::bad(&files.wal, &range, &why));
                bad.push(range);
            }
        }
    }
    let damaged = bad.iter().map(|range| range.positions.end - range.positions.start).sum();
    let mut report = SegmentReport {
        file: files.wal.clone(),
        base: files.base,
        state: files.state,
        frames,
        records,
        next_offset: pieces.next_offset(),
        bytes: view.len,
        verified_bytes: pieces.verified,
        walked_bytes: pieces.walked(),
        damaged_bytes: damaged,
        unflushed_bytes: 0,
        findings,
    };
    for range in &pieces.unknown {
        let message = "checksums are damaged; these bytes were only walked";
        let finding = Finding::derived(Kind::ChecksumsDamaged, &files.sum, message);
        report.findings.push(finding.bytes(range));
    }
    let sums_wrong = !view.findings.is_empty() || !pieces.unknown.is_empty();
    let no_frames = pieces.no_frames;
    let wrong = comparing.end(view.end, live);
    let wrong = match &index {
        None => Some((Kind::IndexMissing, "there is no offset index".to_owned())),
        Some(_) => wrong.map(|wrong| (Kind::IndexWrong, wrong)),
    };
    if let Some((kind, message)) = &wrong {
        report.findings.push(Finding::derived(*kind, &files.idx, message));
    }
    let index_wrong = wrong.is_some();
    tell_length(&view, &mut report);
    Ok(Examined { report, view, bad, no_frames, entries, sums_wrong, index_wrong })
}

/// What is behind the end, or missing before it.
fn tell_length(view: &View, report: &mut SegmentReport) {
    let wal = &view.files.wal;
    let next = report.next_offset;
    match &view.behind {
        Behind::Nothing => {}
        Behind::Torn(range) => {
            let message =
                "the log ends in bytes that are not what was accepted, or not the whole of it";
            report.findings.push(Finding::damage(Kind::TornTail, wal, message).bytes(range));
        }
        Behind::Unreadable(range) => {
            let message = "behind what was flushed the disk does not give all bytes; a start neither serves nor cuts these";
            report.findings.push(Finding::damage(Kind::Unreadable, wal, message).bytes(range));
            report.damaged_bytes += range.end - range.start;
        }
        Behind::Surplus(range) => {
            let message = "more bytes than were flushed before the segment was sealed";
            report.findings.push(Finding::damage(Kind::TooLong, wal, message).bytes(range));
            report.damaged_bytes += range.end - range.start;
        }
        Behind::Unflushed(range) => report.unflushed_bytes = range.end - range.start,
    }
    if let Some(mark) = view.flushed.filter(|mark| mark.position > view.len) {
        let finding =
            Finding::damage(Kind::TooShort, wal, "the file was longer when it was flushed");
        let finding = finding.bytes(&(view.len..mark.position));
        let lost = next.min(mark.next_offset)..mark.next_offset;
        let finding = if lost.is_empty() { finding } else { finding.offsets(&lost) };
        report.findings.push(finding);
    }
}

impl Examined {
    pub(in crate::storage) fn is_damaged(&self) -> bool {
        self.report.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    /// The file is shorter than what was flushed of it.
    pub(in crate::storage) fn is_too_short(&self) -> bool {
        self.view.flushed.is_some_and(|mark| mark.position > self.view.len)
    }

    /// No repair touches it: a provisional one is the next start's to judge, and of what cannot be read nobody can say what it
    /// is.
    pub(in crate::storage) fn is_left_alone(&self) -> bool {
        self.report.state == State::Provisional || matches!(self.view.behind, Behind::Unreadable(_))
    }

    /// Bytes behind what was flushed before the segment was sealed.
    pub(in crate::storage) fn surplus(&self) -> Option<BadRange> {
        let Behind::Surplus(positions) = self.view.behind.clone() else { return None };
        let next = self.report.next_offset;
        Some(BadRange { positions, offsets: next..next })
    }

    /// What lies between the end of this segment and the beginning of the next one, or where the next record will be.
    fn until(&self, next_base: Option<Offset>) -> Option<Finding> {
        let end = self.report.next_offset;
        let told = self.view.flushed.map(|mark| mark.next_offset);
        let next = next_base.or(told).unwrap_or(end);
        let wal = &self.view.files.wal;
        if end > next && next_base.is_some() {
            let message = "the next segment begins with offsets that this one holds";
            return Some(Finding::damage(Kind::Overlap, wal, message).offsets(&(next..end)));
        }
        // Compaction takes out what is superseded, up to there.
        if end >= next
            || self.view.files.covers >= next
            || (self.is_too_short() && told.is_some_and(|told| told >= next))
        {
            return None;
        }
        // The segment says itself that its records went on to there.
        let finding = if told.is_some_and(|told| told >= next) {
            Finding::note(Kind::Gap, wal, "the last records of the segment were taken out")
        } else {
            Finding::damage(
                Kind::Gap,
                wal,
                "records are missing between this segment and the next one",
            )
        };
        Some(finding.offsets(&(end..next)))
    }
}
