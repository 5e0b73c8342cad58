//! Bytes as text.

use std::fmt::Write as _;
use std::io::{self, Write};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Two digits a byte, to an output.
pub(super) fn write_hex(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.write_all(&[byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]))?;
    }
    Ok(())
}

/// RFC 4648 §4, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|n| usize::from(chunk.get(n).copied().unwrap_or(0)));
        let digits = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        for (number, digit) in digits.into_iter().enumerate() {
            let digit = if number <= chunk.len() { char::from(BASE64[digit]) } else { '=' };
            text.push(digit);
        }
    }
    text
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
    fn base64_is_that_of_the_rfc() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in examples {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn text_is_one_line_and_says_every_byte() {
        assert_eq!(quoted("aä\u{1f980}".as_bytes()), "\"aä\u{1f980}\"");
        assert_eq!(quoted(b"\"\\\n\t\x1b[2J\xff\0"), r#""\"\\\n\t\u{1b}[2J\xff\u{0}""#);
        assert_eq!(hex(b"\0\xab\x10"), "00ab10");
    }
}
