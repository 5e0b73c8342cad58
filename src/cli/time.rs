//! Points in time as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// What can be written, for messages.
pub(super) const FORMS: &str =
    "a time such as 2026-01-31T09:00:00Z, -1h (an hour ago) or @ and the seconds since 1970";

const NS_PER_SECOND: i128 = 1_000_000_000;

/// Of `2026-01-31`.
const DATE_LEN: usize = 10;

/// The point in time that a text names, in ns since the Unix epoch; `None` if it names none.
///
/// `@SECONDS`, with up to nine decimals; `-1h30m`, so long before `now` in `s`, `m`, `h`, `d`; RFC 3339, where the time of
/// day may be left out for midnight in UTC.
pub(super) fn parse(text: &str, now: SystemTime) -> Option<u64> {
    if let Some(seconds) = text.strip_prefix('@') {
        return u64::try_from(decimal(seconds)?).ok();
    }
    if let Some(ago) = text.strip_prefix('-') {
        let now = now.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        // What is before 1970 is before every record.
        return u64::try_from(now.saturating_sub(duration(ago)?)).ok();
    }
    u64::try_from(rfc3339(text)?).ok()
}

/// Seconds, with decimals or without, in ns.
fn decimal(seconds: &str) -> Option<i128> {
    let (whole, decimals) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let whole = number(whole)?;
    if decimals.len() > 9 {
        return None;
    }
    let decimals = number(decimals).and_then(|_| format!("{decimals:0<9}").parse::<i128>().ok())?;
    i128::from(whole).checked_mul(NS_PER_SECOND)?.checked_add(decimals)
}

/// `1h30m` in ns.
fn duration(text: &str) -> Option<u128> {
    let (mut rest, mut seconds) = (text, 0u64);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit = match rest.as_bytes()[end] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return None,
        };
        let amount = number(&rest[..end])?.checked_mul(unit)?;
        seconds = seconds.checked_add(amount)?;
        rest = &rest[end + 1..];
    }
    (!text.is_empty()).then(|| u128::from(seconds) * NS_PER_SECOND.unsigned_abs())
}

/// RFC 3339, in ns since the Unix epoch; a date alone is its midnight in UTC.
fn rfc3339(text: &str) -> Option<i128> {
    let time = if text.len() == DATE_LEN {
        text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()
    } else {
        text.parse::<Timestamp>().ok()?
    };
    Some(time.as_nanosecond())
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn seconds_and_times_ago() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |text| parse(text, now);
        assert_eq!(at("@5"), Some(5 * S));
        assert_eq!(at("@1.05"), Some(1_050_000_000));
        assert_eq!(at("-90s"), Some(999_910 * S));
        assert_eq!(at("-1h30m"), Some(994_600 * S));
        assert_eq!(at("-2d"), Some(827_200 * S));
        assert_eq!(at("-9000d"), Some(0));
        for wrong in
            ["", "@", "@1.", "@.5", "@x", "@+1", "@1.0000000001", "@18446744074", "-", "-1", "-h"]
        {
            assert_eq!(at(wrong), None, "{wrong:?}");
        }
        for wrong in ["-1w", "-1h30", "--1h", "-99999999999999999999d", "-1.5h", "-1\u{e4}"] {
            assert_eq!(at(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn dates() {
        let at = |text| parse(text, UNIX_EPOCH);
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-01-31T09:00:00Z", 1_769_850_000),
            ("2026-01-31t09:00:00z", 1_769_850_000),
            ("2026-01-31T09:00Z", 1_769_850_000),
            ("2026-01-31 11:30:00+02:30", 1_769_850_000),
            ("2026-01-30T23:30:00-09:30", 1_769_850_000),
            ("2026-03-01", 1_772_323_200),
            ("2400-02-29", 13_574_563_200),
        ] {
            assert_eq!(at(text), Some(seconds * S), "{text}");
        }
        assert_eq!(at("1970-01-01T00:00:01.25Z"), Some(1_250_000_000));
        for wrong in [
            "1969-12-31T23:59:59Z",
            "2026-02-29",
            "2100-02-29",
            "2026-13-01",
            "2026-1-31",
            "2026-01-31T09:00:00",
            "2026-01-31T24:00:00Z",
            "2026-01-31T09:00:00+2:00",
            "2026-01-31T09:00:00.Z",
            "2026-01-31T09:00:00Z ",
            "2026-01-3\u{e4}",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
