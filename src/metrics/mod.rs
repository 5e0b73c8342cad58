//! Plain atomic instruments. Nothing here exports them.
//!
//! Each instrument is one relaxed atomic, or a few: counting never waits and never orders anything.

mod histogram;
mod throttle;
mod tls;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use histogram::{Distribution, Histogram};
pub use throttle::Throttle;
pub use tls::{TlsFailure, TlsFailureCounters};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds 1.
    pub fn inc(&self) {
        self.add(1);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds 1.
    pub fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts 1.
    pub fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets it to `value`.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a connection was closed by the broker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum CloseReason { $($(#[$doc])* $name,)* }

        impl CloseReason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The label used in logs and metrics.
            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The first byte is not a role.
    UnknownRole = "unknown_role";
    /// The handshake asks for something that is not known.
    Unsupported = "unsupported";
    /// The handshake does not follow the format.
    Malformed = "malformed";
    /// An empty name, or one outside the allow-list.
    InvalidName = "invalid_name";
    /// Who the peer is could not be established.
    Unauthenticated = "unauthenticated";
    /// The peer may not do what it asked for.
    Unauthorized = "unauthorized";
    /// Clients may not produce to the broker's own topics.
    ReservedTopic = "reserved_topic";
    /// The topic does not exist and none is created on demand.
    UnknownTopic = "unknown_topic";
    /// The topic has no such partition.
    UnknownPartition = "unknown_partition";
    /// The frame does not begin with a known magic byte.
    BadMagic = "bad_magic";
    /// A key, payload or record count over its limit.
    TooLarge = "too_large";
    /// The handshake took longer than it may.
    HandshakeTimeout = "handshake_timeout";
    /// There are as many connections as there may be.
    ConnectionLimit = "connection_limit";
    /// Its address has as many connections as it may have.
    AddressLimit = "address_limit";
    /// A producer or committer was silent for longer than it may be.
    IdleTimeout = "idle_timeout";
    /// The peer took nothing of what it was sent for longer than it may.
    WriteTimeout = "write_timeout";
    /// The peer held memory that others waited for, without sending its frame.
    Stalled = "stalled";
    /// The peer left in the middle of a handshake or a frame.
    Truncated = "truncated";
    /// The broker could not create or read what was asked for.
    Storage = "storage";
    /// A limit of the broker is reached.
    LimitReached = "limit_reached";
    /// The bytes that come next on disk are damaged.
    Corrupt = "corrupt";
    /// The offset lies outside the log.
    OutOfRange = "offset_out_of_range";
    /// The topic was deleted.
    TopicDeleted = "topic_deleted";
    /// The partition takes no more records.
    ReadOnly = "read_only";
    /// An operator wanted it.
    Operator = "operator";
    /// The broker is going down.
    ShuttingDown = "shutting_down";
    /// The peer did not begin a TLS connection, and must.
    TlsRequired = "tls_required";
    /// The TLS handshake failed, or what came later was not what the peer has encrypted.
    Tls = "tls";
}

/// One counter for each [`CloseReason`].
#[derive(Debug, Default)]
pub struct CloseCounters([Counter; CloseReason::ALL.len()]);

impl CloseCounters {
    /// Counts one connection closed for `reason`.
    pub fn inc(&self, reason: CloseReason) {
        self.0[reason as usize].inc();
    }

    /// Connections closed for `reason`.
    pub fn get(&self, reason: CloseReason) -> u64 {
        self.0[reason as usize].get()
    }
}

/// Why somebody was refused, on either listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Who it is could not be established.
    Unauthenticated,
    /// It may not do what it asked for.
    Unauthorized,
}

impl RefusalKind {
    /// Both.
    pub const ALL: &[Self] = &[Self::Unauthenticated, Self::Unauthorized];

    /// The label used in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// One counter for each [`RefusalKind`].
#[derive(Debug, Default)]
pub struct RefusalCounters([Counter; RefusalKind::ALL.len()]);

impl RefusalCounters {
    /// Counts one refusal.
    pub fn inc(&self, kind: RefusalKind) {
        self.0[kind as usize].inc();
    }

    /// Refusals of a kind.
    pub fn get(&self, kind: RefusalKind) -> u64 {
        self.0[kind as usize].get()
    }
}

/// What a connection is for, once its handshake has said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionRole {
    /// It stores records.
    Producer,
    /// It is sent records.
    Consumer,
    /// It commits offsets.
    Committer,
}

impl ConnectionRole {
    /// All roles.
    pub const ALL: &[Self] = &[Self::Producer, Self::Consumer, Self::Committer];

    /// The label used in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Committer => "committer",
        }
    }
}

/// One gauge for each [`ConnectionRole`].
#[derive(Debug, Default)]
pub struct RoleGauges([Gauge; ConnectionRole::ALL.len()]);

impl RoleGauges {
    /// The gauge of a role.
    pub fn of(&self, role: ConnectionRole) -> &Gauge {
        &self.0[role as usize]
    }
}

/// What has gone in and out of one partition since the start.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes of frames accepted into the log.
    pub bytes_in: Counter,
    /// Frames accepted into the log.
    pub frames_in: Counter,
    /// Records accepted into the log.
    pub records_in: Counter,
    /// Bytes of the log sent to consumers.
    pub bytes_out: Counter,
    /// Offsets that consumers have gone past, each counted once it has all there is: nobody reads headers on the way out.
    pub records_out: Counter,
}

/// Every instrument of one broker.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections open now.
    pub connections: Gauge,
    /// Those of them whose handshake is done, by role.
    pub roles: RoleGauges,
    /// Connections accepted.
    pub accepted: Counter,
    /// Times that accepting failed for want of file descriptors or memory.
    pub accept_errors: Counter,
    /// Lines for standard error that were dropped, because it was not read or failed.
    pub log_lines_dropped: Counter,
    /// Connections with TLS on which a client has said what it is for.
    pub tls_connections: Counter,
    /// TLS handshakes that failed, by reason.
    pub tls_handshake_failures: TlsFailureCounters,
    /// When the broker's certificate ends to hold, in s since the Unix epoch; 0 without TLS.
    pub tls_certificate_expiry_s: Gauge,
    /// From when on it should be renewed, likewise.
    pub tls_certificate_renewal_s: Gauge,
    /// Connections that ended for a reason other than a clean close, by reason.
    pub closed: CloseCounters,
    /// Handshakes and requests of the admin listener that were refused for who sent them.
    pub refused: RefusalCounters,
    /// Bytes of frames accepted into the log.
    pub bytes_in: Counter,
    /// Frames accepted into the log.
    pub frames_in: Counter,
    /// Records accepted into the log.
    pub records_in: Counter,
    /// How long a reactor was busy from one wait for events to the next: what connections may have to wait for.
    pub reactor_turn_duration: Histogram,
    /// How long it took to append a run of frames.
    pub append_duration: Histogram,
    /// Frames refused with `not_stored`.
    pub frames_not_stored: Counter,
    /// Bytes of the log sent to consumers.
    pub bytes_out: Counter,
    /// Times that a consumer had to wait for the disk, off the reactor.
    pub cold_reads: Counter,
    /// Times that a thread sent to a consumer in place of its reactor.
    pub delegated_sends: Counter,
    /// Bytes of the memory budget for frames that are being received that are taken.
    pub receive_memory: Gauge,
    /// Times that a connection had to wait for the memory budget.
    pub receive_memory_waits: Counter,
    /// Times that a connection was left alone because its principal was over its quota.
    pub quota_waits: Counter,
    /// Offsets committed.
    pub commits: Counter,
    /// Commits beyond the end of the log, clamped to it.
    pub commits_clamped: Counter,
    /// Commits beyond the end of the log that were refused, not clamped: those of protocol 1.1.
    pub commits_refused: Counter,
    /// Control frames sent to consumers, heartbeats among them.
    pub control_frames: Counter,
    /// Committed offsets forgotten because nobody has heard of their group for long.
    pub offsets_expired: Counter,
    /// Topics deleted.
    pub topics_deleted: Counter,
    /// Entries of the offsets topic that could not be read.
    pub offsets_malformed: Counter,
    /// Flushes of a partition to the disk.
    pub flushes: Counter,
    /// How long they took.
    pub flush_duration: Histogram,
    /// Flushes that failed; each made a partition read-only.
    pub flush_errors: Counter,
    /// Times that a producer was not read until a flush had caught up.
    pub flush_waits: Counter,
    /// Bytes that the data directory's file system has left, at the last look.
    pub disk_free_bytes: Gauge,
    /// 1 while so little disk space is left that no record is appended, else 0.
    pub disk_space_low: Gauge,
    /// Segments deleted because they were too old or too much.
    pub segments_deleted: Counter,
    /// Bytes of their logs.
    pub bytes_deleted: Counter,
    /// Passes of compaction over a partition that came to their end.
    pub compactions: Counter,
    /// Passes of compaction that failed; each is tried again.
    pub compaction_failures: Counter,
    /// When a pass of compaction last came to its end, in s since the Unix epoch; 0 if none has yet.
    pub compaction_last_success_s: Gauge,
    /// Bytes of the log read by compaction.
    pub compaction_bytes_read: Counter,
    /// Bytes of superseded frames and old tombstones that compaction took out.
    pub compaction_bytes_removed: Counter,
    /// These frames.
    pub compaction_frames_removed: Counter,
    /// Segments that compaction merged into the one before them.
    pub segments_merged: Counter,
    /// Times that a reader was moved to the oldest record, or told of it, because what it wanted was deleted.
    pub readers_moved: Counter,
    /// Bytes cut from the end of a log by recovery.
    pub torn_bytes: Counter,
    /// Offset indexes rebuilt from their log.
    pub indexes_rebuilt: Counter,
    /// Places where offsets are missing between two segments.
    pub offset_gaps: Counter,
    /// Segments in which damage was found.
    pub segments_damaged: Counter,
    /// Bytes of records that are not served because they are damaged.
    pub damaged_bytes: Counter,
    /// Times that a reader was moved past damaged records.
    pub damage_skipped: Counter,
    /// Looks through the whole log, comparing it with its checksums, that came to their end.
    pub scrubs: Counter,
    /// Bytes compared with their checksums by them.
    pub scrubbed_bytes: Counter,
    /// Files of checksums made anew from their log.
    pub checksums_rebuilt: Counter,
}

impl Metrics {
    /// Counts a connection whose handshake is done.
    pub fn begun(&self, role: Option<ConnectionRole>) {
        if let Some(role) = role {
            self.roles.of(role).inc();
        }
    }

    /// Counts a connection, of the role that its handshake gave it, as gone.
    pub fn ended(&self, role: Option<ConnectionRole>) {
        self.connections.dec();
        if let Some(role) = role {
            self.roles.of(role).dec();
        }
    }
}
