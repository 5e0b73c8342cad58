//! The newest offset of each key, in memory of a fixed size.
//!
//! A key is known by 128 bits of keyed hash: two SipHash values whose keys are drawn anew for each pass. So nobody can
//! choose keys that collide, and among a thousand million keys two do with a chance of one in 10²⁰.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::model::Offset;

/// Hash and offset plus 1, of which 0 is a free place.
type Slot = [u64; 3];

/// Of eight places, so many are used: looking for one stays short.
const USED_OF_8: usize = 7;

/// What a key is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHash([u64; 2]);

/// Hashes keys, piece by piece.
#[derive(Debug)]
pub(super) struct KeyHasher([std::hash::DefaultHasher; 2]);

impl KeyHasher {
    /// Pieces of a key must be those of an equal key, too.
    pub(super) fn write(&mut self, piece: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.write(piece));
    }

    pub(super) fn finish(self) -> KeyHash {
        KeyHash(self.0.map(|hasher| hasher.finish()))
    }
}

/// There is no place for another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// The newest offset of each key.
#[derive(Debug)]
pub(super) struct Keys {
    slots: Vec<Slot>,
    len: usize,
    states: [RandomState; 2],
}

impl Keys {
    /// Room for `most` keys, within `bytes`, but for one key at least. Memory is taken as it is used.
    pub(super) fn new(bytes: u64, most: u64) -> Self {
        let wanted = most.saturating_add(1).saturating_mul(8) / USED_OF_8 as u64 + 1;
        let places = (bytes / size_of::<Slot>() as u64).min(wanted).max(2);
        let slots = vec![[0; 3]; usize::try_from(places).unwrap_or(2)];
        Self { slots, len: 0, states: [RandomState::new(), RandomState::new()] }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn hasher(&self) -> KeyHasher {
        let mut hashers = [self.states[0].build_hasher(), self.states[1].build_hasher()];
        // Their keys are related; what they hash is not the same either.
        hashers[1].write_u8(0xa5);
        KeyHasher(hashers)
    }

    /// The newest offset of a key.
    pub(super) fn get(&self, key: KeyHash) -> Option<Offset> {
        let [.., place] = self.slots.get(self.place(key))?;
        place.checked_sub(1)
    }

    /// Notes a frame of a key. Offsets grow from call to call.
    pub(super) fn put(&mut self, key: KeyHash, offset: Offset) -> Result<(), Full> {
        let place = self.place(key);
        let most = (self.slots.len() * USED_OF_8 / 8).max(1);
        let Some(slot) = self.slots.get_mut(place) else { return Err(Full) };
        if slot[2] == 0 {
            if self.len >= most {
                return Err(Full);
            }
            self.len += 1;
        }
        *slot = [key.0[0], key.0[1], offset + 1];
        Ok(())
    }

    /// Where a key is, or would be. There is always a free place.
    fn place(&self, KeyHash(hash): KeyHash) -> usize {
        let places = self.slots.len();
        // The remainder fits `usize`, being less than a length.
        let mut at = usize::try_from(hash[0] % places as u64).unwrap_or(0);
        loop {
            let [first, second, used] = self.slots[at];
            if used == 0 || [first, second] == hash {
                return at;
            }
            at = if at + 1 == places { 0 } else { at + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(keys: &Keys, key: &[u8]) -> KeyHash {
        let mut hasher = keys.hasher();
        hasher.write(key);
        hasher.finish()
    }

    #[test]
    fn the_newest_offset_of_each_key_is_known_until_there_is_no_room() {
        let mut keys = Keys::new(24 * 1000, u64::MAX);
        for number in 0u32..875 {
            let key = hash(&keys, &number.to_le_bytes());
            assert_eq!(keys.get(key), None);
            keys.put(key, u64::from(number)).unwrap();
        }
        let known = hash(&keys, &7u32.to_le_bytes());
        keys.put(known, 9000).unwrap();
        let new = hash(&keys, b"new");
        assert_eq!(keys.put(new, 9001), Err(Full));
        assert_eq!((keys.len, keys.get(known), keys.get(new)), (875, Some(9000), None));
        for number in 8u32..875 {
            assert_eq!(keys.get(hash(&keys, &number.to_le_bytes())), Some(u64::from(number)));
        }
    }

    #[test]
    fn no_more_memory_is_taken_than_keys_need() {
        assert_eq!(Keys::new(1 << 30, 0).slots.len(), 2);
        assert!(Keys::new(1 << 30, 70).slots.len() < 100);
        let mut one = Keys::new(0, 100);
        let (a, b) = (hash(&one, b"a"), hash(&one, b"b"));
        assert_eq!((one.put(a, 0), one.put(b, 1)), (Ok(()), Err(Full)));
        assert_eq!(one.get(a), Some(0));
    }

    #[test]
    fn each_pass_hashes_in_its_own_way() {
        let (one, other) = (Keys::new(0, 0), Keys::new(0, 0));
        assert_ne!(hash(&one, b"key"), hash(&other, b"key"));
        let KeyHash([a, b]) = hash(&one, b"key");
        assert_ne!(a, b);
    }
}
