//! Commits: what a client sends on a connection of role commit, and on a consumer's.

use crate::model::Offset;
use crate::record::wire;

/// Bytes of a commit: an offset, `u64`.
pub const COMMIT_LEN: usize = 8;

/// The value of a reply to a handshake of role commit where the group has committed nothing.
pub const NO_COMMIT: u64 = u64::MAX;

/// Appends a commit to `out`: `offset` is where the group resumes.
pub fn write_commit(offset: Offset, out: &mut Vec<u8>) {
    out.extend_from_slice(&wire::u64_bytes(offset));
}

/// The whole commits at the start of `bytes`, in order.
///
/// ```
/// use hermitmq::protocol::v1_1::commits;
///
/// let arrived = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0];
/// assert_eq!(commits(&arrived).consumed(), 16);
/// assert_eq!(commits(&arrived).collect::<Vec<_>>(), [5, 9]);
/// // A consumer's commits are not answered, so the newest is all that counts.
/// assert_eq!(commits(&arrived).last(), Some(9));
/// ```
pub fn commits(bytes: &[u8]) -> Commits<'_> {
    Commits { whole: bytes.as_chunks().0.iter() }
}

/// Iterator over commits, from [`commits`].
#[derive(Debug, Clone)]
pub struct Commits<'a> {
    whole: std::slice::Iter<'a, [u8; COMMIT_LEN]>,
}

impl Commits<'_> {
    /// Bytes of the commits not walked yet: before the first of them, all that can be taken from the input.
    pub fn consumed(&self) -> usize {
        self.whole.len() * COMMIT_LEN
    }
}

impl Iterator for Commits<'_> {
    type Item = Offset;

    fn next(&mut self) -> Option<Offset> {
        self.whole.next().map(|bytes| wire::u64_from(*bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.whole.size_hint()
    }
}

impl DoubleEndedIterator for Commits<'_> {
    fn next_back(&mut self) -> Option<Offset> {
        self.whole.next_back().map(|bytes| wire::u64_from(*bytes))
    }
}

impl ExactSizeIterator for Commits<'_> {}
