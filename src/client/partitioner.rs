//! Which partition a key belongs to: the way of Kafka's default partitioner, so that producers of both agree.

use std::num::NonZeroU32;

use crate::model::PartitionId;

/// The seed of Kafka's `Utils.murmur2`.
const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// The partition, from 0, that records with this key go to in a topic of `partitions` partitions:
/// `toPositive(murmur2(key)) % partitions`, as Kafka's `DefaultPartitioner` has it (since 3.3
/// `BuiltInPartitioner.partitionForKey`).
///
/// Records without a key belong to no partition, and may be spread as the program likes; a frame cannot tell an empty key
/// from none. With another number of partitions most keys move.
///
/// ```
/// use std::num::NonZeroU32;
/// use hermitmq::client::partition_of_key;
///
/// let partitions = NonZeroU32::new(12).unwrap();
/// assert_eq!(partition_of_key(b"abc", partitions), 479_470_107 % 12);
/// ```
pub fn partition_of_key(key: &[u8], partitions: NonZeroU32) -> PartitionId {
    // Kafka's `toPositive`: the sign bit is dropped, the value not negated.
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// MurmurHash 2, 32 bits, over little-endian words, as in Kafka's `Utils.murmur2`. (Java shows it as an `i32`.)
pub fn murmur2(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "lengths are an int in Java; no key is longer"
    )]
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's `UtilsTest.testMurmur2`.
    const VECTORS: [(&str, i32); 6] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];

    #[test]
    fn hashes_are_those_of_kafka() {
        for (key, hash) in VECTORS {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_key_has_the_partition_it_has_in_kafka() {
        for (key, hash) in VECTORS {
            for count in [1, 2, 3, 7, 100, 10_000] {
                let positive = (hash & i32::MAX).cast_unsigned();
                let partitions = NonZeroU32::new(count).unwrap();
                assert_eq!(partition_of_key(key.as_bytes(), partitions), positive % count, "{key}");
            }
        }
    }

    #[test]
    fn every_length_and_every_byte_counts() {
        let key: Vec<u8> = (0..64).collect();
        let mut hashes: Vec<u32> = (0..=key.len()).map(|len| murmur2(&key[..len])).collect();
        for at in 0..key.len() {
            let mut other = key.clone();
            other[at] ^= 0x80;
            hashes.push(murmur2(&other));
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}
