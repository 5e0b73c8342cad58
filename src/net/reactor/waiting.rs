//! Acks that wait until the disk has their frames. No I/O: the session sends what is due.

use crate::broker::Settled;
use crate::protocol::{ACK_LEN, Ack, Status};

/// A session with this many bytes of waiting acks is not read until some are out.
pub(super) const WAITING_MAX: usize = 64 * 1024;

/// Bytes of unused buffers that a reactor keeps, at most.
const SPARES_MAX: usize = 1024 * 1024;

/// The acks of one producer that are not out, in order. An ack is due when everything up to its offset is stored; one that
/// says `not_stored` is due at once, but passes no other.
#[derive(Debug, Default)]
pub(super) struct WaitingAcks {
    bytes: Vec<u8>,
    /// Bytes at the start that were sent.
    sent: usize,
}

/// Buffers that are not needed now. A session that owes nothing holds no memory, and none is allocated for the next ack.
#[derive(Debug, Default)]
pub(super) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Sum of their capacities.
    bytes: usize,
}

impl WaitingAcks {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that are not out.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Adds acks behind those that are there.
    pub(super) fn push(&mut self, acks: &[u8], spares: &mut Spares) {
        debug_assert!(acks.len().is_multiple_of(ACK_LEN));
        if self.bytes.capacity() == 0 {
            self.bytes = spares.take();
        }
        // Each byte is moved once at most for each one sent.
        if self.sent > 0 && self.sent >= self.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(acks);
    }

    /// The acks that are due. What will never be stored becomes `not_stored`.
    pub(super) fn due(&mut self, settled: Settled) -> &[u8] {
        let waiting = &mut self.bytes[self.sent..];
        let mut due = 0;
        for bytes in waiting.chunks_exact_mut(ACK_LEN) {
            let stored = Ack::read(bytes).filter(|ack| ack.code == Status::Ok.code());
            let waits = stored.is_some_and(|ack| ack.offset >= settled.until);
            if waits && !settled.failed {
                break;
            }
            if waits {
                bytes.copy_from_slice(&Ack::NOT_STORED.to_bytes());
            }
            due += ACK_LEN;
        }
        &waiting[..due]
    }

    /// Forgets all acks: the peer is told something else instead.
    pub(super) fn clear(&mut self, spares: &mut Spares) {
        self.advance(self.len(), spares);
    }

    /// Forgets acks that are on their way, `len` bytes of them. The last one gives the memory back.
    pub(super) fn advance(&mut self, len: usize, spares: &mut Spares) {
        self.sent += len;
        debug_assert!(self.sent <= self.bytes.len());
        if self.sent == self.bytes.len() {
            self.sent = 0;
            spares.put(std::mem::take(&mut self.bytes));
        }
    }
}

impl Spares {
    fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    fn put(&mut self, mut buffer: Vec<u8>) {
        if self.bytes + buffer.capacity() <= SPARES_MAX {
            buffer.clear();
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(offsets: &[u64]) -> Vec<u8> {
        offsets.iter().flat_map(|&offset| Ack::stored(offset).to_bytes()).collect()
    }

    fn until(until: u64) -> Settled {
        Settled { until, failed: false }
    }

    /// Sends what is due; returns it.
    fn send(waiting: &mut WaitingAcks, settled: Settled, spares: &mut Spares) -> Vec<u8> {
        let due = waiting.due(settled).to_vec();
        waiting.advance(due.len(), spares);
        due
    }

    #[test]
    fn acks_are_due_in_order_when_their_offset_is_stored() {
        let (mut waiting, mut spares) = (WaitingAcks::default(), Spares::default());
        waiting.push(&acks(&[5, 6]), &mut spares);
        waiting.push(&Ack::NOT_STORED.to_bytes(), &mut spares);
        waiting.push(&acks(&[8]), &mut spares);
        assert_eq!(send(&mut waiting, until(5), &mut spares), b"");
        assert_eq!(send(&mut waiting, until(6), &mut spares), acks(&[5]));
        assert_eq!(waiting.len(), 3 * ACK_LEN);
        let refused = Ack::NOT_STORED.to_bytes().to_vec();
        assert_eq!(send(&mut waiting, until(8), &mut spares), [acks(&[6]), refused].concat());
        assert!(!waiting.is_empty());
        assert_eq!(send(&mut waiting, until(9), &mut spares), acks(&[8]));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_failed_flush_refuses_what_it_did_not_cover() {
        let (mut waiting, mut spares) = (WaitingAcks::default(), Spares::default());
        waiting.push(&acks(&[5, 6, 7]), &mut spares);
        let sent = send(&mut waiting, Settled { until: 6, failed: true }, &mut spares);
        let refused = [Ack::NOT_STORED.to_bytes(); 2].concat();
        assert_eq!(sent, [acks(&[5]), refused].concat());
        assert!(waiting.is_empty());
    }

    #[test]
    fn memory_is_used_again_and_bounded() {
        let (mut waiting, mut spares) = (WaitingAcks::default(), Spares::default());
        let mut next = 0;
        // Never empty: what was sent must not pile up in front.
        waiting.push(&acks(&[next]), &mut spares);
        for _ in 0..100_000 {
            next += 1;
            waiting.push(&acks(&[next]), &mut spares);
            assert_eq!(send(&mut waiting, until(next), &mut spares), acks(&[next - 1]));
        }
        assert!(waiting.bytes.capacity() < 1024, "{}", waiting.bytes.capacity());
        send(&mut waiting, until(u64::MAX), &mut spares);
        assert_eq!((spares.buffers.len(), waiting.bytes.capacity()), (1, 0));
        let kept = spares.bytes;
        waiting.push(&acks(&[1]), &mut spares);
        assert_eq!((waiting.bytes.capacity(), spares.bytes), (kept, 0));
        for _ in 0..100 {
            spares.put(Vec::with_capacity(64 * 1024));
        }
        assert_eq!(spares.bytes, SPARES_MAX);
        assert_eq!(spares.buffers.len(), 16);
    }
}
