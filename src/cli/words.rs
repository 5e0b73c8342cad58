//! Numbers as people say them.

use std::fmt::Display;
use std::time::Duration;

/// `1 record`, `2 records`.
pub(super) fn count<N: Copy + Display + PartialEq + From<u8>>(
    number: N,
    one: &str,
    many: &str,
) -> String {
    if number == N::from(1) { format!("1 {one}") } else { format!("{number} {many}") }
}

/// A number in three or four characters, by thousands: `999`, `1.2k`, `35M`.
pub(super) fn short(number: f64) -> String {
    let mut value = number.max(0.0);
    let mut units = ["", "k", "M", "G", "T", "P"].into_iter().peekable();
    loop {
        let unit = units.next().unwrap_or_default();
        // What would be rounded up to 1000 belongs to the next unit.
        if value < 999.5 || units.peek().is_none() {
            let decimals = usize::from(!unit.is_empty() && value < 9.95);
            return format!("{value:.decimals$}{unit}");
        }
        value /= 1000.0;
    }
}

/// A duration by its two largest units: `3d4h`, `5m03s`, `7s`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many() {
        assert_eq!(count(1_u64, "record", "records"), "1 record");
        assert_eq!(count(0_usize, "record", "records"), "0 records");
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (7.4, "7"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (1_234.0, "1.2k"),
            (12_345.0, "12k"),
            (999_900.0, "1.0M"),
            (2.5e9, "2.5G"),
            (3e20, "300000P"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn durations() {
        for (seconds, text) in [(7, "7s"), (303, "5m03s"), (7_260, "2h01m"), (273_600, "3d04h")] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
