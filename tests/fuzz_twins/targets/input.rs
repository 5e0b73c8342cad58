//! Bytes as a series of decisions. Where they end, every decision is 0 and every text is empty.

use hermitmq::record::wire;

/// What is left of the input.
#[derive(Debug, Clone)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub fn u16(&mut self) -> usize {
        let bytes = self.bytes(2);
        wire::get_u16(bytes, 0).map_or(0, usize::from)
    }

    pub fn u64(&mut self) -> u64 {
        let bytes = self.bytes(8);
        wire::get_u64(bytes, 0).unwrap_or(0)
    }

    /// The next bytes, as many as there are.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
