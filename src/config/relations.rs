//! Checks between keys: each may be right, and the broker not start all the same.

use std::net::SocketAddr;

use figment::value::{Dict, Value};

use super::Problem;
use super::access;
use super::check::Checked;
use super::layer::DEFAULT;
use super::topics::TOPIC;

impl Checked {
    /// Adds what is wrong between two keys to the problems.
    pub(super) fn relations(&mut self) {
        self.default_partitions();
        self.admin_address();
        self.quotas();
        self.declared_topics();
        self.tls_files();
    }

    fn default_partitions(&mut self) {
        const LESS: &str = "topics.default_partitions";
        const MORE: &str = "topics.max_partitions";
        let (Some(less), Some(more)) = (self.number(LESS), self.number(MORE)) else { return };
        if less > more {
            let message = format!("{MORE} ({more}) must be at least {LESS} ({less})");
            self.blame(&[MORE, LESS], message);
        }
    }

    /// Names are resolved by a start alone; an address says by itself whether it is a public one.
    fn admin_address(&mut self) {
        const LISTEN: &str = "admin.listen";
        const INSECURE: &str = "admin.insecure";
        let insecure = self.value(INSECURE).and_then(Value::to_bool).unwrap_or(false);
        let listen = self.value(LISTEN).and_then(Value::as_str).unwrap_or_default();
        let public = listen.parse::<SocketAddr>().is_ok_and(|addr| !addr.ip().is_loopback());
        if public && !insecure && !access::guards(&self.values) {
            let message = format!(
                "{listen} can be reached by others, and the listener asks nobody who they are: add tokens and rules in \
                 section access, or, if the network keeps others out, set {INSECURE} = true"
            );
            self.blame(&[LISTEN], message);
        }
    }

    /// What TLS needs. Whether the files are good is seen by a start.
    fn tls_files(&mut self) {
        const MODE: &str = "tls.mode";
        const ADMIN: &str = "admin.tls";
        const CLIENT_AUTH: &str = "tls.client_auth";
        let is_on = |word: Option<&str>| word.is_some_and(|word| word != "off");
        let clients = is_on(self.value(MODE).and_then(Value::as_str));
        let admin = self.value(ADMIN).and_then(Value::to_bool).unwrap_or(false);
        let auth = is_on(self.value(CLIENT_AUTH).and_then(Value::as_str));
        let for_clients = (clients, MODE);
        let wanted = if clients { for_clients } else { (admin, ADMIN) };
        for (file, (needed, by)) in [
            ("tls.cert_file", wanted),
            ("tls.key_file", wanted),
            ("tls.client_ca_file", (auth, CLIENT_AUTH)),
        ] {
            if needed && self.value(file).and_then(Value::as_str).is_none() {
                self.blame(&[by], format!("needs {file}, which is not set"));
            }
        }
    }

    fn quotas(&mut self) {
        const QUOTA: &str = "security.quota";
        let quotas = self.value(QUOTA).and_then(Value::as_array).unwrap_or_default();
        let name = |quota: &Value| {
            let name = quota.as_dict().and_then(|quota| quota.get("principal"));
            name.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut seen = std::collections::BTreeSet::new();
        let again: Vec<_> =
            quotas.iter().map(name).filter(|name| !seen.insert(name.clone())).collect();
        if let Some(name) = again.first() {
            self.blame(&[QUOTA], format!("the principal {name:?} has more than one quota"));
        }
    }

    fn declared_topics(&mut self) {
        const TOPICS: &str = "topics.max_topics";
        const PARTITIONS: &str = "topics.max_partitions";
        let declared = self.values.get(TOPIC).and_then(Value::as_array).unwrap_or_default();
        let default = self.number("topics.default_partitions").unwrap_or(1);
        let of = |topic: &Value| {
            topic.as_dict().and_then(|topic| topic.get("partitions")).and_then(number)
        };
        let partitions: u128 = declared.iter().map(|topic| of(topic).unwrap_or(default)).sum();
        let topics = declared.len() as u128;
        for (key, wanted, what) in
            [(TOPICS, topics, "topics"), (PARTITIONS, partitions, "partitions")]
        {
            if let Some(max) = self.number(key).filter(|max| *max < wanted) {
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

    fn number(&self, key: &str) -> Option<u128> {
        self.value(key).and_then(number)
    }

    fn value(&self, key: &str) -> Option<&Value> {
        let (section, name) = key.split_once('.')?;
        self.values
            .get(section)
            .and_then(Value::as_dict)
            .and_then(|section: &Dict| section.get(name))
    }
}

fn number(value: &Value) -> Option<u128> {
    value.to_num()?.to_u128_lossy()
}
