//! Identities and rules as an operator may write them, and whoever comes: what is said of both is by the words of
//! `docs/ACCESS.md`, in a second and simpler form.
//!
//! Texts after zero bytes: the first byte of each says what it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermitmq::access::{
    ANONYMOUS, CertificateOptions, Credentials, Denied, NetworkOptions, Operation, Options,
    Principal, Resource, RuleOptions, Secret, Table, TokenOptions,
};
use hermitmq::model::{GroupName, TopicName};

/// Who comes, and what for.
struct Asked<'a> {
    token: Option<&'a [u8]>,
    certificate: Option<&'a str>,
    address: IpAddr,
    topic: TopicName,
    group: GroupName,
}

pub fn run(data: &[u8]) {
    let mut options = Options::default();
    let mut asked = Asked {
        token: None,
        certificate: None,
        address: IpAddr::from([10, 1, 2, 3]),
        topic: TopicName::parse("orders").unwrap(),
        group: GroupName::parse("billing").unwrap(),
    };
    for text in data.split(|byte| *byte == 0).take(32) {
        read(&mut options, &mut asked, text);
    }
    let (problems, _) = options.check(true, &[]);
    for problem in &problems {
        assert!(problem.key.starts_with("access.") && !problem.message.is_empty(), "{problem}");
        let shown = problem.to_string();
        for token in &options.token {
            let secret = token.hash.expose();
            // What stands in the place of a name is none.
            let is_name = options.token.iter().any(|other| other.principal.contains(secret));
            let is_secret = secret.len() >= 20 && !is_name;
            let is_about_it = problem.key.starts_with("access.token[");
            assert!(!(is_secret && is_about_it && shown.contains(secret)), "a secret is repeated");
        }
    }
    match Table::build(&options) {
        Err(error) => assert_eq!(error.problems, problems),
        Ok(table) => {
            assert!(problems.is_empty(), "{problems:?}");
            identify(&table, &options, &asked);
            for principal in principals(&options) {
                decide(&table, &options, &principal, &asked);
            }
        }
    }
}

/// One text: a part of the configuration, or of what is shown.
fn read<'a>(options: &mut Options, asked: &mut Asked<'a>, text: &'a [u8]) {
    let Some((kind, text)) = text.split_first() else { return };
    if *kind == b's' {
        asked.token = Some(text);
        return;
    }
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (first, second) = text.split_once('=').unwrap_or((text, ""));
    match kind {
        b't' => options.tokens = Secret::from(text),
        b'h' => {
            let token = TokenOptions { principal: first.to_owned(), hash: Secret::from(second) };
            options.token.push(token);
        }
        b'n' => {
            let network = NetworkOptions { cidr: first.to_owned(), principal: second.to_owned() };
            options.network.push(network);
        }
        b'c' => {
            let (subject, principal) = (first.to_owned(), second.to_owned());
            options.certificate.push(CertificateOptions { subject, principal });
        }
        b'r' => {
            let mut lists = text.split(';').map(|list| {
                list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
            });
            let mut next = || lists.next().unwrap_or_default();
            let (principals, operations, topics, groups) = (next(), next(), next(), next());
            options.rule.push(RuleOptions { principals, operations, topics, groups });
        }
        b'a' => asked.address = text.parse().unwrap_or(asked.address),
        b'S' => asked.certificate = Some(text),
        b'o' => asked.topic = TopicName::parse(text).unwrap_or(asked.topic.clone()),
        b'g' => asked.group = GroupName::parse(text).unwrap_or(asked.group.clone()),
        _ => {}
    }
}

fn principals(options: &Options) -> Vec<Principal> {
    let named = options.rule.iter().flat_map(|rule| &rule.principals).map(String::as_str);
    named.chain([ANONYMOUS, "somebody"]).filter_map(|name| Principal::parse(name).ok()).collect()
}

/// A token that is none is refused, whatever else is shown; else certificate, network, nobody.
fn identify(table: &Table, options: &Options, asked: &Asked<'_>) {
    let &Asked { token, certificate, address, .. } = asked;
    let shown = Credentials { token, certificate, address };
    // What is known at once is what is known.
    let now = table.authenticate_now(&shown).map(|found| found.map(|who| who.principal));
    let (tokens, rules) = table.counts();
    if token.is_some() && tokens + rules > 0 {
        // Nobody guesses the token of a hash: none that is made here is right.
        assert!(matches!(now, None | Some(Err(Denied::Token))), "{now:?}");
        return;
    }
    let now = now.expect("nothing is to be hashed");
    let expected = match certificate {
        Some(subject) => {
            let listed = options.certificate.iter().find(|one| one.subject == subject);
            Principal::parse(listed.map_or(subject, |one| &one.principal))
                .map_err(|_| Denied::Certificate)
        }
        None => Ok(by_network(options, address)),
    };
    assert_eq!(now, expected);
    if let Ok(identity) = table.authenticate(&shown) {
        assert!(table.stands(&identity, &Credentials { token: None, ..shown }));
        assert_eq!(identity.proven, certificate.is_some());
    }
}

/// The narrowest network with the address in it, bit by bit.
fn by_network(options: &Options, address: IpAddr) -> Principal {
    let address = address.to_canonical();
    let mut best: Option<(usize, &str)> = None;
    for network in &options.network {
        let (text, prefix) = match network.cidr.split_once('/') {
            Some((text, prefix)) => (text, Some(prefix.parse::<usize>().unwrap())),
            None => (network.cidr.as_str(), None),
        };
        let given: IpAddr = text.parse().unwrap();
        let mut prefix = prefix.unwrap_or_else(|| bits(given).len());
        let mut base = given;
        if given.is_ipv6() && given.to_canonical().is_ipv4() && prefix >= 96 {
            (base, prefix) = (given.to_canonical(), prefix - 96);
        }
        let (base, come) = (bits(base), bits(address));
        let is_in = base.len() == come.len() && base[..prefix] == come[..prefix];
        if is_in && best.is_none_or(|(narrowest, _)| prefix > narrowest) {
            best = Some((prefix, &network.principal));
        }
    }
    best.map_or_else(Principal::anonymous, |(_, name)| Principal::parse(name).unwrap())
}

fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address {
        IpAddr::V4(address) => Ipv4Addr::octets(&address).to_vec(),
        IpAddr::V6(address) => Ipv6Addr::octets(&address).to_vec(),
    };
    octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
}

fn decide(table: &Table, options: &Options, principal: &Principal, asked: &Asked<'_>) {
    let (topic, group) = (&asked.topic, &asked.group);
    for operation in Operation::ALL {
        for resource in [Resource::Topic(topic), Resource::Group(group), Resource::Broker] {
            let decision = table.decide(principal, *operation, &resource);
            let expected = options.rule.is_empty()
                || options.rule.iter().any(|rule| allows(rule, principal, *operation, &resource));
            assert_eq!(decision.is_allowed(), expected, "{principal} {operation} {resource}");
            assert_eq!(table.allow(principal, *operation, resource).is_ok(), expected);
            assert!(!expected || table.may_some(principal, *operation));
        }
    }
}

/// Whether a rule allows it, read as the documentation says it.
fn allows(rule: &RuleOptions, who: &Principal, operation: Operation, on: &Resource<'_>) -> bool {
    let about = rule.principals.iter().any(|name| match name.as_str() {
        "*" => who.as_str() != ANONYMOUS,
        name => name == who.as_str(),
    });
    let whole = operation == Operation::Admin && rule.topics.is_empty() && rule.groups.is_empty();
    let means = |patterns: &[String], name: &str| {
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start) && !name.starts_with("__"),
            None => pattern == name,
        })
    };
    let object = match (operation, on) {
        (Operation::Admin, Resource::Broker) => whole,
        (_, Resource::Broker) => false,
        (_, Resource::Topic(topic)) => whole || means(&rule.topics, topic.as_str()),
        (_, Resource::Group(group)) => whole || means(&rule.groups, group.as_str()),
    };
    about && rule.operations.iter().any(|name| name == operation.name()) && object
}
