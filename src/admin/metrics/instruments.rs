//! The instruments of the whole broker.

use super::text::{Kind, Text};
use crate::metrics::{CloseReason, ConnectionRole, Metrics, RefusalKind, TlsFailure};

pub(super) fn write(text: &mut Text, metrics: &Metrics) {
    connections(text, metrics);
    logs(text, metrics);
    tls(text, metrics);
    records(text, metrics);
    flushes(text, metrics);
    commits(text, metrics);
    space(text, metrics);
    recovery(text, metrics);
    damage(text, metrics);
}

fn connections(text: &mut Text, metrics: &Metrics) {
    text.gauge(
        "hermitmq_connections",
        "Connections open now, in their handshake or behind it.",
        metrics.connections.get(),
    );
    text.family(
        "hermitmq_connections_by_role",
        Kind::Gauge,
        "Connections open now whose handshake is done, by what they are for.",
    );
    for &role in ConnectionRole::ALL {
        text.sample(&[("role", role.label())], metrics.roles.of(role).get());
    }
    text.counter(
        "hermitmq_connections_accepted_total",
        "Connections accepted.",
        metrics.accepted.get(),
    );
    text.counter(
        "hermitmq_accept_errors_total",
        "Times that accepting failed for want of file descriptors or memory.",
        metrics.accept_errors.get(),
    );
    text.family(
        "hermitmq_connections_closed_total",
        Kind::Counter,
        "Connections that the broker ended, or that broke off, by reason.",
    );
    for &reason in CloseReason::ALL {
        text.sample(&[("reason", reason.label())], metrics.closed.get(reason));
    }
    text.family(
        "hermitmq_access_refused_total",
        Kind::Counter,
        "Handshakes and requests of the admin listener refused for who sent them, by reason.",
    );
    for &kind in RefusalKind::ALL {
        text.sample(&[("reason", kind.label())], metrics.refused.get(kind));
    }
    text.gauge(
        "hermitmq_receive_memory_bytes",
        "Bytes of the memory budget for frames that are being received that are taken.",
        metrics.receive_memory.get(),
    );
    text.counter(
        "hermitmq_receive_memory_waits_total",
        "Times that a connection had to wait for the memory budget.",
        metrics.receive_memory_waits.get(),
    );
    text.counter(
        "hermitmq_quota_waits_total",
        "Times that a connection was left alone because its principal was over its quota.",
        metrics.quota_waits.get(),
    );
}

fn logs(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_log_lines_dropped_total",
        "Lines for standard error that were dropped, because it was not read or failed.",
        metrics.log_lines_dropped.get(),
    );
}

fn tls(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_tls_connections_total",
        "Connections with TLS on which a client has said what it is for.",
        metrics.tls_connections.get(),
    );
    text.family(
        "hermitmq_tls_handshake_failures_total",
        Kind::Counter,
        "TLS handshakes of clients that failed, by reason.",
    );
    for &failure in TlsFailure::ALL {
        text.sample(&[("reason", failure.label())], metrics.tls_handshake_failures.get(failure));
    }
    text.gauge(
        "hermitmq_tls_certificate_expiry_timestamp_seconds",
        "When the broker's certificate ends to hold, since the Unix epoch; 0 without TLS.",
        metrics.tls_certificate_expiry_s.get(),
    );
    text.gauge(
        "hermitmq_tls_certificate_renewal_timestamp_seconds",
        "From when on the broker's certificate should be renewed, seven days before its end or with a quarter of its time left, whichever is later; since the Unix epoch; 0 without TLS.",
        metrics.tls_certificate_renewal_s.get(),
    );
}

fn records(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_records_in_total",
        "Records accepted into the log.",
        metrics.records_in.get(),
    );
    text.counter(
        "hermitmq_frames_in_total",
        "Frames accepted into the log; a frame holds one record or a batch.",
        metrics.frames_in.get(),
    );
    text.counter(
        "hermitmq_bytes_in_total",
        "Bytes of frames accepted into the log.",
        metrics.bytes_in.get(),
    );
    text.counter(
        "hermitmq_bytes_out_total",
        "Bytes of the log sent to consumers.",
        metrics.bytes_out.get(),
    );
    text.counter(
        "hermitmq_frames_not_stored_total",
        "Frames refused with not_stored: low disk space, or the log did not take them.",
        metrics.frames_not_stored.get(),
    );
    text.histogram(
        "hermitmq_reactor_turn_duration_seconds",
        "How long a reactor was busy from one wait for events to the next.",
        &metrics.reactor_turn_duration.distribution(),
    );
    text.histogram(
        "hermitmq_append_duration_seconds",
        "How long it took to append a run of frames, by one write.",
        &metrics.append_duration.distribution(),
    );
    text.counter(
        "hermitmq_cold_reads_total",
        "Times that a consumer had to wait for the disk, off the reactor.",
        metrics.cold_reads.get(),
    );
    text.counter(
        "hermitmq_delegated_sends_total",
        "Times that a thread sent to a consumer in place of its reactor.",
        metrics.delegated_sends.get(),
    );
    text.counter(
        "hermitmq_control_frames_total",
        "Control frames sent to consumers of protocol 1.1, heartbeats among them.",
        metrics.control_frames.get(),
    );
}

fn flushes(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_flushes_total",
        "Flushes of a partition to the disk.",
        metrics.flushes.get(),
    );
    text.counter(
        "hermitmq_flush_errors_total",
        "Flushes that failed; each made a partition read-only.",
        metrics.flush_errors.get(),
    );
    text.histogram(
        "hermitmq_flush_duration_seconds",
        "How long flushes took.",
        &metrics.flush_duration.distribution(),
    );
    text.counter(
        "hermitmq_flush_waits_total",
        "Times that a producer was not read until a flush had caught up.",
        metrics.flush_waits.get(),
    );
}

fn commits(text: &mut Text, metrics: &Metrics) {
    text.counter("hermitmq_commits_total", "Offsets committed.", metrics.commits.get());
    text.counter(
        "hermitmq_commits_clamped_total",
        "Commits beyond the end of the log, clamped to it (protocol 1.0).",
        metrics.commits_clamped.get(),
    );
    text.counter(
        "hermitmq_commits_refused_total",
        "Commits beyond the end of the log, refused (protocol 1.1).",
        metrics.commits_refused.get(),
    );
    text.counter(
        "hermitmq_offsets_expired_total",
        "Committed offsets forgotten because nobody has heard of their group for long.",
        metrics.offsets_expired.get(),
    );
    text.counter(
        "hermitmq_offsets_malformed_total",
        "Entries of the offsets topic that could not be read.",
        metrics.offsets_malformed.get(),
    );
}

fn space(text: &mut Text, metrics: &Metrics) {
    text.gauge(
        "hermitmq_disk_free_bytes",
        "Bytes that the file system of the data directory has left, at the last look.",
        metrics.disk_free_bytes.get(),
    );
    text.gauge(
        "hermitmq_disk_space_low",
        "1 while so little disk space is left that no record is appended, else 0.",
        metrics.disk_space_low.get(),
    );
    text.counter("hermitmq_topics_deleted_total", "Topics deleted.", metrics.topics_deleted.get());
    text.counter(
        "hermitmq_segments_deleted_total",
        "Segments deleted because they were too old or too much.",
        metrics.segments_deleted.get(),
    );
    text.counter(
        "hermitmq_bytes_deleted_total",
        "Bytes of their logs.",
        metrics.bytes_deleted.get(),
    );
    compaction(text, metrics);
    text.counter(
        "hermitmq_readers_moved_total",
        "Times that a reader was moved to the oldest record, or told of it, because what it wanted was deleted.",
        metrics.readers_moved.get(),
    );
}

fn compaction(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_compactions_total",
        "Passes of compaction over a partition that came to their end.",
        metrics.compactions.get(),
    );
    text.counter(
        "hermitmq_compaction_failures_total",
        "Passes of compaction that failed; each is tried again.",
        metrics.compaction_failures.get(),
    );
    text.gauge(
        "hermitmq_compaction_last_success_timestamp_seconds",
        "When a pass of compaction last came to its end, since the Unix epoch; 0 if none has yet.",
        metrics.compaction_last_success_s.get(),
    );
    text.counter(
        "hermitmq_compaction_read_bytes_total",
        "Bytes of the log read by compaction.",
        metrics.compaction_bytes_read.get(),
    );
    text.counter(
        "hermitmq_compaction_removed_bytes_total",
        "Bytes of superseded frames and old tombstones that compaction took out.",
        metrics.compaction_bytes_removed.get(),
    );
    text.counter(
        "hermitmq_compaction_removed_frames_total",
        "Frames that compaction took out.",
        metrics.compaction_frames_removed.get(),
    );
    text.counter(
        "hermitmq_segments_merged_total",
        "Segments that compaction merged into the one before them.",
        metrics.segments_merged.get(),
    );
}

fn recovery(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_torn_bytes_total",
        "Bytes cut from the end of a log by recovery.",
        metrics.torn_bytes.get(),
    );
    text.counter(
        "hermitmq_indexes_rebuilt_total",
        "Offset indexes rebuilt from their log.",
        metrics.indexes_rebuilt.get(),
    );
    text.counter(
        "hermitmq_checksums_rebuilt_total",
        "Files of checksums made anew from their log.",
        metrics.checksums_rebuilt.get(),
    );
    text.counter(
        "hermitmq_offset_gaps_total",
        "Places where offsets are missing between two segments.",
        metrics.offset_gaps.get(),
    );
}

fn damage(text: &mut Text, metrics: &Metrics) {
    text.counter(
        "hermitmq_segments_damaged_total",
        "Segments in which damage was found.",
        metrics.segments_damaged.get(),
    );
    text.counter(
        "hermitmq_damaged_bytes_total",
        "Bytes of records that are not served because they are damaged.",
        metrics.damaged_bytes.get(),
    );
    text.counter(
        "hermitmq_damage_skipped_total",
        "Times that a reader was moved past damaged records.",
        metrics.damage_skipped.get(),
    );
    text.counter(
        "hermitmq_scrubs_total",
        "Comparisons of the whole log with its checksums that came to their end.",
        metrics.scrubs.get(),
    );
    text.counter(
        "hermitmq_scrubbed_bytes_total",
        "Bytes compared with their checksums by them.",
        metrics.scrubbed_bytes.get(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_instrument_is_left_out() {
        let written = include_str!("instruments.rs");
        let shown = format!("{:#?}", Metrics::default());
        let fields = shown.lines().filter_map(|line| line.strip_prefix("    "));
        let names = fields.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names: Vec<_> = names.filter_map(|line| line.split(':').next()).collect();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            assert!(
                written.contains(&format!("metrics.{name}.")),
                "metrics.{name} is not exported"
            );
        }
    }
}
