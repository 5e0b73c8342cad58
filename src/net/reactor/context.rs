//! What a reactor's sessions share.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::inbox::Inbox;
use super::worker::Job;
use crate::broker::{Broker, Wake};
use crate::metrics::Metrics;
use crate::net::budget::Budget;
use crate::record::FrameLimits;

/// Bytes that one `read` takes at most: the largest run there is, and what a partition writes at once.
pub(super) const READ_BUFFER: usize = 256 * 1024;

/// Shared by all sessions of one reactor.
#[derive(Debug)]
pub(super) struct Context {
    /// This reactor's number.
    pub(super) reactor: usize,
    /// How many there are.
    pub(super) reactors: usize,
    pub(super) broker: Arc<Broker>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: FrameLimits,
    pub(super) budget: Arc<Budget>,
    pub(super) jobs: Sender<Job>,
    pub(super) inbox: Arc<Inbox>,
    /// The inbox again, as what partitions know of it.
    pub(super) wake: Arc<dyn Wake>,
    /// What sockets are read into. Empty while in use.
    pub(super) buf: Vec<u8>,
    /// Acks being written. Kept for its memory.
    pub(super) acks: Vec<u8>,
    /// The broker is going down: finish, do not begin.
    pub(super) stopping: bool,
}
