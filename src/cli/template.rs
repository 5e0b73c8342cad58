//! `consume -f`: what is printed of a record, in the letters of kcat.

use std::io::{self, Write};
use std::str::FromStr;

use super::output::Shown;

/// The letters, for messages.
const LETTERS: &str = "%t %p %o %T %k %K %s %S %n %%";

/// Nanoseconds in a millisecond: the unit of `%T`, as in kcat.
const NS_PER_MS: u64 = 1_000_000;

/// Text with places for what a record has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeySize,
    Payload,
    PayloadSize,
}

impl Template {
    /// Writes one record. What the template does not say is not written, not even a newline.
    pub(super) fn write(&self, out: &mut impl Write, record: &Shown<'_>) -> io::Result<()> {
        let message = record.message;
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.write_all(text)?,
                Piece::Topic => out.write_all(record.topic.as_str().as_bytes())?,
                Piece::Partition => write!(out, "{}", record.partition)?,
                Piece::Offset => write!(out, "{}", message.offset)?,
                Piece::Timestamp => write!(out, "{}", message.timestamp / NS_PER_MS)?,
                Piece::Key => out.write_all(&message.key)?,
                Piece::KeySize => write!(out, "{}", message.key.len())?,
                Piece::Payload => out.write_all(&message.payload)?,
                Piece::PayloadSize => write!(out, "{}", message.payload.len())?,
            }
        }
        Ok(())
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut pieces, mut literal) = (Vec::new(), Vec::new());
        let mut rest = text.chars();
        while let Some(char) = rest.next() {
            match char {
                '\\' => literal.extend(escape(&mut rest)?),
                '%' => match field(rest.next())? {
                    Piece::Text(text) => literal.extend(text),
                    piece => {
                        if !literal.is_empty() {
                            pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        }
                        pieces.push(piece);
                    }
                },
                char => literal.extend(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self(pieces))
    }
}

/// What stands behind `%`.
fn field(letter: Option<char>) -> Result<Piece, String> {
    Ok(match letter {
        Some('t') => Piece::Topic,
        Some('p') => Piece::Partition,
        Some('o') => Piece::Offset,
        Some('T') => Piece::Timestamp,
        Some('k') => Piece::Key,
        Some('K') => Piece::KeySize,
        Some('s') => Piece::Payload,
        Some('S') => Piece::PayloadSize,
        Some('n') => Piece::Text(b"\n".to_vec()),
        Some('%') => Piece::Text(b"%".to_vec()),
        Some(other) => return Err(format!("there is no %{other}; there are {LETTERS}")),
        None => return Err("a % at the end; %% is a percent sign".to_owned()),
    })
}

/// What stands behind a backslash.
fn escape(rest: &mut std::str::Chars<'_>) -> Result<Vec<u8>, String> {
    let byte = match rest.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let mut digit = || rest.next().and_then(|digit| digit.to_digit(16));
            let (high, low) = (digit(), digit());
            let byte = high.zip(low).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
            byte.ok_or("behind \\x stand two hexadecimal digits")?
        }
        _ => return Err("there are \\n \\r \\t \\0 \\\\ and \\xNN".to_owned()),
    };
    Ok(vec![byte])
}

#[cfg(test)]
mod tests {
    use super::super::output::tests::message;
    use super::*;
    use crate::model::TopicName;

    fn written(template: &str, key: &'static [u8], payload: &'static [u8]) -> Vec<u8> {
        let (topic, message) = (TopicName::parse("t").unwrap(), message(key, payload));
        let mut bytes = Vec::new();
        let shown = Shown { topic: &topic, partition: 2, message: &message };
        template.parse::<Template>().unwrap().write(&mut bytes, &shown).unwrap();
        bytes
    }

    #[test]
    fn every_letter_and_every_escape() {
        let all = "%t/%p/%o/%T/%k/%K/%s/%S%n";
        assert_eq!(written(all, b"k\0", b"\xffp\n"), b"t/2/7/1500/k\0/2/\xffp\n/3\n");
        assert_eq!(written(all, b"", b""), b"t/2/7/1500//0//0\n");
        assert_eq!(written(r"\n\r\t\0\\\x41\xfF%%", b"", b""), b"\n\r\t\0\\A\xff%");
        assert_eq!(written("", b"k", b"p"), b"");
        assert_eq!(written("\u{e4}%s", b"k", b"p"), b"\xc3\xa4p");
    }

    #[test]
    fn what_means_nothing_is_said() {
        for (wrong, want) in [
            ("%x", "there is no %x; there are %t"),
            ("100%", "%% is a percent sign"),
            (r"\q", r"there are \n"),
            ("\\", r"there are \n"),
            (r"\x4", "two hexadecimal digits"),
            (r"\xg0", "two hexadecimal digits"),
        ] {
            let error = wrong.parse::<Template>().unwrap_err();
            assert!(error.contains(want), "{wrong}: {error}");
        }
    }
}
