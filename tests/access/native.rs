//! The native protocol, in both versions.

use std::net::{IpAddr, SocketAddr};

use hermitmq::model::TopicName;
use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{Answer, AnswerTo, Durability, Handshake, Role, Start, Token};
use hermitmq::record::wire;

use super::Guarded;
use super::support::v1_1::{self, Got, control, group, handshake_with, next, open, refused};
use super::support::{COMMIT, CONSUME, PRODUCE, RawClient, frame, handshake};

fn produce() -> Role {
    Role::Produce { durability: Durability::Topic }
}

fn consume(name: Option<&str>) -> Role {
    let start = Start::Earliest;
    Role::Consume { group: name.map(group), start, heartbeat_ms: None, until_end: false }
}

fn commit(name: &str) -> Role {
    Role::Commit { group: group(name) }
}

fn reply(addr: SocketAddr, handshake: &[u8]) -> Answer {
    let mut client = v1_1::connect(addr, handshake);
    v1_1::answer(&mut client, AnswerTo::Handshake)
}

#[test]
fn each_principal_may_do_what_its_rules_say_in_1_1() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    // (verb, topic, role, who may)
    let verbs = [
        ("produce", "orders", produce(), &["alice"][..]),
        ("produce", "inbox", produce(), &["anonymous"]),
        ("produce", "other", produce(), &[]),
        ("consume", "orders", consume(None), &["bob", "carol"]),
        ("consume", "orders", consume(Some("bob-1")), &["bob"]),
        ("consume", "orders", consume(Some("carol")), &["carol"]),
        ("consume", "inbox", consume(None), &[]),
        ("commit", "orders", commit("bob-1"), &["bob"]),
        ("commit", "orders", commit("carol"), &[]),
        // Whoever may commit for a group may not do it for every topic.
        ("commit", "inbox", commit("bob-1"), &[]),
    ];
    for (verb, topic, role, allowed) in verbs {
        for principal in super::PRINCIPALS.iter().chain(&["anonymous"]) {
            let token = (*principal != "anonymous").then(|| guarded.token(principal));
            // Twice: a token is hashed once, and known from then on.
            for _ in 0..2 {
                let answer = reply(addr, &handshake_with(topic, role.clone(), token));
                if allowed.contains(principal) {
                    assert!(answer.is_ok(), "{principal} {verb} {topic}: {answer:?}");
                } else {
                    assert_eq!(
                        answer.code,
                        Status::Unauthorized.code(),
                        "{principal} {verb} {topic}"
                    );
                    let begin = format!("{principal} may not ");
                    assert!(answer.message.starts_with(&begin), "{answer:?}");
                    assert_eq!(answer.value, 0);
                }
            }
        }
    }
    let closed = "hermitmq_connections_closed_total{reason=\"unauthorized\"}";
    assert!(guarded.metric(closed) > 0);
    assert!(guarded.metric("hermitmq_access_refused_total{reason=\"unauthorized\"}") > 0);
}

#[test]
fn a_token_that_is_wrong_is_never_anonymous() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let right = guarded.token("alice");
    let mut other = right.to_owned();
    let last = if other.pop() == Some('A') { 'B' } else { 'A' };
    other.push(last);
    // Before and after the right one is known, and with the name of an entry that is not there.
    for turn in 0..2 {
        for wrong in [&*other, "hmq_0123456789ab_AAAA", "alice", ""] {
            let answer = refused(addr, &handshake_with("inbox", produce(), Some(wrong)));
            assert_eq!(answer.code, Status::Unauthenticated.code(), "{turn} {wrong}: {answer:?}");
            assert_eq!(answer.message, "the token is not valid", "nothing else is said");
        }
        open(addr, &handshake_with("orders", produce(), Some(right)));
    }
    open(addr, &handshake_with("inbox", produce(), None));
    assert_eq!(guarded.metric("hermitmq_access_refused_total{reason=\"unauthenticated\"}"), 8);
    let line = guarded.audit(|line| line.get("kind") == "unauthenticated");
    assert_eq!((line.level(), line.get("peer")), ("WARN".to_owned(), "127.0.0.1".to_owned()));
}

#[test]
fn whether_a_topic_exists_is_not_told() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    open(addr, &handshake_with("orders", produce(), Some(guarded.token("alice"))));
    for (there, missing) in
        [(produce(), produce()), (consume(None), consume(None)), (commit("x"), commit("x"))]
    {
        let ask =
            |topic, role| reply(addr, &handshake_with(topic, role, Some(guarded.token("team"))));
        let (there, missing) = (ask("orders", there), ask("absent", missing));
        assert_eq!(there.code, missing.code);
        assert_eq!(there.message.replace("orders", "absent"), missing.message);
    }
    // Nor a partition, nor that a name is the broker's own; and nothing was created.
    let mut handshake = Handshake::new(TopicName::parse("orders").unwrap(), 99, produce());
    handshake.token = Some(Token::new(guarded.token("team")).unwrap());
    let mut bytes = Vec::new();
    handshake.write(&mut bytes).unwrap();
    assert_eq!(reply(addr, &bytes).code, Status::Unauthorized.code());
    let own = handshake_with("__consumer_offsets", consume(None), Some(guarded.token("bob")));
    assert_eq!(reply(addr, &own).code, Status::Unauthorized.code());
    let topics = guarded.ask("ops", "GET", "/api/v1/topics", "").json();
    let names: Vec<_> = topics["topics"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["__consumer_offsets", "orders"]);
}

#[test]
fn clients_of_1_0_are_known_by_their_network() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let (legacy, nobody) = (IpAddr::from([127, 0, 0, 2]), IpAddr::from([127, 0, 0, 1]));
    let begin = |from, bytes: &[u8]| {
        let mut client = RawClient::connect_from(from, addr);
        client.send(bytes);
        client
    };
    let commit = |topic: &str, name: &str| {
        [handshake(COMMIT, &[name, topic], 0), wire::u64_bytes(1).to_vec()].concat()
    };
    let mut producer = begin(legacy, &handshake(PRODUCE, &["legacy-a"], 0));
    assert_eq!(producer.append(&frame(1, b"", b"x")), 0);
    let mut consumer = begin(legacy, &handshake(CONSUME, &["legacy", "legacy-a"], 0));
    assert_eq!(consumer.read_frame().header.offset, 0);
    assert_eq!(begin(legacy, &commit("legacy-a", "legacy")).read(1), [1]);
    let mut inbox = begin(nobody, &handshake(PRODUCE, &["inbox"], 0));
    assert_eq!(inbox.append(&frame(1, b"", b"x")), 0);
    for (from, bytes) in [
        (legacy, handshake(PRODUCE, &["orders"], 0)),
        (legacy, handshake(PRODUCE, &["inbox"], 0)),
        (legacy, handshake(CONSUME, &["legacy", "orders"], 0)),
        (legacy, handshake(CONSUME, &["other", "legacy-a"], 0)),
        (legacy, commit("legacy-a", "other")),
        (legacy, commit("orders", "legacy")),
        (nobody, handshake(PRODUCE, &["legacy-a"], 0)),
        (nobody, handshake(CONSUME, &["legacy", "legacy-a"], 0)),
        (nobody, commit("legacy-a", "legacy")),
    ] {
        begin(from, &bytes).assert_closed_without_a_byte();
    }
    let line = guarded.audit(|line| line.get("principal") == "legacy");
    assert_eq!((line.get("asked"), line.get("peer")), ("native 1.0".into(), "127.0.0.2".into()));
    assert_eq!(line.get("reason"), "legacy may not produce to topic orders");
    let connections = guarded.ask("ops", "GET", "/api/v1/connections", "").json();
    let who: Vec<_> = connections["connections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {}", it["role"].as_str().unwrap(), it["principal"].as_str().unwrap()))
        .collect();
    for one in ["producer legacy", "consumer legacy", "producer anonymous"] {
        assert!(who.iter().any(|it| it == one), "{one}: {who:?}");
    }
}

#[test]
fn a_consumer_without_the_right_to_commit_is_told_when_it_does() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let (mut producer, _) =
        open(addr, &handshake_with("orders", produce(), Some(guarded.token("alice"))));
    producer.append(&frame(1, b"", b"x"));
    let token = Some(guarded.token("carol"));
    let (mut consumer, _) = open(addr, &handshake_with("orders", consume(Some("carol")), token));
    assert!(matches!(next(&mut consumer), Got::Frame(_)));
    // The beginning of a commit is none.
    consumer.send(&[0; 7]);
    producer.append(&frame(1, b"", b"y"));
    assert!(matches!(next(&mut consumer), Got::Frame(_)));
    consumer.send(&[1]);
    let told = control(&mut consumer);
    assert_eq!(told.code, Status::Unauthorized.code());
    assert_eq!(told.message, "carol may not commit for group carol");
    consumer.try_send(&wire::u64_bytes(2));
    assert_eq!(consumer.read_to_end(), b"");
    let described = guarded.ask("ops", "GET", "/api/v1/groups/carol", "");
    if described.status == 200 {
        // It is still listed, as a consumer that has not closed its end.
        let committed = &described.json()["offsets"][0]["committed"];
        assert!(committed.is_null(), "nothing was committed: {described:?}");
    }
    // Who may commit does.
    let token = Some(guarded.token("bob"));
    let (mut consumer, _) = open(addr, &handshake_with("orders", consume(Some("bob-1")), token));
    consumer.send(&wire::u64_bytes(1));
    let committed = || {
        let group = guarded.ask("ops", "GET", "/api/v1/groups/bob-1", "");
        (group.status == 200 && group.json()["offsets"][0]["committed"] == 1).then_some(())
    };
    super::wait_for("the commit", committed);
}
