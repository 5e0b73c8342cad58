//! SIGHUP: the configuration is read again, and what can change while the broker runs does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Reread, Server, adapters, warn_if_open};
use crate::access::Table;
use crate::broker::{BrokerError, Reconfiguration};
use crate::config::{Config, Loaded};
use crate::telemetry::Level;
use crate::tls::LoadError;

/// Takes one setting over from another configuration.
type Take = fn(&mut Config, &Config);

/// The section of identities and rules: what is in it changes as a whole.
const ACCESS: &str = "access";

/// A setting by its key, or a section that changes as a whole.
macro_rules! live {
    ($section:ident $(.$key:ident)?) => {
        (concat!(stringify!($section) $(, ".", stringify!($key))?), |to, from| {
            to.$section$(.$key)?.clone_from(&from.$section$(.$key)?);
        })
    };
}

/// The settings that change while the broker runs.
const LIVE: &[(&str, Take)] = &[
    live!(access),
    live!(offsets.max_groups),
    live!(offsets.retention_hours),
    live!(security.idle_timeout_sec),
    live!(security.keepalive_sec),
    live!(security.max_connections),
    live!(security.max_connections_per_address),
    live!(security.max_key_kb),
    live!(security.max_payload_mb),
    live!(security.max_record_count),
    live!(security.quota),
    live!(security.user_timeout_sec),
    live!(security.write_timeout_sec),
    live!(server.drain_delay_ms),
    live!(server.handshake_timeout_sec),
    live!(server.shutdown_timeout_sec),
    live!(storage.durability),
    live!(storage.max_segment_mb),
    live!(storage.max_total_mb),
    live!(storage.min_free_mb),
    live!(storage.retention_hours),
    live!(storage.retention_mb),
    live!(telemetry.log_level),
    live!(tls.cert_file),
    live!(tls.client_auth),
    live!(tls.client_ca_file),
    live!(tls.key_file),
    live!(topic),
    live!(topics.auto_create),
    live!(topics.default_partitions),
    live!(topics.max_partitions),
    live!(topics.max_topics),
];

/// What two configurations differ in.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Keys that change while the broker runs.
    live: Vec<String>,
    /// Keys that do not.
    restart: Vec<String>,
}

/// Reads the configuration again and takes over what can change; `loaded` is then what is in effect. What is wrong with it
/// is logged, and changes nothing.
pub(super) fn reload(server: &mut Server, loaded: &mut Loaded, level: &Level, reread: Reread<'_>) {
    tracing::debug!("reading the configuration again");
    let kept = "the configuration stays as it was";
    let new = match reread(loaded.file.clone()) {
        Ok(new) => new,
        Err(error) => {
            for problem in error.problems() {
                tracing::error!(%problem, "{kept}");
            }
            return;
        }
    };
    let (Some(before), Some(after)) = (values(loaded), values(&new)) else { return };
    let mut difference = Difference::between(&before, &after);
    // Not all of it is shown.
    let differs = new.config.access != loaded.config.access;
    if differs && !difference.live.iter().any(|key| key == ACCESS) {
        difference.live.insert(0, ACCESS.to_owned());
    }
    let next = merged(loaded, &new, &difference);
    let table = match access_table(server, loaded, &next) {
        Ok(table) => table,
        Err(error) => {
            tracing::error!(%error, "{kept}");
            return;
        }
    };
    if let Err(error) = apply(server, loaded, &next, level) {
        tracing::error!(%error, "{kept}");
        return;
    }
    if differs || !next.config.access.tokens_file.is_empty() {
        replace_access(server, table);
    }
    let warnings: Vec<_> =
        new.warnings.iter().filter(|warning| !loaded.warnings.contains(warning)).cloned().collect();
    *loaded = Loaded { warnings: new.warnings, ..next };
    if let Ok(settings) = loaded.settings() {
        server.state.set_settings(settings.into_iter().map(adapters::setting).collect());
    }
    // Once it is so.
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if !difference.restart.is_empty() {
        let keys = difference.restart.join(", ");
        tracing::warn!(keys, "these settings have changed and need a restart");
    }
    tracing::info!(changed = difference.live.join(", "), "the configuration was read again");
}

/// The identities and rules of another configuration, if it can have them.
fn access_table(server: &Server, old: &Loaded, next: &Loaded) -> Result<Table, String> {
    // The listener stays where it is, whatever is configured now.
    let public = server.admin_addr().is_some_and(|addr| !addr.ip().is_loopback());
    if public && !old.config.admin.insecure && !next.config.guards_admin() {
        return Err("others can reach the admin listener, and it would ask nobody who they are any more: it needs \
             rules, and tokens, networks or certificates (section access)"
            .to_owned());
    }
    Table::build(&next.config.access).map_err(|error| error.to_string().replace('\n', "; "))
}

/// Puts other identities and rules in effect, and ends connections that they would not let in.
fn replace_access(server: &Server, table: Table) {
    let (tokens, rules) = table.counts();
    server.access.replace(table);
    server.plane.review();
    tracing::info!(target: "hermitmq::audit", tokens, rules, "identities and rules were read again");
    warn_if_open(&server.access, server.addr());
}

/// Key to value; all topics together are one, and so is all of access.
fn values(loaded: &Loaded) -> Option<BTreeMap<String, String>> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for setting in loaded.settings().ok()? {
        let (key, value) = match setting.key.strip_prefix("topic[") {
            Some(rest) => ("topic".to_owned(), format!("{rest} = {}\n", setting.value)),
            None if setting.key.starts_with("access.") => {
                (ACCESS.to_owned(), format!("{} = {}\n", setting.key, setting.value))
            }
            None => (setting.key, setting.value),
        };
        values.entry(key).or_default().push_str(&value);
    }
    Some(values)
}

impl Difference {
    fn between(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Self {
        let mut difference = Self::default();
        let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in keys.into_iter().filter(|key| before.get(*key) != after.get(*key)) {
            let live = LIVE.iter().any(|(live, _)| live == key);
            let list = if live { &mut difference.live } else { &mut difference.restart };
            list.push(key.clone());
        }
        difference
    }
}

/// What is in effect afterwards: the old configuration with what changes of the new one.
fn merged(old: &Loaded, new: &Loaded, difference: &Difference) -> Loaded {
    let mut merged = old.clone();
    for (key, take) in LIVE.iter().filter(|(key, _)| difference.live.iter().any(|k| k == key)) {
        take(&mut merged.config, &new.config);
        let of_key = |layer: &String| match *key {
            "topic" => layer.starts_with("topic[") || layer == key,
            ACCESS => layer.starts_with("access."),
            key => layer == key,
        };
        merged.sources.retain(|layer, _| !of_key(layer));
        let layers = new.sources.iter().filter(|(layer, _)| of_key(layer));
        merged.sources.extend(layers.map(|(key, layer)| (key.clone(), layer.clone())));
    }
    merged.file.clone_from(&new.file);
    merged
}

/// Why another configuration is not in effect.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error(transparent)]
    Tls(#[from] LoadError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Puts another configuration in effect. After an error nothing has changed.
fn apply(
    server: &mut Server,
    old: &Loaded,
    next: &Loaded,
    level: &Level,
) -> Result<(), ApplyError> {
    let config = &next.config;
    // Whether or not their names have changed.
    let renewed = server.tls.as_ref().map(|tls| tls.renew(&config.tls)).transpose()?;
    let failed = server.broker.reconfigure(&Reconfiguration {
        options: config.topics.clone(),
        offsets: config.offsets.clone(),
        max_payload_mb: config.security.max_payload_mb,
        declared: config.topic.clone(),
        storage: config.storage.clone(),
    })?;
    if let (Some(tls), Some(renewed)) = (&server.tls, renewed) {
        tls.install(renewed);
    }
    for error in failed {
        tracing::error!(%error, "a topic is not kept as the configuration says");
    }
    server.plane.reconfigure(&config.server, &config.security);
    server.shutdown_timeout = Duration::from_secs(config.server.shutdown_timeout_sec.into());
    let directives = &config.telemetry.log_level;
    // What was set while it ran stays unless the configuration itself has changed.
    if *directives != old.config.telemetry.log_level
        && let Err(error) = level.set(directives)
    {
        tracing::error!(%error, "the log level stays as it was");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn every_live_key_is_one_and_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        // These have no value by default.
        std::fs::write(&file, "tls = { cert_file = 'a', key_file = 'b', client_ca_file = 'c' }")
            .unwrap();
        let sources = Sources { file: Some(file), ..Sources::default() };
        let loaded = Config::load(&sources).unwrap();
        let keys = values(&loaded).unwrap();
        for (key, _) in LIVE {
            assert!(*key == "topic" || keys.contains_key(*key), "{key}");
        }
    }

    #[test]
    fn only_what_has_changed_and_can_change_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Config::load(&Sources { file: Some(file.clone()), ..Sources::default() }).unwrap()
        };
        let old = load("server.port = 1\nstorage.retention_hours = 5");
        let new = load("server.port = 2\nstorage.retention_mb = 7\n[[topic]]\nname = 'a'");
        let difference = Difference::between(&values(&old).unwrap(), &values(&new).unwrap());
        assert_eq!(difference.live, ["storage.retention_hours", "storage.retention_mb", "topic"]);
        assert_eq!(difference.restart, ["server.port"]);
        let merged = merged(&old, &new, &difference);
        assert_eq!((merged.config.server.port, merged.config.storage.retention_mb), (1, 7));
        assert_eq!(merged.config.storage.retention_hours, 168);
        assert_eq!(merged.config.topic, new.config.topic);
        let show = merged.show().unwrap();
        assert!(show.contains("storage.retention_hours = 168  # default\n"), "{show}");
        assert!(show.contains("topic[0].name = \"a\"  # "), "{show}");
        assert_eq!(
            Difference::between(&values(&old).unwrap(), &values(&old).unwrap()),
            Difference::default()
        );
    }
}
