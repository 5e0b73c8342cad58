//! Reading the offsets topic at start.

use std::convert::Infallible;
use std::sync::Arc;

use super::error::RestoreError;
use super::offsets::{self, Committed, OffsetTable};
use super::partition::Partition;
use crate::metrics::Metrics;
use crate::model::{Offset, TopicPartition};
use crate::record::{Check, FrameLimits, Frames, check};
use crate::storage::{Cursor, Fetch};

/// Bytes read at once. A frame that is larger is no entry.
const CHUNK: usize = 1 << 20;

/// Fills the table from the log, newest entry last. A time that has not come yet counts as `now_ns`. Entries that say nothing are counted and skipped.
pub(super) fn restore(
    log: &Partition,
    table: &OffsetTable,
    metrics: &Metrics,
    now_ns: u64,
) -> Result<(), RestoreError> {
    let (mut cursor, _) = log.resume(log.start_offset())?;
    let mut buf = vec![0; CHUNK];
    let (mut entries, mut malformed) = (0u64, 0u64);
    // Bytes left of a frame too large to be an entry.
    let mut skip = 0u64;
    loop {
        let slice = match log.fetch(&mut cursor, CHUNK as u64) {
            Fetch::Slice(slice) => slice,
            Fetch::Damaged if skip_damage(log, &mut cursor) => {
                skip = 0;
                continue;
            }
            Fetch::Tail | Fetch::Damaged | Fetch::Deleted => break,
        };
        if skip > 0 {
            let step = skip.min(slice.len());
            cursor.advance(step);
            skip -= step;
            continue;
        }
        let read = slice.read(&mut buf)?;
        let mut frames = Frames::new(&buf[..read]);
        for (header, key, payload) in frames.by_ref() {
            entries += 1;
            let at_ns = header.timestamp.min(now_ns);
            malformed += u64::from(!apply(table, key, payload, at_ns));
        }
        let used = read - frames.rest().len();
        cursor.advance(used as u64);
        if used == 0 {
            match check(&buf[..read], &FrameLimits::STORED) {
                Ok(Check::Incomplete { needed }) if needed > CHUNK as u64 => {
                    malformed += 1;
                    skip = needed;
                }
                _ if skip_damage(log, &mut cursor) => {}
                _ => break,
            }
        }
    }
    metrics.offsets_malformed.add(malformed);
    if malformed > 0 {
        tracing::warn!(malformed, "entries of the offsets topic skipped");
    }
    tracing::info!(entries, groups_and_partitions = table.len(), "committed offsets restored");
    Ok(())
}

/// Goes on behind damage: what was committed later counts all the more. False if nothing is behind it.
fn skip_damage(log: &Partition, cursor: &mut Cursor) -> bool {
    tracing::error!(
        "the offsets topic is damaged; commits in that part are unknown, their groups may read again"
    );
    log.skip_damage(cursor)
}

/// Commits the log end for those who stand beyond it. After a power cut a commit can be there and the records before it
/// not; once their offsets are given again, the group would skip the new records.
pub(super) fn clamp(
    log: &Arc<Partition>,
    table: &OffsetTable,
    metrics: &Metrics,
    now_ns: u64,
    end: impl Fn(&TopicPartition) -> Option<Offset>,
) {
    let beyond = table.beyond(end);
    for (key, end) in &beyond {
        metrics.commits_clamped.inc();
        tracing::warn!(
            group = %key.group, partition = %key.partition, end,
            "committed offset lies beyond the log end, clamped to it"
        );
        let committed = Committed::new(*end, now_ns);
        if let Err(error) = table.store(log, key.clone(), committed, || false) {
            tracing::warn!(group = %key.group, %error, "clamped until the next start only");
            let _ = table.set(key.clone(), committed, || Ok::<_, Infallible>(()));
        }
    }
    if !beyond.is_empty() {
        // Before records are: else the next power cut could take this and leave those. A failure is reported there.
        let _ = log.flush_now();
    }
}

fn apply(table: &OffsetTable, key: &[u8], payload: &[u8], at_ns: u64) -> bool {
    match offsets::read_entry(key, payload) {
        Ok((key, Some(offset))) => {
            let committed = Committed::new(offset, at_ns);
            let applied = table.set(key, committed, || Ok::<_, Infallible>(()));
            matches!(applied, Ok(Ok(())))
        }
        Ok((key, None)) => {
            table.unset(&key);
            true
        }
        Err(error) => {
            tracing::debug!(%error, key = %key.escape_ascii(), "entry of the offsets topic skipped");
            false
        }
    }
}
