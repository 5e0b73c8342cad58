//! Tokens, networks, patterns, rules, and everything that can be wrong with them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::network::Network;
use super::options::{CertificateOptions, NetworkOptions, RuleOptions, TokenOptions};
use super::pattern::Pattern;
use super::token::{TokenHash, TokenId, same};
use super::*;
use crate::model::{GroupName, TopicName};

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn rule(principals: &[&str], operations: &[&str], topics: &[&str], groups: &[&str]) -> RuleOptions {
    let [principals, operations, topics, groups] =
        [principals, operations, topics, groups].map(strings);
    RuleOptions { principals, operations, topics, groups }
}

fn token_of(principal: &str) -> (String, TokenOptions) {
    let NewToken { token, hash } = generate().unwrap();
    (token, TokenOptions { principal: principal.to_owned(), hash: hash.as_str().into() })
}

fn network(cidr: &str, principal: &str) -> NetworkOptions {
    NetworkOptions { cidr: cidr.to_owned(), principal: principal.to_owned() }
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn principal(name: &str) -> Principal {
    Principal::parse(name).unwrap()
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn shown<'a>(token: Option<&'a str>, certificate: Option<&'a str>) -> Credentials<'a> {
    Credentials { token: token.map(str::as_bytes), certificate, address: HERE }
}

fn name_of(result: Result<Identity, Denied>) -> Result<String, Denied> {
    result.map(|identity| identity.principal.to_string())
}

#[test]
fn a_token_is_known_by_its_hash_and_costs_one_hashing() {
    let (token, alice) = token_of("alice");
    let (other, bob) = token_of("bob");
    let options = Options { token: vec![alice, bob], ..Options::default() };
    let table = Table::build(&options).unwrap();
    let by = |token: &str| name_of(table.authenticate(&shown(Some(token), None)));
    let now = |token: &str| table.authenticate_now(&shown(Some(token), None)).map(name_of);
    assert_eq!(now(&token), None, "it has to be hashed");
    // Its last character is another one, and so is the secret.
    let wrong =
        format!("{}{}", &token[..token.len() - 2], if token.ends_with("AA") { "BB" } else { "AA" });
    assert_eq!(by(&wrong), Err(Denied::Token));
    assert_eq!(now(&wrong), None, "the right one is not known yet");
    assert_eq!(by(&token), Ok("alice".to_owned()));
    assert_eq!(now(&token), Some(Ok("alice".to_owned())), "and not again");
    assert_eq!(now(&wrong), Some(Err(Denied::Token)), "nor the wrong one");
    assert_eq!(now(&other), None);
    assert_eq!(by(&other), Ok("bob".to_owned()));
    // Whatever names no entry costs nothing.
    for unknown in
        ["", "hmq_", "hmq_000000000000_", "secret", "hmq_00000000000g_x", "hmq_0000000000"]
    {
        assert_eq!(now(unknown), Some(Err(Denied::Token)), "{unknown}");
    }
}

#[test]
fn secrets_are_compared_in_constant_time() {
    // `same` is `subtle`'s comparison of two arrays of one length; there is no other in the module of tokens.
    assert!(same(&[7; 32], &[7; 32]) && !same(&[7; 32], &[8; 32]));
    let source = include_str!("token.rs");
    assert_eq!(source.matches("ct_eq(").count(), 1);
    assert_eq!(source.matches("same(&found").count(), 2, "of the hash, and of the fingerprint");
    for naive in ["found == ", "== found", "== self.hash", "== verified"] {
        assert!(!source.contains(naive), "{naive}");
    }
}

#[test]
fn hashes_are_read_as_they_are_written_and_wrong_ones_are_not_repeated() {
    let NewToken { token, hash } = generate().unwrap();
    assert_eq!(TokenHash::parse(&hash).unwrap().to_string(), hash);
    assert_eq!(Some(TokenHash::parse(&hash).unwrap().id()), TokenId::of(token.as_bytes()));
    assert!(!format!("{:?}", TokenHash::parse(&hash).unwrap()).contains('$'));
    let costly = hash.replace("m=1024", "m=1048576");
    let other = hash.replace("argon2id", "argon2i");
    let short = &hash[..hash.len() - 3];
    let anonymous = hash.replace("keyid", "data");
    for wrong in [&*costly, &*other, short, &*anonymous, "", "x", "$argon2id$v=19$", &*token] {
        let error = TokenHash::parse(wrong).unwrap_err().to_string();
        assert!(wrong.is_empty() || wrong == "x" || !error.contains(wrong), "{error}");
    }
    assert!(TokenHash::parse(&token).unwrap_err().to_string().contains("is a token"));
    assert!(TokenHash::parse(&costly).unwrap_err().to_string().contains("m=65536"));
}

#[test]
fn tokens_go_before_certificates_and_those_before_networks() {
    let (token, alice) = token_of("alice");
    let certificate =
        CertificateOptions { subject: "ci.example".to_owned(), principal: "ci".to_owned() };
    let options = Options {
        token: vec![alice],
        certificate: vec![certificate],
        network: vec![network("127.0.0.0/8", "local"), network("127.0.0.1", "here")],
        ..Options::default()
    };
    let table = Table::build(&options).unwrap();
    let who = |shown: Credentials<'_>| name_of(table.authenticate(&shown));
    assert_eq!(who(shown(Some(&token), Some("ci.example"))), Ok("alice".to_owned()));
    assert_eq!(who(shown(Some("hmq_no"), Some("ci.example"))), Err(Denied::Token));
    assert_eq!(who(shown(None, Some("ci.example"))), Ok("ci".to_owned()));
    assert_eq!(who(shown(None, Some("bob"))), Ok("bob".to_owned()), "its name is the principal");
    for name in ["bo\nb", "*", " bob", "", &"b".repeat(256)] {
        assert_eq!(who(shown(None, Some(name))), Err(Denied::Certificate), "{name:?}");
    }
    assert_eq!(who(shown(None, None)), Ok("here".to_owned()), "the narrowest network");
    let from = |address: &str| {
        let address = address.parse().unwrap();
        who(Credentials { token: None, certificate: None, address })
    };
    assert_eq!(from("127.0.0.2"), Ok("local".to_owned()));
    assert_eq!(from("::ffff:127.0.0.2"), Ok("local".to_owned()));
    assert_eq!(from("128.0.0.1"), Ok(ANONYMOUS.to_owned()));
    assert_eq!(from("::1"), Ok(ANONYMOUS.to_owned()));
}

#[test]
fn without_rules_and_tokens_nobody_is_asked() {
    let table = Table::default();
    assert_eq!(name_of(table.authenticate(&shown(Some("whatever"), None))), Ok(ANONYMOUS.into()));
    let orders = topic("orders");
    for operation in Operation::ALL {
        let decision = table.decide(&Principal::anonymous(), *operation, &Resource::Topic(&orders));
        assert_eq!(decision, Decision::Open);
    }
}

#[test]
fn what_no_rule_allows_is_denied() {
    use Decision::{Allowed, Denied};
    use Operation::{Admin, Commit, Consume, Produce};
    let options = Options {
        rule: vec![
            rule(&["alice"], &["produce"], &["orders", "audit-*"], &[]),
            rule(&["bob"], &["consume", "commit"], &["*"], &["bob-*"]),
            rule(&["*"], &["consume"], &["public"], &["*"]),
            rule(&["anonymous"], &["produce"], &["inbox"], &[]),
            rule(&["ops"], &["admin"], &[], &[]),
            rule(&["carol"], &["admin"], &["carol-*"], &["carol"]),
            rule(&["root"], &["consume"], &["__consumer_offsets"], &[]),
        ],
        ..Options::default()
    };
    let table = Table::build(&options).unwrap();
    let of_topic = |who: &str, operation, name: &str| {
        table.decide(&principal(who), operation, &Resource::Topic(&topic(name)))
    };
    let of_group = |who: &str, operation, name: &str| {
        let group = GroupName::parse(name).unwrap();
        table.decide(&principal(who), operation, &Resource::Group(&group))
    };
    for (who, operation, name, decision) in [
        ("alice", Produce, "orders", Allowed(0)),
        ("alice", Produce, "audit-", Allowed(0)),
        ("alice", Produce, "audit-1", Allowed(0)),
        ("alice", Produce, "audit", Denied),
        ("alice", Produce, "orders2", Denied),
        ("alice", Consume, "orders", Denied),
        ("alice", Consume, "public", Allowed(2)),
        ("bob", Consume, "orders", Allowed(1)),
        ("bob", Consume, "__consumer_offsets", Denied),
        ("root", Consume, "__consumer_offsets", Allowed(6)),
        ("bob", Produce, "orders", Denied),
        ("anonymous", Consume, "public", Denied),
        ("anonymous", Produce, "inbox", Allowed(3)),
        ("ops", Admin, "orders", Allowed(4)),
        ("ops", Produce, "orders", Denied),
        ("carol", Admin, "carol-1", Allowed(5)),
        ("carol", Admin, "orders", Denied),
        ("bob", Admin, "orders", Denied),
    ] {
        assert_eq!(of_topic(who, operation, name), decision, "{who} {operation} {name}");
    }
    for (who, operation, name, decision) in [
        ("bob", Commit, "bob-1", Allowed(1)),
        ("bob", Consume, "bob-1", Allowed(1)),
        ("bob", Commit, "alice", Denied),
        ("alice", Consume, "alice", Allowed(2)),
        ("alice", Commit, "alice", Denied),
        ("ops", Admin, "any", Allowed(4)),
        ("carol", Admin, "carol", Allowed(5)),
        ("carol", Admin, "any", Denied),
    ] {
        assert_eq!(of_group(who, operation, name), decision, "{who} {operation} {name}");
    }
    let broker = |who: &str| table.decide(&principal(who), Admin, &Resource::Broker);
    assert_eq!((broker("ops"), broker("carol"), broker("anonymous")), (Allowed(4), Denied, Denied));
    assert!(table.may_some(&principal("carol"), Admin));
    assert!(!table.may_some(&principal("alice"), Admin));
    let reason =
        table.allow(&principal("alice"), Produce, Resource::Topic(&topic("x"))).unwrap_err();
    assert_eq!(reason, "alice may not produce to topic x");
}

#[test]
fn who_was_let_in_stands_as_long_as_he_is_the_same() {
    let (token, alice) = token_of("alice");
    let (_, again) = token_of("alice");
    let with = |token: Vec<TokenOptions>, network: Vec<NetworkOptions>| {
        Table::build(&Options { token, network, ..Options::default() }).unwrap()
    };
    let first = with(vec![alice.clone()], vec![network("127.0.0.1", "here")]);
    let by_token = first.authenticate(&shown(Some(&token), None)).unwrap();
    let by_network = first.authenticate(&shown(None, None)).unwrap();
    let later = shown(None, None);
    let same = with(vec![alice.clone()], vec![network("127.0.0.0/8", "here")]);
    assert!(same.stands(&by_token, &later) && same.stands(&by_network, &later));
    let renamed = TokenOptions { principal: "bob".to_owned(), ..alice };
    for other in [with(vec![again], vec![]), with(vec![renamed], vec![]), with(vec![], vec![])] {
        assert!(!other.stands(&by_token, &later) && !other.stands(&by_network, &later));
    }
}

#[test]
fn what_is_known_of_tokens_outlives_a_table() {
    let (token, alice) = token_of("alice");
    let (other, bob) = token_of("bob");
    let table = |token: &[&TokenOptions]| {
        let token = token.iter().map(|token| (*token).clone()).collect();
        Table::build(&Options { token, ..Options::default() }).unwrap()
    };
    let access = Access::with(table(&[&alice, &bob]), Arc::default());
    let now = |token: &str| access.table().authenticate_now(&shown(Some(token), None)).map(name_of);
    assert!(access.table().authenticate(&shown(Some(&token), None)).is_ok());
    let generation = access.generation();
    access.replace(table(&[&bob, &alice]));
    assert_ne!(access.generation(), generation);
    assert_eq!((now(&token), now(&other)), (Some(Ok("alice".to_owned())), None));
    let carol = TokenOptions { principal: "carol".to_owned(), ..alice };
    access.replace(table(&[&carol]));
    assert_eq!((now(&token), now(&other)), (None, Some(Err(Denied::Token))));
}

#[test]
fn everything_that_is_wrong_is_named_and_no_secret_repeated() {
    let (token, alice) = token_of("alice");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    let hash = alice.hash.expose().to_owned();
    std::fs::write(&file, format!("# ours\n\nbob:{hash}\nnonsense-{token}\n")).unwrap();
    let options = Options {
        tokens: format!("carol:{token};x").as_str().into(),
        tokens_file: file.display().to_string(),
        token: vec![alice, TokenOptions { principal: " b".to_owned(), hash: "$argon2id$x".into() }],
        network: vec![
            network("10.0.0.1/8", "a"),
            network("10.0.0.0/33", "a"),
            network("ten", "*"),
            network("fd00::/8", "a"),
            network("fd00::/8", "b"),
        ],
        certificate: vec![CertificateOptions { subject: String::new(), principal: "a".into() }],
        rule: vec![
            rule(&["alice"], &["prodce"], &["a*b"], &[]),
            rule(&[], &["consume", "commit"], &[], &[]),
            rule(&["al\0"], &["admin"], &["../x"], &["a/b"]),
        ],
    };
    let (problems, _) = options.check(false, &[]);
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (key, end) in [
        ("access.token[1].principal", "not \" b\""),
        ("access.token[1].hash", "prints it ($argon2id$…)"),
        ("access.tokens (entry 1)", "must be PRINCIPAL:HASH"),
        ("access.tokens (entry 2)", "must be PRINCIPAL:HASH"),
        ("line 3)", "is listed already"),
        ("line 4)", "must be PRINCIPAL:HASH"),
        ("access.network[0].cidr", "did you mean 10.0.0.0/8?"),
        ("access.network[1].cidr", "not \"10.0.0.0/33\""),
        ("access.network[2].cidr", "not \"ten\""),
        ("access.network[2].principal", "not \"*\""),
        ("access.network[4].cidr", "fd00::/8 is listed already"),
        ("access.certificate[0].subject", "must not be empty"),
        ("access.rule[0].operations", "did you mean \"produce\"?"),
        ("access.rule[0].topics", "not \"a*b\""),
        ("access.rule[1].principals", "would allow nothing"),
        ("access.rule[1].topics", "consume is allowed on topics"),
        ("access.rule[1].groups", "commit is allowed for groups"),
        ("access.rule[2].principals", "not \"al\\0\""),
        ("access.rule[2].topics", "not \"../x\""),
        ("access.rule[2].groups", "not \"a/b\""),
    ] {
        let found = lines.iter().any(|line| line.contains(key) && line.ends_with(end));
        assert!(found, "{key} … {end}: {lines:#?}");
    }
    assert_eq!(lines.len(), 20, "{lines:#?}");
    let all = lines.join("\n")
        + &format!("{options:?}")
        + &Table::build(&options).unwrap_err().to_string();
    assert!(!all.contains(&token) && !all.contains(&hash), "{all}");
    assert!(!serde_json::to_string(&options).unwrap().contains("argon2id"));
}

#[test]
fn a_rule_for_nobody_is_worth_a_warning() {
    let (_, alice) = token_of("alice");
    let options = Options {
        token: vec![alice],
        rule: vec![rule(&["alcie", "*", "anonymous", "alice"], &["produce"], &["*"], &[])],
        ..Options::default()
    };
    let (problems, warnings) = options.check(false, &[]);
    assert_eq!(problems, []);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.key, "access.rule[0].principals");
    assert!(warning.message.ends_with("did you mean \"alice\"?"), "{}", warning.message);
    assert_eq!(options.check(true, &[]).1, [], "a certificate may have any name");
}

proptest! {
    #[test]
    fn patterns_mean_what_they_say(name in "[a-z._-]{1,12}", cut in 0usize..12) {
        let legal = |name: &str| TopicName::parse(name).is_ok();
        let own = name.starts_with("__");
        prop_assert_eq!(Pattern::parse("*", legal).unwrap().matches(&name), !own);
        if legal(&name) {
            prop_assert!(Pattern::parse(&name, legal).unwrap().matches(&name));
            let longer = format!("{name}a");
            prop_assert!(!Pattern::parse(&name, legal).unwrap().matches(&longer));
        }
        let prefix = &name[..cut.min(name.len())];
        if let Ok(pattern) = Pattern::parse(&format!("{prefix}*"), legal) {
            prop_assert_eq!(pattern.matches(&name), !own);
            prop_assert_eq!(pattern.to_string(), format!("{prefix}*"));
            let other = format!("A{name}");
            prop_assert_eq!(pattern.matches(&other), prefix.is_empty());
        }
    }

    #[test]
    fn a_network_has_the_addresses_with_its_first_bits(a: u32, b: u32, prefix in 0u8..=32) {
        let first = |bits: u32| u64::from(bits) >> (32 - u32::from(prefix));
        let base = if prefix == 0 { 0 } else { a & (u32::MAX << (32 - u32::from(prefix))) };
        let text = format!("{}/{prefix}", Ipv4Addr::from_bits(base));
        let network: Network = text.parse().unwrap();
        let address = Ipv4Addr::from_bits(b);
        let inside = first(a) == first(b);
        prop_assert_eq!(network.contains(address.into()), inside);
        prop_assert_eq!(network.contains(address.to_ipv6_mapped().into()), inside);
        prop_assert_eq!(network.to_string(), text);
        let mapped = format!("::ffff:{}/{}", Ipv4Addr::from_bits(base), prefix + 96);
        prop_assert_eq!(mapped.parse::<Network>().unwrap(), network);
    }

    #[test]
    fn the_same_of_ipv6(a: u128, b: u128, prefix in 0u8..=128) {
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        let base = Ipv6Addr::from_bits(a & mask);
        prop_assume!(base.to_ipv4_mapped().is_none());
        let network: Network = format!("{base}/{prefix}").parse().unwrap();
        let other = Ipv6Addr::from_bits(b);
        prop_assume!(other.to_ipv4_mapped().is_none());
        prop_assert_eq!(network.contains(other.into()), a & mask == b & mask);
        prop_assert!(network.contains(Ipv6Addr::from_bits(a).into()) || base.to_ipv4_mapped().is_some());
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in ".{0,60}") {
        let _ = text.parse::<Network>();
        let _ = TokenHash::parse(&text);
        let _ = TokenHash::parse(&format!("$argon2id$v=19${text}"));
        let _ = TokenId::of(text.as_bytes());
        let _ = Pattern::parse(&text, |_| true);
    }
}
