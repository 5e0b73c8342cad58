//! W3C Trace Context, level 1, section 3.2: the `traceparent` of a handshake.

use std::fmt;

/// The trace that the connection's span joins, as `00-{trace id}-{parent id}-{flags}` in lower-case hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace, not all zero; the bytes as they are written.
    pub trace_id: [u8; 16],
    /// The caller's span, not all zero; the bytes as they are written.
    pub parent_id: [u8; 8],
    /// Bit 0: the caller records the trace.
    pub flags: u8,
}

/// Bytes of a `traceparent` of version 00.
const LEN: usize = 55;

impl TraceParent {
    /// Reads a `traceparent`. `None` if it is not valid: the specification has a receiver then go on without the
    /// trace. Of a version after 00, the fields of version 00 are read, and what follows them is not.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (fields, rest) = text.split_at_checked(LEN)?;
        let dashes = [2, 35, 52].iter().all(|&at| fields[at] == b'-');
        let [version] = hex(&fields[..2])?;
        let follows =
            if version == 0 { rest.is_empty() } else { !matches!(rest, [b, ..] if *b != b'-') };
        let [flags] = hex(&fields[53..])?;
        let parsed =
            Self { trace_id: hex(&fields[3..35])?, parent_id: hex(&fields[36..52])?, flags };
        let valid = dashes
            && version != 0xFF
            && follows
            && parsed.trace_id != [0; 16]
            && parsed.parent_id != [0; 8];
        valid.then_some(parsed)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        f.write_str("00-")?;
        hex(f, &self.trace_id)?;
        f.write_str("-")?;
        hex(f, &self.parent_id)?;
        write!(f, "-{:02x}", self.flags)
    }
}

/// `N` bytes from `2 * N` lower-case digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    debug_assert_eq!(digits.len(), 2 * N);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}
