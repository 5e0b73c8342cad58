//! Every fixed limit of the broker, in one place, with the relations between them checked at compile time.
//!
//! What an operator may change is an option of the layer that enforces it; its default and its bounds are here.

/// Longest topic name, in bytes. With `_` and a partition number it must fit a directory name (255 bytes).
pub const TOPIC_NAME_MAX: usize = 249;

/// Longest group name, in bytes.
pub const GROUP_NAME_MAX: usize = 249;

/// Most partitions one topic can have: their numbers have at most [`PARTITION_DIGITS_MAX`] digits.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 10_000;

/// Digits of the largest partition number.
pub const PARTITION_DIGITS_MAX: u32 = 5;

/// Most partitions in one broker, unless configured otherwise.
pub const PARTITIONS_DEFAULT_MAX: u32 = 20_000;

/// Most topics in one broker, unless configured otherwise. With their partitions they are bounded by
/// [`PARTITIONS_DEFAULT_MAX`] as well.
pub const TOPICS_DEFAULT_MAX: u32 = 10_000;

/// Most groups that have committed offsets, unless configured otherwise.
pub const GROUPS_DEFAULT_MAX: u32 = 100_000;

/// Most connections, unless configured otherwise. Each has a descriptor, under 2 KiB of the broker's memory while it is
/// idle, and what the system keeps for a socket.
pub const CONNECTIONS_DEFAULT_MAX: u32 = 20_000;

/// Bytes that the connections of one reactor may keep of frames that have not all arrived, outside the memory for large
/// frames: with more connections each has less of it, and takes the rest from there.
pub const PARTIAL_FRAMES_BYTES: usize = 2 * 1024 * 1024;

/// Handshakes of one reactor that have arrived in part. Beyond it the one with the earliest deadline is given up.
pub const PARTIAL_HANDSHAKES_MAX: usize = 256;

/// Connections beyond the limit that are kept until they can be told so; those beyond these are closed at once.
pub const REFUSED_CONNECTIONS_MAX: u32 = 256;

/// Time by default that a peer may take nothing of what it is sent, in seconds.
pub const WRITE_TIMEOUT_SEC_DEFAULT: u32 = 300;

/// Silence by default after which the system asks whether a peer is there, in seconds.
pub const KEEPALIVE_SEC_DEFAULT: u32 = 60;

/// Time by default that a peer may leave unconfirmed what was sent to it, in seconds.
pub const USER_TIMEOUT_SEC_DEFAULT: u32 = 300;

/// Time without a sign of life after which the offsets of a group are forgotten by default, in hours.
pub const OFFSETS_RETENTION_HOURS_DEFAULT: u32 = 168;

/// Largest payload of a frame that a configuration may allow, in MiB.
pub const PAYLOAD_MB_MAX: u32 = 1024;

/// Largest payload of a frame by default, in MiB (the original's default).
pub const PAYLOAD_MB_DEFAULT: u32 = 50;

/// Memory by default for large frames that are being received, all connections together, in MiB.
pub const RECEIVE_MEMORY_MB_DEFAULT: u32 = 256;

/// Largest key of a frame, in bytes; a configuration may allow less.
pub const KEY_BYTES_MAX: u32 = 1 << 20;

/// Most records one frame may claim to hold; a configuration may allow fewer. It bounds how fast a client can use up offsets.
pub const RECORD_COUNT_MAX: u32 = 1 << 20;

/// Most bytes of fields in a 1.1 handshake, behind its role and length.
pub const HANDSHAKE_FIELDS_BYTES_MAX: u16 = 8192;

/// Longest token of a 1.1 handshake, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;

/// Most bytes of a message that the broker writes beside a 1.1 status; a longer one is cut. The format's own bound
/// is the `u16` length, 65,535 bytes, and readers must take that.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Shortest time between two heartbeats of one consumer, in milliseconds, whatever it asks for: idle consumers must not
/// keep the broker busy.
pub const HEARTBEAT_MS_MIN: u32 = 100;

/// No partition hands out offsets at or above this one, so that sums of offsets and counts never overflow.
pub const OFFSET_MAX: u64 = 1 << 62;

/// Largest segment that a configuration may ask for, in MiB.
pub const SEGMENT_MB_MAX: u32 = 64 * 1024;

/// Largest segment by default, in MiB (as in the original's shipped configuration).
pub const SEGMENT_MB_DEFAULT: u32 = 1024;

/// Largest segment of the broker's own topics, in MiB: they are read at each start, and a segment is compacted only once it
/// is sealed.
pub const OFFSETS_SEGMENT_MB_MAX: u64 = 64;

/// Free disk space below which no record is appended by default, in MiB.
pub const MIN_FREE_MB_DEFAULT: u32 = 64;

/// Log bytes between two entries of the offset index.
pub const INDEX_INTERVAL_BYTES: u64 = 4096;

/// Stripes of the table of consumer offsets.
pub const OFFSET_SHARDS: usize = 256;

/// Most entries the table of consumer offsets may hold, all groups together.
pub const COMMITTED_OFFSETS_MAX: usize = 1_000_000;

/// Most bytes of a request's body on the admin listener: a payload in it is never larger than a configuration may allow.
pub const ADMIN_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Most connections that one list gives: a reactor is held up by its list no longer than by a large write.
pub const CONNECTIONS_LISTED_MAX: usize = 10_000;

/// Most streams of events that the admin listener has open.
pub const EVENT_STREAMS_MAX: usize = 32;

/// Most messages that one look into a partition gives.
pub const PEEK_MESSAGES_MAX: usize = 1000;

/// Most bytes of keys and payloads that one look into a partition gives.
pub const PEEK_BYTES_MAX: usize = 1024 * 1024;

/// Most series of topics and partitions that `/metrics` gives by default, and as many of groups.
pub const METRICS_SERIES_DEFAULT_MAX: u32 = 20_000;

/// Most reactor threads.
pub const REACTORS_MAX: usize = 256;

/// One mebibyte, in bytes.
pub const MIB: u64 = 1024 * 1024;

const _: () =
    assert!(TOPIC_NAME_MAX + 1 + PARTITION_DIGITS_MAX as usize <= 255, "a directory name holds it");
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= 10u32.pow(PARTITION_DIGITS_MAX));
const _: () =
    assert!(TOPIC_NAME_MAX <= 255 && GROUP_NAME_MAX <= 255, "1.0 strings have a u8 length");
const _: () = assert!(
    TOPIC_NAME_MAX + GROUP_NAME_MAX + TOKEN_BYTES_MAX + 512 <= HANDSHAKE_FIELDS_BYTES_MAX as usize,
    "the longest names and token leave room for the other fields"
);
const _: () = assert!(MESSAGE_BYTES_MAX <= u16::MAX as usize, "messages have a u16 length");
const _: () = assert!(PAYLOAD_MB_MAX as u64 * MIB <= u32::MAX as u64, "payload_size is a u32");
const _: () = assert!(OFFSET_MAX.checked_add(RECORD_COUNT_MAX as u64).is_some());
const _: () = assert!(OFFSET_SHARDS.is_power_of_two());
