//! CRC-32C (Castagnoli, as in iSCSI, RFC 3720 §12.1), which processors compute by the cache line.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of some bytes and `bytes` behind them, from the checksum of those bytes (0 for none).
pub(super) fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // The algorithm has 32 bits.
    u32::try_from(digest.finalize()).unwrap_or(0)
}

/// The checksum of `bytes`.
pub(super) fn of(bytes: &[u8]) -> u32 {
    extend(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_one() {
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"123456789"), 0xe306_9283, "the check value of CRC-32C");
        assert_eq!(of(&[0; 32]), 0x8a91_36aa, "RFC 3720 B.4");
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43, "RFC 3720 B.4");
    }

    #[test]
    fn it_can_be_extended_at_any_place() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| n.to_le_bytes()[0]).collect();
        let whole = of(&bytes);
        for at in [0, 1, 63, 64, 255, 4095, 4096, 4999, 5000] {
            assert_eq!(extend(of(&bytes[..at]), &bytes[at..]), whole, "{at}");
        }
    }
}
