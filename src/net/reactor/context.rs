//! What a reactor's sessions share.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use mio::Registry;

use super::courier::Post;
use super::gather::Gather;
use super::inbox::{Inbox, Key};
use super::waiting::Spares;
use super::worker::Job;
use crate::access::Access;
use crate::broker::{Broker, Wake};
use crate::metrics::{Metrics, Throttle};
use crate::model::limits::PARTIAL_FRAMES_BYTES;
use crate::net::bounds::Bounds;
use crate::net::budget::Budget;
use crate::net::quota::Quotas;
use crate::tls::Tls;

/// A frame of at most this many bytes waits for its rest in the session's own small buffer; a larger one takes memory from
/// the budget. With many connections it is less.
pub(super) const PENDING_MAX: usize = 16 * 1024;

/// Never is it less: a read has to bring something.
const PENDING_MIN: usize = 256;

/// Bytes of what nobody wants that are read at once.
pub(super) const SCRATCH: usize = 16 * 1024;

/// Shared by all sessions of one reactor.
#[derive(Debug)]
pub(super) struct Context {
    /// This reactor's number.
    pub(super) reactor: usize,
    /// How many there are.
    pub(super) reactors: usize,
    pub(super) broker: Arc<Broker>,
    pub(super) access: Arc<Access>,
    pub(super) metrics: Arc<Metrics>,
    /// What holds for connections now.
    pub(super) bounds: Bounds,
    pub(super) budget: Arc<Budget>,
    /// To the threads that open.
    pub(super) jobs: Sender<Job>,
    /// To the threads that read what is cold.
    pub(super) reads: Sender<Job>,
    /// To the threads that send.
    pub(super) post: Post,
    /// Where sessions say what they are to be told of their sockets.
    pub(super) registry: Registry,
    pub(super) inbox: Arc<Inbox>,
    /// The inbox again, as what partitions know of it.
    pub(super) wake: Arc<dyn Wake>,
    /// And as what the memory budget knows of it.
    pub(super) memory_wake: Arc<dyn Wake>,
    /// What sockets are read into, and what is to be written of it.
    pub(super) gather: Gather,
    /// Buffers for acks that wait for the disk.
    pub(super) spares: Spares,
    /// The time, as of the last events or the last run that was appended.
    pub(super) now: Instant,
    /// When a run was appended last.
    pub(super) appended_at: Option<Instant>,
    /// What is read and dropped goes here.
    pub(super) scratch: Vec<u8>,
    /// What is read of the log to be encrypted; empty without TLS.
    pub(super) plaintext: Vec<u8>,
    /// What connections with TLS are accepted with.
    pub(super) tls: Option<Arc<Tls>>,
    /// Sessions that hold memory for a large frame, when to look at them again, and their progress so far.
    pub(super) stalls: VecDeque<(Instant, Key, u64)>,
    /// Sessions that end once their answers are out, and when they end all the same.
    pub(super) lingers: VecDeque<(Instant, Key)>,
    /// What principals may produce and consume.
    pub(super) quotas: Arc<Quotas>,
    /// When a connection goes on whose principal was over its quota, by its key.
    pub(super) pauses: BTreeSet<(Instant, u64)>,
    /// Connections in their handshake, and when they are closed.
    pub(super) deadlines: BTreeSet<(Instant, u64)>,
    /// Those of them that have sent a part of it.
    pub(super) partial_handshakes: BTreeSet<(Instant, u64)>,
    /// What of a frame a connection may keep without memory from the budget, in bytes.
    pub(super) pending_max: usize,
    /// When a consumer may be due a heartbeat, by its key.
    pub(super) heartbeats: BTreeSet<(Instant, u64)>,
    /// What is said of connections.
    pub(super) warnings: Throttle,
    /// The broker is going down: finish, do not begin.
    pub(super) stopping: bool,
}

/// What each of so many connections may keep of a frame, in bytes.
pub(super) fn pending_max(connections: usize) -> usize {
    (PARTIAL_FRAMES_BYTES / connections.max(1)).clamp(PENDING_MIN, PENDING_MAX)
}
