//! What the admin listener declares and other layers have, brought together.

use std::time::Duration;

use crate::metrics::ConnectionRole;
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

/// The connections, as the admin listener lists and closes them.
#[derive(Debug)]
pub(super) struct Connections(pub(super) net::Connections);

impl admin::Connections for Connections {
    fn list(&self, max: usize) -> (Vec<admin::Connection>, bool) {
        let net::Listed { connections, complete } = self.0.list(max);
        (connections.into_iter().map(connection).collect(), complete)
    }

    fn close(&self, id: &str) -> Result<(), admin::CloseError> {
        let wrong = |error: net::InvalidConnectionId| admin::CloseError::Name(error.to_string());
        match self.0.close(id.parse().map_err(wrong)?) {
            Some(true) => Ok(()),
            Some(false) => Err(admin::CloseError::Unknown),
            None => Err(admin::CloseError::Busy),
        }
    }
}

fn connection(info: net::ConnectionInfo) -> admin::Connection {
    let partition = info.partition.as_ref();
    admin::Connection {
        id: info.id.to_string(),
        peer: info.peer.to_string(),
        age_seconds: info.age.as_secs(),
        role: info.role.map(ConnectionRole::label),
        topic: partition.map(|partition| partition.topic.to_string()),
        partition: partition.map(|partition| partition.partition),
        group: info.group.map(|group| group.to_string()),
        principal: info.principal,
        client_name: info.client_name,
        client_software: info.client_software,
        tls: info.tls,
        certificate: info.certificate.map(|certificate| certificate.to_string()),
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
