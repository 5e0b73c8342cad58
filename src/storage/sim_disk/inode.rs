//! One file: its bytes now, its bytes on the platter, and what happened in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::WORD;
use super::seeded::Seeded;

/// A file's bytes.
#[derive(Debug, Default, Clone)]
pub(super) struct Inode {
    pub(super) bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What happened since the last sync.
    writes: Vec<Write>,
    /// The bytes at a sync that failed: what has not changed since counts as written, and is not on the platter.
    lost: Option<Vec<u8>>,
    /// Where the file is mapped, these words are its bytes.
    pub(super) words: Option<Arc<[AtomicU64]>>,
}

#[derive(Debug, Clone)]
pub(super) enum Write {
    At(usize, Vec<u8>),
    Len(usize),
}

impl Inode {
    /// A file whose bytes are all on the platter.
    pub(super) fn synced(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), bytes, ..Self::default() }
    }

    /// Takes over what was stored through the mapping.
    pub(super) fn absorb(&mut self) {
        if let Some(words) = &self.words {
            for (bytes, word) in self.bytes.chunks_exact_mut(WORD).zip(words.iter()) {
                bytes.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
            }
        }
    }

    pub(super) fn do_write(&mut self, write: Write) {
        assert!(self.words.is_none(), "a file that is mapped is not written otherwise");
        apply(&mut self.bytes, &write, usize::MAX);
        self.writes.push(write);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.absorb();
        if let Some(words) = &self.words {
            for word in words.iter().skip(len / WORD) {
                word.store(0, Ordering::Release);
            }
        }
        self.bytes.resize(len, 0);
        self.writes.push(Write::Len(len));
    }

    pub(super) fn sync(&mut self) {
        self.absorb();
        self.writes.clear();
        let Some(lost) = &mut self.lost else {
            self.durable.clone_from(&self.bytes);
            return;
        };
        self.durable.resize(self.bytes.len(), 0);
        for (at, (durable, &now)) in self.durable.iter_mut().zip(&self.bytes).enumerate() {
            if lost.get(at) != Some(&now) {
                *durable = now;
            }
        }
        lost.clone_from(&self.bytes);
    }

    /// A sync that fails: the pages count as clean, and the platter does not have them.
    pub(super) fn lose(&mut self) {
        self.absorb();
        self.writes.clear();
        self.lost = Some(self.bytes.clone());
    }

    /// Reads clean pages from the platter again.
    pub(super) fn forget(&mut self, range: std::ops::Range<usize>) {
        let Some(lost) = &self.lost else { return };
        assert!(self.words.is_none(), "pages that are mapped cannot be forgotten");
        for at in range.start..range.end.min(self.bytes.len()) {
            if lost.get(at) == Some(&self.bytes[at]) {
                self.bytes[at] = self.durable.get(at).copied().unwrap_or(0);
            }
        }
        self.lost = Some(self.bytes.clone());
    }

    /// The file as it is found after a power cut.
    pub(super) fn crashed(&mut self, seed: &mut Seeded) -> Self {
        self.absorb();
        let mut bytes = self.durable.clone();
        // Either they came in order and the power went in between, or they came as they liked.
        let in_order = seed.coin();
        let kept = seed.below(self.writes.len() + 1);
        for (number, write) in self.writes.iter().enumerate() {
            let whole = if in_order { number < kept } else { seed.coin() };
            let torn = if in_order { number == kept } else { !whole } && seed.coin();
            match write {
                _ if whole => apply(&mut bytes, write, usize::MAX),
                Write::At(_, data) if torn => apply(&mut bytes, write, seed.below(data.len())),
                _ => {}
            }
        }
        if self.words.is_some() {
            for (kept, stored) in bytes.chunks_exact_mut(WORD).zip(self.bytes.chunks_exact(WORD)) {
                if seed.coin() {
                    kept.copy_from_slice(stored);
                }
            }
        }
        Self::synced(bytes)
    }

    /// The file as it is found after the process died.
    pub(super) fn killed(&mut self) -> Self {
        self.absorb();
        Self { words: None, ..self.clone() }
    }
}

fn apply(bytes: &mut Vec<u8>, write: &Write, at_most: usize) {
    match write {
        Write::At(at, data) => {
            let data = &data[..data.len().min(at_most)];
            let end = at + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at..end].copy_from_slice(data);
        }
        Write::Len(len) => bytes.resize(*len, 0),
    }
}

pub(super) fn words_of(bytes: &[u8], capacity: usize) -> Arc<[AtomicU64]> {
    let mut words: Vec<_> = bytes
        .chunks_exact(WORD)
        .map(|chunk| AtomicU64::new(u64::from_ne_bytes(chunk.try_into().unwrap())))
        .collect();
    words.resize_with(capacity.max(words.len()), AtomicU64::default);
    words.into()
}
