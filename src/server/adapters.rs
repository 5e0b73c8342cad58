//! What the admin listener declares and other layers have, brought together.

use std::time::Duration;

use crate::{admin, config, net, telemetry};

/// The reactors, as the admin listener asks them.
#[derive(Debug)]
pub(super) struct Pulse(pub(super) net::Pulse);

impl admin::Pulse for Pulse {
    fn ask(&self) {
        self.0.ask();
    }

    fn silence(&self) -> Option<(usize, Duration)> {
        self.0.silence()
    }
}

/// The filter of the log, as the admin listener changes it.
#[derive(Debug)]
pub(super) struct LogLevel(pub(super) telemetry::Level);

impl admin::LogLevel for LogLevel {
    fn get(&self) -> String {
        self.0.get()
    }

    fn set(&self, directives: &str) -> Result<(), String> {
        self.0.set(directives).map_err(|error| error.to_string())
    }
}

pub(super) fn setting(setting: config::Setting) -> admin::Setting {
    let config::Setting { key, value, layer } = setting;
    admin::Setting { key, value, layer }
}
