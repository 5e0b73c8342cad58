//! The lists of section `access`: tables in a file, each checked as a section is. What their values mean is for
//! [`crate::access`] to say; here only their form is.

use figment::Figment;
use figment::value::{Dict, Value};

use super::check::{Checked, QUOTA};
use super::layer::DEFAULT;
use super::tables::{self, Form};
use super::{Config, Problem};

/// The section.
pub(super) const ACCESS: &str = "access";

/// The lists, and what is in their tables.
const LISTS: &[(&str, &[(&str, Form)])] = &[
    ("certificate", &[("principal", Form::Text), ("subject", Form::Text)]),
    ("network", &[("cidr", Form::Text), ("principal", Form::Text)]),
    (
        "rule",
        &[
            ("groups", Form::OptionalTexts),
            ("operations", Form::Texts),
            ("principals", Form::Texts),
            ("topics", Form::OptionalTexts),
        ],
    ),
    ("token", &[("hash", Form::Secret), ("principal", Form::Text)]),
];

/// The keys of the lists: `access.rule` and so on.
pub(super) fn list_keys() -> impl Iterator<Item = String> {
    LISTS.iter().map(|(list, _)| format!("{ACCESS}.{list}"))
}

/// Takes the lists out of the merged values and checks them; what may be used of them stands in `checked`.
pub(super) fn check(figment: &Figment, merged: &mut Dict, checked: &mut Checked) {
    let Some(Value::Dict(_, section)) = merged.get_mut(ACCESS) else { return };
    let mut usable = Dict::new();
    for (list, fields) in LISTS {
        let Some(value) = section.remove(*list) else { continue };
        let key = format!("{ACCESS}.{list}");
        let tables = tables::check(figment, &key, &value, fields, checked);
        usable.extend(tables.map(|tables| ((*list).to_owned(), tables)));
    }
    if let Some(Value::Dict(_, section)) = checked.values.get_mut(ACCESS) {
        section.extend(usable);
    }
}

/// Adds what the section itself finds wrong with a configuration whose form is right, and with whom quotas name.
pub(super) fn judge(config: &Config, checked: &mut Checked) {
    let quotas = config.security.quota.iter().enumerate();
    let quotas: Vec<_> = quotas
        .map(|(number, quota)| (format!("{QUOTA}[{number}].principal"), quota.principal.as_str()))
        .collect();
    let (problems, warnings) = config.access.check(config.takes_certificates(), &quotas);
    let layer = |key: &str| {
        let exact = checked.layers.get(key);
        // Behind the key may stand which line it is.
        let whole = || checked.layers.get(key.split(' ').next().unwrap_or(key));
        exact.or_else(whole).map_or(DEFAULT, String::as_str).to_owned()
    };
    for warning in warnings {
        let (key, message) = (&warning.key, &warning.message);
        checked.warnings.push(format!("{key} (set by {}): {message}", layer(key)));
    }
    let problems =
        problems.into_iter().map(|it| Problem::key(&it.key, &layer(&it.key), it.message));
    checked.problems.extend(problems.collect::<Vec<_>>());
}

impl Config {
    /// Whether the admin listener asks who somebody is: there are rules, and somebody can be told from others.
    pub fn guards_admin(&self) -> bool {
        let access = &self.access;
        let known = !access.tokens.expose().is_empty()
            || !access.tokens_file.is_empty()
            || !access.token.is_empty()
            || !access.network.is_empty()
            || self.takes_certificates();
        known && !access.rule.is_empty()
    }

    /// Whether anybody may be the principal of a certificate's name.
    fn takes_certificates(&self) -> bool {
        self.tls.client_ca_file.is_some()
    }
}

/// The values of the lists with their keys, as `hermitmq config show` lists them.
pub(super) fn leaves(key: &str, list: &Value) -> Vec<(String, Value)> {
    let items = list.as_array().unwrap_or_default();
    let of_item = |(number, item): (usize, &Value)| {
        let dict = item.as_dict().cloned().unwrap_or_default();
        dict.into_iter().map(move |(name, value)| (format!("{key}[{number}].{name}"), value))
    };
    items.iter().enumerate().flat_map(of_item).collect()
}
