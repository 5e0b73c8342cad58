//! What the types of the options do not say about a key: its range, and how the Go original reads it.

use crate::model::{likeness, limits, nearest_by};

/// Longest time that a configuration may set, in seconds.
const TIMEOUT_SEC_MAX: u64 = 3600;

/// Longest time that a peer may be allowed to be silent or to take nothing, in seconds: a week.
const IDLE_SEC_MAX: u64 = 604_800;

/// Longest time before a question of keepalive, in seconds: the system takes no more.
const KEEPALIVE_SEC_MAX: u64 = 32_767;

/// Longest flush interval that a configuration may set, in milliseconds.
const FLUSH_INTERVAL_MS_MAX: u64 = 3_600_000;

/// Longest time between two scrubs, in hours: ten years.
const SCRUB_INTERVAL_HOURS_MAX: u64 = 87_600;

/// Most memory for the keys of compaction, in MiB.
const COMPACTION_MEMORY_MB_MAX: u64 = 64 * 1024;

/// Fastest scrub and compaction, in MiB a second: its bytes fit 32 bits.
const SCRUB_MB_PER_S_MAX: u64 = 4095;

/// Where only the type of the key is a bound.
pub(super) const U32_MAX: u64 = u32::MAX as u64;

/// The whole-number keys with their smallest and largest values, both allowed.
const RANGES: &[(&str, u64, u64)] = &[
    ("server.port", 0, u16::MAX as u64),
    ("server.handshake_timeout_sec", 1, TIMEOUT_SEC_MAX),
    ("server.reactors", 0, limits::REACTORS_MAX as u64),
    ("server.shutdown_timeout_sec", 1, TIMEOUT_SEC_MAX),
    ("server.drain_delay_ms", 0, TIMEOUT_SEC_MAX * 1000),
    ("storage.max_segment_mb", 1, limits::SEGMENT_MB_MAX as u64),
    ("storage.retention_hours", 1, U32_MAX),
    ("storage.retention_mb", 0, U32_MAX),
    ("storage.max_total_mb", 0, U32_MAX),
    ("storage.cleanup_interval_min", 1, U32_MAX),
    ("storage.flush_interval_ms", 1, FLUSH_INTERVAL_MS_MAX),
    ("storage.min_free_mb", 0, U32_MAX),
    ("storage.scrub_interval_hours", 0, SCRUB_INTERVAL_HOURS_MAX),
    ("storage.scrub_mb_per_s", 1, SCRUB_MB_PER_S_MAX),
    ("compaction.interval_sec", 0, U32_MAX),
    ("compaction.min_dirty_percent", 1, 100),
    ("compaction.max_lag_hours", 1, U32_MAX),
    ("compaction.tombstone_retention_hours", 0, U32_MAX),
    ("compaction.memory_mb", 1, COMPACTION_MEMORY_MB_MAX),
    ("compaction.mb_per_s", 1, SCRUB_MB_PER_S_MAX),
    ("storage.buffer_pool_size_kb", 0, U32_MAX),
    ("storage.max_buffer_return_kb", 0, U32_MAX),
    ("security.max_payload_mb", 1, limits::PAYLOAD_MB_MAX as u64),
    ("security.receive_memory_mb", 1, U32_MAX),
    ("security.max_key_kb", 1, limits::KEY_BYTES_MAX as u64 / 1024),
    ("security.max_record_count", 1, limits::RECORD_COUNT_MAX as u64),
    ("security.max_connections", 0, U32_MAX),
    ("security.max_connections_per_address", 0, U32_MAX),
    ("security.idle_timeout_sec", 0, IDLE_SEC_MAX),
    ("security.write_timeout_sec", 0, IDLE_SEC_MAX),
    ("security.keepalive_sec", 0, KEEPALIVE_SEC_MAX),
    ("security.user_timeout_sec", 0, IDLE_SEC_MAX),
    ("topics.default_partitions", 1, limits::PARTITIONS_PER_TOPIC_MAX as u64),
    ("topics.max_partitions", 1, U32_MAX),
    ("topics.max_topics", 1, U32_MAX),
    ("offsets.retention_hours", 0, U32_MAX),
    ("offsets.max_groups", 1, U32_MAX),
    ("admin.metrics_max_series", 0, U32_MAX),
];

/// Keys of the Go original for which 0 or less means the default there, and so here.
const ZERO_IS_DEFAULT: &[&str] = &[
    "server.handshake_timeout_sec",
    "storage.max_segment_mb",
    "storage.retention_hours",
    "storage.cleanup_interval_min",
    "storage.buffer_pool_size_kb",
    "storage.max_buffer_return_kb",
    "storage.flush_interval_ms",
    "security.max_payload_mb",
];

/// Keys of the Go original that have no meaning here.
const IGNORED: &[&str] = &["storage.buffer_pool_size_kb", "storage.max_buffer_return_kb"];

/// The smallest and largest value of a whole-number key, both allowed; none for keys of other types.
pub(super) fn range(key: &str) -> Option<(u64, u64)> {
    RANGES.iter().find(|(name, ..)| *name == key).map(|&(_, min, max)| (min, max))
}

/// What the whole number of a key counts, by the end of its name; none for one that counts things.
pub(super) fn unit(key: &str) -> Option<&'static str> {
    const UNITS: &[(&str, &str)] = &[
        ("mb_per_s", "MiB a second"),
        ("kb_per_s", "KiB a second"),
        ("_hours", "hours"),
        ("_min", "minutes"),
        ("_sec", "seconds"),
        ("_ms", "milliseconds"),
        ("_mb", "MiB"),
        ("_kb", "KiB"),
        ("_percent", "percent"),
    ];
    UNITS.iter().find(|(end, _)| key.ends_with(end)).map(|(_, unit)| *unit)
}

/// Whether 0 or less means the default.
pub(super) fn zero_is_default(key: &str) -> bool {
    ZERO_IS_DEFAULT.contains(&key)
}

/// What to tell an operator who has set the key, if there is anything.
pub(super) fn warning(key: &str) -> Option<&'static str> {
    if IGNORED.contains(&key) {
        Some("is a setting of the original that has no meaning here; it is ignored")
    } else {
        None
    }
}

/// The valid key that most resembles an unknown one, if any is near enough to be meant.
pub(super) fn nearest<'a>(
    key: &str,
    valid: impl IntoIterator<Item = &'a String>,
) -> Option<&'a str> {
    /// The right name in the wrong section counts a little less than a slip in both.
    const WRONG_SECTION: f64 = 0.95;

    let split = |key: &str| {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        (section.to_owned(), name.to_owned())
    };
    let (section, name) = split(key);
    nearest_by(valid.into_iter().map(String::as_str), |candidate| {
        let (its_section, its_name) = split(candidate);
        let sections = likeness(&section, &its_section);
        let names = likeness(&name, &its_name);
        f64::midpoint(sections, names).max(names * WRONG_SECTION)
    })
}
