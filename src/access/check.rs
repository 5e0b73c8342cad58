//! From the options to a table; everything that is wrong with them, each with its key.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use super::network::Network;
use super::options::{Options, RuleOptions};
use super::pattern::Pattern;
use super::principal::{ANONYMOUS, Principal};
use super::rule::{Operation, Rule, Who};
use super::table::Table;
use super::token::{TokenEntry, TokenHash};
use crate::model::{GroupName, TopicName, nearest, read_named_file};

/// Largest file of tokens, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One thing that is wrong. Shows no hash and no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The dotted key, with the number of the table: `access.rule[2].operations`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// The options make no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(problems))]
pub struct AccessError {
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

impl AccessError {
    pub(super) fn no_random(error: getrandom::Error) -> Self {
        let message = format!("the operating system gives no random bytes: {error}");
        Self { problems: vec![Problem { key: "access.token".to_owned(), message }] }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Options {
    /// Everything that is wrong, and what is only worth a warning: a file of tokens that cannot be read here may be readable for
    /// the broker. `certificates`: clients may show one, and so anybody may be the
    /// principal of its name. `others`: keys of other sections that name a principal or an address, and which.
    pub fn check(
        &self,
        certificates: bool,
        others: &[(String, &str)],
    ) -> (Vec<Problem>, Vec<Problem>) {
        let mut reader = Reader::default();
        let table = reader.read(self);
        for (key, name) in others {
            reader.principal(key, name);
        }
        let mut warnings = reader.unread;
        if !certificates && warnings.is_empty() {
            warnings = nobody(self, others, &table);
        }
        (reader.problems, warnings)
    }
}

fn read_file(file: &str) -> io::Result<String> {
    let bytes = read_named_file(Path::new(file), FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("is not UTF-8"))
}

/// Principals that nobody can be, of those in rules and those that `others` name. Not wrong: whoever takes a token away leaves its
/// rules.
fn nobody(options: &Options, others: &[(String, &str)], table: &Table) -> Vec<Problem> {
    let mut known: BTreeSet<&str> = BTreeSet::from([ANONYMOUS, "*"]);
    known.extend(table.tokens.values().map(|entry| entry.principal.as_str()));
    known.extend(table.networks.iter().map(|(_, principal)| principal.as_str()));
    known.extend(table.certificates.values().map(Principal::as_str));
    let of_rules = options.rule.iter().enumerate().flat_map(|(number, rule)| {
        let key = format!("access.rule[{number}].principals");
        rule.principals.iter().map(move |name| (key.clone(), name.as_str()))
    });
    let principals = others.iter().filter(|(_, name)| name.parse::<IpAddr>().is_err());
    let named = of_rules.chain(principals.cloned());
    let unknown = named.filter(|(_, name)| !known.contains(name));
    let warning = |(key, name): (String, &str)| {
        let hint = nearest(name, known.iter().copied())
            .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        let message =
            format!("nobody can be {name:?}: no token, network or certificate has it{hint}");
        Problem { key, message }
    };
    unknown.map(warning).collect()
}

/// Reads options and remembers what is wrong.
#[derive(Debug, Default)]
pub(super) struct Reader {
    problems: Vec<Problem>,
    /// Files that could not be read.
    unread: Vec<Problem>,
}

impl Reader {
    /// What is wrong for whoever needs all of it.
    pub(super) fn problems(self) -> Option<Vec<Problem>> {
        let problems: Vec<_> = self.unread.into_iter().chain(self.problems).collect();
        Some(problems).filter(|problems| !problems.is_empty())
    }

    fn wrong(&mut self, key: impl Into<String>, message: impl fmt::Display) {
        self.problems.push(Problem { key: key.into(), message: message.to_string() });
    }

    pub(super) fn read(&mut self, options: &Options) -> Table {
        let mut table = Table::default();
        self.tokens(options, &mut table);
        for (number, network) in options.network.iter().enumerate() {
            let key = format!("access.network[{number}]");
            let cidr = network.cidr.parse::<Network>();
            let principal = self.principal(&format!("{key}.principal"), &network.principal);
            match cidr {
                Err(error) => self.wrong(format!("{key}.cidr"), error),
                Ok(cidr) if table.networks.iter().any(|(known, _)| *known == cidr) => {
                    self.wrong(format!("{key}.cidr"), format_args!("{cidr} is listed already"));
                }
                Ok(cidr) => table.networks.extend(principal.map(|principal| (cidr, principal))),
            }
        }
        for (number, certificate) in options.certificate.iter().enumerate() {
            let key = format!("access.certificate[{number}]");
            let principal = self.principal(&format!("{key}.principal"), &certificate.principal);
            let Some(principal) = principal else { continue };
            let subject = certificate.subject.clone();
            if subject.is_empty() {
                self.wrong(format!("{key}.subject"), "must not be empty");
            } else if table.certificates.insert(subject, principal).is_some() {
                let message = format_args!("{:?} is listed already", certificate.subject);
                self.wrong(format!("{key}.subject"), message);
            }
        }
        table.rules =
            options.rule.iter().enumerate().map(|(number, rule)| self.rule(number, rule)).collect();
        table
    }

    fn tokens(&mut self, options: &Options, table: &mut Table) {
        for (number, token) in options.token.iter().enumerate() {
            let key = format!("access.token[{number}]");
            let keys = (format!("{key}.principal"), format!("{key}.hash"));
            self.token(&keys.0, &keys.1, &token.principal, token.hash.expose(), table);
        }
        let listed = options.tokens.expose().split(['\n', ';']);
        self.token_lines(listed, table, |number| format!("access.tokens (entry {number})"));
        if options.tokens_file.is_empty() {
            return;
        }
        let file = &options.tokens_file;
        match read_file(file) {
            Ok(text) => self.token_lines(text.lines(), table, |number| {
                format!("access.tokens_file ({file}, line {number})")
            }),
            Err(error) => self.unread.push(Problem {
                key: "access.tokens_file".to_owned(),
                message: format!("cannot read {file}: {error}"),
            }),
        }
    }

    /// Entries `PRINCIPAL:HASH`; blank ones and comments are passed over.
    fn token_lines<'a>(
        &mut self,
        lines: impl Iterator<Item = &'a str>,
        table: &mut Table,
        key: impl Fn(usize) -> String,
    ) {
        for (number, line) in (1..).zip(lines.map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = key(number);
            // A hash begins with a dollar; a principal may have colons.
            match line.rfind(":$") {
                Some(at) => {
                    let (principal, hash) = (line[..at].trim_end(), &line[at + 1..]);
                    self.token(&key, &key, principal, hash, table);
                }
                None => self.wrong(key, "must be PRINCIPAL:HASH"),
            }
        }
    }

    fn token(
        &mut self,
        principal_key: &str,
        hash_key: &str,
        principal: &str,
        hash: &str,
        table: &mut Table,
    ) {
        let principal = self.principal(principal_key, principal);
        if principal.as_ref().is_some_and(|principal| principal.as_str() == ANONYMOUS) {
            self.wrong(principal_key, "anonymous is who has no token");
        }
        match (TokenHash::parse(hash), principal) {
            (Err(error), _) => self.wrong(hash_key, error),
            (Ok(hash), Some(principal)) => {
                let id = hash.id();
                let entry = Arc::new(TokenEntry::new(principal, hash));
                if table.tokens.insert(id, entry).is_some() {
                    self.wrong(hash_key, format_args!("the token {id} is listed already"));
                }
            }
            (Ok(_), None) => {}
        }
    }

    fn principal(&mut self, key: &str, name: &str) -> Option<Principal> {
        let principal = Principal::parse(name);
        principal.map_err(|error| self.wrong(key, format_args!("{error}, not {name:?}"))).ok()
    }

    fn rule(&mut self, number: usize, rule: &RuleOptions) -> Rule {
        let key = |field: &str| format!("access.rule[{number}].{field}");
        let mut read = Rule {
            principals: Vec::new(),
            operations: Vec::new(),
            topics: self
                .patterns(&key("topics"), &rule.topics, |name| TopicName::parse(name).is_ok()),
            groups: self
                .patterns(&key("groups"), &rule.groups, |name| GroupName::parse(name).is_ok()),
        };
        for name in &rule.principals {
            if name == "*" {
                read.principals.push(Who::Known);
            } else {
                read.principals.extend(self.principal(&key("principals"), name).map(Who::This));
            }
        }
        for name in &rule.operations {
            match name.parse::<Operation>() {
                Ok(operation) => read.operations.push(operation),
                Err(error) => {
                    let names = Operation::ALL.iter().map(|operation| operation.name());
                    let hint = nearest(name, names)
                        .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                    self.wrong(key("operations"), format_args!("{error}, not {name:?}{hint}"));
                }
            }
        }
        for (field, list) in [("principals", &rule.principals), ("operations", &rule.operations)] {
            if list.is_empty() {
                self.wrong(key(field), "must not be empty: the rule would allow nothing");
            }
        }
        self.objects(number, &read);
        read
    }

    /// An operation on nothing is a rule that somebody did not finish.
    fn objects(&mut self, number: usize, rule: &Rule) {
        let key = |field: &str| format!("access.rule[{number}].{field}");
        let topics = [Operation::Produce, Operation::Consume];
        if rule.topics.is_empty()
            && let Some(operation) = topics.into_iter().find(|operation| rule.has(*operation))
        {
            self.wrong(key("topics"), format_args!("is missing: {operation} is allowed on topics"));
        }
        if rule.groups.is_empty() && rule.has(Operation::Commit) {
            self.wrong(key("groups"), "is missing: commit is allowed for groups");
        }
    }

    fn patterns(
        &mut self,
        key: &str,
        patterns: &[String],
        legal: fn(&str) -> bool,
    ) -> Vec<Pattern> {
        let mut read = Vec::new();
        for text in patterns {
            match Pattern::parse(text, legal) {
                Ok(pattern) => read.push(pattern),
                Err(error) => self.wrong(key, format_args!("{error}, not {text:?}")),
            }
        }
        read
    }
}
