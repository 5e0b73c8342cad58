//! Big-endian integers: the only place that reads and writes them (`clippy.toml` bans the rest).
//!
//! The `get_*` functions return `None` where the bytes end too early, so that no caller indexes past a buffer.
#![allow(clippy::disallowed_methods)]

/// The `u16` at `at`.
pub fn get_u16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// The `u32` at `at`.
pub fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// The `u64` at `at`.
pub fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// `value` as two bytes.
pub const fn u16_bytes(value: u16) -> [u8; 2] {
    value.to_be_bytes()
}

/// `value` as four bytes.
pub const fn u32_bytes(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// `value` as eight bytes.
pub const fn u64_bytes(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The `u64` that the eight bytes hold.
pub const fn u64_from(bytes: [u8; 8]) -> u64 {
    u64::from_be_bytes(bytes)
}
