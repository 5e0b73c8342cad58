//! Bytes as text.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// RFC 4648 §4, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// In double quotes, on one line: what is no UTF-8, and what a terminal would obey, is escaped.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => text.extend(['\\', char]),
                char if char.is_control() => text.extend(char.escape_default()),
                char => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_line_and_says_every_byte() {
        assert_eq!(quoted("aä\u{1f980}".as_bytes()), "\"aä\u{1f980}\"");
        assert_eq!(quoted(b"\"\\\n\t\x1b[2J\xff\0"), r#""\"\\\n\t\u{1b}[2J\xff\u{0}""#);
        assert_eq!(hex(b"\0\xab\x10"), "00ab10");
    }
}
