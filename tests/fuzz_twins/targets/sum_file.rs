//! What a `.sum` file claims, read as `docs/STORAGE.md` specifies it and not as the broker does.

use hermitmq::record::wire;

/// Bytes of the log that one entry speaks for.
const BLOCK: u64 = 4096;
const MAGIC: u64 = wire::u64_from(*b"HMQSUM\0\x01");
/// Words of mark A, mark B and the confirmation.
const MARKS: [usize; 3] = [8, 16, 24];
/// Words before the entries.
const ENTRIES: u64 = 64;
/// What of an entry its check leaves out, and what a mark's checksum takes as 0.
const CHECK: u64 = 0xffff;
const FOUND_BAD: u64 = 1 << 31;

/// CRC-32C bit by bit: the least there is to get wrong.
fn crc(mut crc: u32, bytes: &[u8]) -> u32 {
    crc = !crc;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

fn crc_of_words(words: impl IntoIterator<Item = u64>) -> u32 {
    words.into_iter().fold(0, |sum, word| crc(sum, &wire::u64_bytes(word)))
}

fn word(bytes: &[u8], number: u64) -> u64 {
    let at = usize::try_from(number).ok().and_then(|number| number.checked_mul(8));
    at.and_then(|at| wire::get_u64(bytes, at)).unwrap_or(0)
}

fn set_word(bytes: &mut [u8], number: u64, value: u64) {
    let at = usize::try_from(number).unwrap() * 8;
    if let Some(word) = bytes.get_mut(at..at + 8) {
        word.copy_from_slice(&wire::u64_bytes(value));
    }
}

/// Whether the file is one of the segment's checksums at all.
pub fn is_of(bytes: &[u8], base: u64) -> bool {
    let check = crc_of_words([word(bytes, 1), word(bytes, 2)]);
    bytes.len() as u64 >= ENTRIES * 8
        && (word(bytes, 0), word(bytes, 1), word(bytes, 3)) == (MAGIC, base, u64::from(check))
}

/// How much of the log the file claims to be durable, in bytes: the position of the furthest mark that counts; 0 if none
/// does.
pub fn claimed(bytes: &[u8], base: u64) -> u64 {
    if !is_of(bytes, base) {
        return 0;
    }
    let counting = MARKS.into_iter().filter_map(|mark| {
        let fields: [u64; 6] = std::array::from_fn(|n| word(bytes, (mark + n) as u64));
        let [position, .., from, sums, check] = fields;
        let whole = u64::from(mark_check(base, &fields)) == check && from <= position;
        (whole && Some(sums & 0xffff_ffff) == entries_crc(bytes, from, position))
            .then_some(position)
    });
    counting.max().unwrap_or(0)
}

fn mark_check(base: u64, fields: &[u64; 6]) -> u32 {
    crc_of_words([base].into_iter().chain(fields[..5].iter().copied()))
}

/// Checksum of the entries of the whole blocks between two positions; `None` if the file cannot have that many.
fn entries_crc(bytes: &[u8], from: u64, to: u64) -> Option<u64> {
    let blocks = from / BLOCK..to / BLOCK;
    if !blocks.is_empty() && ENTRIES + blocks.end > bytes.len() as u64 / 8 {
        return None;
    }
    let entry = |block| {
        let entry = word(bytes, ENTRIES + block);
        // The check of an entry is over this bit too.
        if entry & FOUND_BAD != 0 && entry == with_check(block, entry) {
            with_check(block, entry & !FOUND_BAD)
        } else {
            entry
        }
    };
    Some(crc_of_words(blocks.map(entry)).into())
}

fn with_check(block: u64, entry: u64) -> u64 {
    let fields = entry & !CHECK;
    fields | (fields ^ block.rotate_right(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// Makes the checks right of what stands there: a lie that no accident tells.
pub fn reseal(bytes: &mut [u8], which: u8) {
    let base = word(bytes, 1);
    if which & 1 != 0 {
        set_word(bytes, 0, MAGIC);
        let check = crc_of_words([base, word(bytes, 2)]);
        set_word(bytes, 3, check.into());
    }
    if which & 2 != 0 {
        for block in 0..(bytes.len() as u64 / 8).saturating_sub(ENTRIES) {
            let entry = word(bytes, ENTRIES + block);
            set_word(bytes, ENTRIES + block, with_check(block, entry));
        }
    }
    for (number, mark) in MARKS.into_iter().enumerate() {
        let mark = mark as u64;
        if which & 4 << number == 0 {
            continue;
        }
        if which & 0x20 != 0
            && let Some(sums) = entries_crc(bytes, word(bytes, mark + 3), word(bytes, mark))
        {
            let partial = word(bytes, mark + 4) >> 32 << 32;
            set_word(bytes, mark + 4, partial | sums);
        }
        let fields: [u64; 6] = std::array::from_fn(|n| word(bytes, mark + n as u64));
        set_word(bytes, mark + 5, mark_check(base, &fields).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(crc(0, b"123456789"), 0xe306_9283);
    }
}
