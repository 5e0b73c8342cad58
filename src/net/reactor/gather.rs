//! One write for the runs of several connections.
//!
//! Connections that produce to the same partition and are ready at the same time are read into one buffer, one behind
//! the other, without the incomplete frames at their ends. What has been gathered is appended as one run, and each
//! connection gets its acks. So many small producers cost one write between them, and a single large one costs what it
//! did alone.

use std::sync::Arc;

use tracing::{Span, span};

use super::inbox::Key;
use crate::broker::{AppendError, Appended, Partition};
use crate::net::connection::acks;
use crate::net::status::{self, Refusal};
use crate::record::{Frames, Run};

/// Bytes that are gathered at most: the largest run there is, and what one `read` takes at most.
pub(super) const GATHER_BUFFER: usize = 256 * 1024;

/// With less room than this, what is there is written before more is read.
const ROOM_MIN: usize = GATHER_BUFFER / 4;

/// The frames of one connection.
#[derive(Debug, Clone, Copy)]
struct Part {
    key: Key,
    /// Bytes, behind those of the part before.
    len: usize,
}

/// Complete frames on their way to one partition, and room for more.
#[derive(Debug)]
pub(super) struct Gather {
    buf: Vec<u8>,
    /// Bytes of complete frames at the start of the buffer.
    len: usize,
    frames: usize,
    records: u64,
    partition: Option<Arc<Partition>>,
    parts: Vec<Part>,
    /// Acks of one part; kept for its memory.
    acks: Vec<u8>,
}

impl Gather {
    pub(super) fn new() -> Self {
        Self {
            buf: vec![0; GATHER_BUFFER],
            len: 0,
            frames: 0,
            records: 0,
            partition: None,
            parts: Vec::new(),
            acks: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether frames for this partition can be added to what is there, `have` bytes of them and what a read brings.
    pub(super) fn takes(&self, partition: Option<&Arc<Partition>>, have: usize) -> bool {
        let same = match (&self.partition, partition) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => true,
        };
        self.is_empty() || same && self.buf.len() - self.len >= ROOM_MIN + have
    }

    /// The buffer behind what is there.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buf[self.len..]
    }

    /// Adds the frames at the start of [`Gather::room`].
    pub(super) fn add(&mut self, key: Key, partition: &Arc<Partition>, run: &Counts) {
        debug_assert!(self.partition.as_ref().is_none_or(|ours| Arc::ptr_eq(ours, partition)));
        if self.partition.is_none() {
            self.partition = Some(Arc::clone(partition));
        }
        self.parts.push(Part { key, len: run.len });
        self.len += run.len;
        self.frames += run.frames;
        self.records += run.records;
    }

    /// The span of what is going to be appended: below that of the first connection, with links to those of the others.
    pub(super) fn span<'a>(&self, of: impl Fn(Key) -> Option<&'a Span>) -> Span {
        let Some(partition) = &self.partition else { return Span::none() };
        let mut spans = self.parts.iter().filter_map(|part| of(part.key));
        let first = spans.next().and_then(Span::id);
        let span = span_of(first, partition, self.frames, self.records, self.len);
        if !span.is_disabled() {
            for other in spans {
                span.follows_from(other);
            }
        }
        span
    }

    /// Appends what is there, within `span`, and gives each connection's acks to `answer`, which is told what became of the run. False if
    /// there was nothing.
    pub(super) fn flush(
        &mut self,
        span: &Span,
        mut answer: impl FnMut(Key, &[u8], &Outcome),
    ) -> bool {
        let Some(partition) = self.partition.take() else { return false };
        let bytes = &mut self.buf[..self.len];
        let mut run = Run::joined(bytes, self.frames, self.records);
        let appended = span.in_scope(|| partition.append(&mut run));
        let outcome = Outcome::of(&partition, &appended);
        let mut rest = &self.buf[..self.len];
        for Part { key, len } in self.parts.drain(..) {
            let (part, behind) = rest.split_at(len);
            rest = behind;
            self.acks.clear();
            acks(Frames::new(part), outcome.stored, &mut self.acks);
            answer(key, &self.acks, &outcome);
        }
        (self.len, self.frames, self.records) = (0, 0, 0);
        true
    }
}

/// The span of a run that is appended. Costs a look at a flag unless somebody wants it.
pub(super) fn span_of(
    parent: Option<span::Id>,
    partition: &Partition,
    frames: usize,
    records: u64,
    bytes: usize,
) -> Span {
    tracing::debug_span!(parent: parent, "append", partition = %partition.name(), frames, records, bytes)
}

/// What became of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// It is in the log.
    pub(super) stored: bool,
    /// Its producers may be told already, as far as the topic's durability mode says: a refusal is told at once.
    pub(super) due: bool,
    /// It never will be in the log: what producers are told that know more than acks.
    pub(super) refusal: Option<Refusal>,
}

impl Outcome {
    pub(super) fn of(partition: &Partition, appended: &Result<Appended, AppendError>) -> Self {
        match appended {
            Ok(run) => {
                let due = partition.settled().covers(*run);
                Self { stored: true, due, refusal: None }
            }
            Err(error) => Self { stored: false, due: true, refusal: status::of_append(error) },
        }
    }
}

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    len: usize,
    frames: usize,
    records: u64,
}

impl Counts {
    pub(super) fn of(run: &Run<'_>) -> Self {
        Self { len: run.bytes().len(), frames: run.frames(), records: run.records() }
    }
}
