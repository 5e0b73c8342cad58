//! The text format of Prometheus, version 0.0.4: what every scraper reads.

use std::fmt::{Display, Write as _};

use crate::metrics::Distribution;

/// Media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How the values of a family behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They only grow, until the process ends.
    Counter,
    /// They go up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Metrics as text.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// Name of the family that is being written.
    family: &'static str,
}

impl Text {
    /// Begins a family: its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> &mut Self {
        self.family = name;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.label());
        self
    }

    /// A family of one counter without labels.
    pub(super) fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    /// A family of one gauge without labels.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    /// A family of one histogram without labels.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str, durations: &Distribution) {
        self.family(name, Kind::Histogram, help);
        for (bound, count) in &durations.buckets {
            self.line("_bucket", &[("le", &bound.to_string())], count);
        }
        self.line("_bucket", &[("le", "+Inf")], durations.count);
        self.line("_sum", &[], durations.sum);
        self.line("_count", &[], durations.count);
    }

    /// A value of the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.family);
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"");
            self.escaped(value);
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    fn escaped(&mut self, value: &str) {
        for c in value.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            }
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_the_format_has_them() {
        let mut text = Text::default();
        text.counter("a_total", "All.", 3);
        text.family("b", Kind::Gauge, "Some.").sample(&[("x", "a\"\\\n"), ("y", "")], -1.5);
        let durations = Distribution { buckets: vec![(0.001, 1), (2.5, 2)], count: 3, sum: 12.0 };
        text.histogram("c_seconds", "Long.", &durations);
        let expected = "# HELP a_total All.\n# TYPE a_total counter\na_total 3\n\
            # HELP b Some.\n# TYPE b gauge\nb{x=\"a\\\"\\\\\\n\",y=\"\"} -1.5\n\
            # HELP c_seconds Long.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{le=\"0.001\"} 1\nc_seconds_bucket{le=\"2.5\"} 2\nc_seconds_bucket{le=\"+Inf\"} 3\n\
            c_seconds_sum 12\nc_seconds_count 3\n";
        assert_eq!(text.finish(), expected);
    }
}
