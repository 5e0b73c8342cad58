//! A bar on a terminal's standard error; nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Between two drawings.
const TICK: Duration = Duration::from_millis(200);

/// How far something is. Adding to it is an atomic add; it is drawn by a thread of its own.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Bytes that move, towards a total if it is known.
    pub(super) fn bytes(what: &'static str, total: Option<u64>) -> Self {
        match total {
            Some(total) => {
                Self::new(ProgressBar::new(total), what, "{msg} {wide_bar} {decimal_bytes_per_sec}")
            }
            None => Self::new(ProgressBar::no_length(), what, "{msg} {decimal_bytes_per_sec}"),
        }
    }

    /// Steps towards a total.
    pub(super) fn steps(what: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), what, "{msg} {wide_bar} {pos}/{len}")
    }

    /// Records that move.
    pub(super) fn records(what: &'static str) -> Self {
        Self::new(ProgressBar::no_length(), what, "{msg} {human_pos} records, {per_sec}")
    }

    /// Nothing to be seen.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    fn new(bar: ProgressBar, what: &'static str, template: &str) -> Self {
        // The templates are the constants above; a wrong one would only look plain.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(super) fn add(&self, amount: u64) {
        self.0.inc(amount);
    }

    /// What is being done now.
    pub(super) fn say(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Progress {
    /// Takes it off the terminal.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
