//! The records inside a batch, where the payload shows them.

/// The records of a payload that claims `record_count` records.
///
/// The format does not say how a batch holds its records. The original's clients, and ours, end each record with a
/// newline. So a payload that is exactly `record_count` newline-terminated lines is split into them, without the
/// newlines; any other payload, and any frame of one record, is given whole.
#[expect(clippy::naive_bytecount, reason = "batches are small, and only a client splits them")]
pub fn records(payload: &[u8], record_count: u32) -> Records<'_> {
    let lines = record_count > 1
        && payload.last() == Some(&b'\n')
        && payload.iter().filter(|&&b| b == b'\n').count() as u64 == u64::from(record_count);
    Records { rest: Some(payload), lines }
}

/// Iterator over the records of a payload, from [`records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: Option<&'a [u8]>,
    lines: bool,
}

impl Records<'_> {
    /// Whether the payload was split into its records (else it comes whole, as one item).
    pub fn is_split(&self) -> bool {
        self.lines
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        if !self.lines {
            return Some(rest);
        }
        let end = rest.iter().position(|&b| b == b'\n')?;
        self.rest = Some(&rest[end + 1..]);
        Some(&rest[..end])
    }
}
