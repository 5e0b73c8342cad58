//! Checks between keys: each may be right, and the broker not start all the same.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::check::{Checked, QUOTA};
use super::layer::DEFAULT;
use super::{Config, Problem};

impl Checked {
    /// Adds what is wrong between two keys to the problems.
    pub(super) fn relations(&mut self, config: &Config) {
        self.default_partitions(config);
        self.admin_address(config);
        self.quotas(config);
        self.declared_topics(config);
        self.tls_files(config);
    }

    fn default_partitions(&mut self, config: &Config) {
        const LESS: &str = "topics.default_partitions";
        const MORE: &str = "topics.max_partitions";
        let (less, more) = (config.topics.default_partitions, config.topics.max_partitions);
        if less > more {
            let message = format!("{MORE} ({more}) must be at least {LESS} ({less})");
            self.blame(&[MORE, LESS], message);
        }
    }

    /// Names are resolved by a start alone; an address says by itself whether it is a public one.
    fn admin_address(&mut self, config: &Config) {
        const LISTEN: &str = "admin.listen";
        const INSECURE: &str = "admin.insecure";
        let listen = &config.admin.listen;
        let public = listen.parse::<SocketAddr>().is_ok_and(|addr| !addr.ip().is_loopback());
        if public && !config.admin.insecure && !config.guards_admin() {
            let message = format!(
                "{listen} can be reached by others, and the listener asks nobody who they are: add tokens and rules in \
                 section access, or, if the network keeps others out, set {INSECURE} = true"
            );
            self.blame(&[LISTEN], message);
        }
    }

    /// What TLS needs. Whether the files are good is seen where they are read.
    fn tls_files(&mut self, config: &Config) {
        let tls = &config.tls;
        let for_clients = (tls.mode.is_on(), "tls.mode");
        let wanted = if for_clients.0 { for_clients } else { (config.admin.tls, "admin.tls") };
        for (key, file, (needed, by)) in [
            ("tls.cert_file", &tls.cert_file, wanted),
            ("tls.key_file", &tls.key_file, wanted),
            (
                "tls.client_ca_file",
                &tls.client_ca_file,
                (tls.client_auth.is_on(), "tls.client_auth"),
            ),
        ] {
            if needed && file.is_none() {
                self.blame(&[by], format!("needs {key}, which is not set"));
            }
        }
    }

    fn quotas(&mut self, config: &Config) {
        let mut seen = BTreeSet::new();
        let mut names = config.security.quota.iter().map(|quota| quota.principal.as_str());
        if let Some(name) = names.find(|name| !seen.insert(*name)) {
            self.blame(&[QUOTA], format!("the principal {name:?} has more than one quota"));
        }
    }

    fn declared_topics(&mut self, config: &Config) {
        let topics = &config.topics;
        let of =
            |partitions: Option<u32>| u64::from(partitions.unwrap_or(topics.default_partitions));
        let partitions = config.topic.iter().map(|topic| of(topic.partitions)).sum();
        for (key, max, wanted, what) in [
            ("topics.max_topics", topics.max_topics, config.topic.len() as u64, "topics"),
            ("topics.max_partitions", topics.max_partitions, partitions, "partitions"),
        ] {
            if u64::from(max) < wanted {
                let message =
                    format!("{key} ({max}) must be at least the {wanted} {what} that are declared");
                self.blame(&[key], message);
            }
        }
    }

    /// Adds a problem of several keys, the first of which somebody has set gets the blame.
    fn blame(&mut self, keys: &[&str], message: String) {
        let layer_of = |key: &&str| self.layers.get(*key).filter(|layer| *layer != DEFAULT);
        let set = keys.iter().find_map(|key| Some((*key, layer_of(key)?.clone())));
        let first = || (keys.first().copied().unwrap_or_default(), DEFAULT.to_owned());
        let (key, layer) = set.unwrap_or_else(first);
        self.problems.push(Problem::key(key, &layer, message));
    }
}
