//! Certificates, tokens, rules, limits and quotas at one broker: who comes is who the certificate names, or the token before it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};

use hermitmq::access::{NewToken, generate};
use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{Answer, AnswerTo, Durability, Role, Start as From};

use super::support::http::{self, try_request};
use super::support::tunnel::{Tunnel, config, connection};
use super::support::v1_1::{answer, connect, group, handshake_with, open};
use super::support::{
    AGAIN, Broker, CONSUME, PRODUCE, RULES, Random, RawClient, drain, frame, handshake, hermitmq,
    run_to_end, wait_for,
};
use super::{Setup, shown};

/// Theirs, and a name in a certificate that stands for another.
fn rules() -> String {
    let certificate = "[[access.certificate]]\nsubject = \"ci.test\"\nprincipal = \"ci\"\n";
    format!("{certificate}{}", RULES.replace("[\"alice\"]", "[\"alice\", \"ci\"]"))
}

/// A broker with all of it; its clients may show a certificate, or none.
struct Guarded {
    setup: Setup,
    tokens: BTreeMap<&'static str, NewToken>,
    broker: Broker,
}

impl Guarded {
    fn start(more: &str) -> Self {
        let setup = Setup::new();
        let tokens: BTreeMap<_, _> =
            ["alice", "bob", "ops"].map(|name| (name, generate().unwrap())).into();
        let config = setup.path("broker.toml");
        fs::write(&config, text(&tokens, &rules(), more)).unwrap();
        let broker = setup
            .start("required")
            .with_admin()
            .arg("--config")
            .arg(config)
            .env("HERMITMQ_TLS__CLIENT_AUTH", "optional")
            .env("HERMITMQ_ADMIN__TLS", "true")
            .run();
        Self { setup, tokens, broker }
    }

    /// What goes to the broker with a certificate of this name; with none for an empty one.
    fn tunnel(&self, name: &str) -> Tunnel {
        self.tunnel_to(self.broker.addr(), name)
    }

    fn tunnel_to(&self, addr: std::net::SocketAddr, name: &str) -> Tunnel {
        let identity = (!name.is_empty()).then(|| self.setup.ca.client(name));
        Tunnel::to(addr, &self.setup.ca, identity.as_ref())
    }

    /// Asks the admin listener with a certificate and a token, each if it is not empty.
    fn ask(&self, certificate: &str, token: &str, path: &str) -> http::Answer {
        let tunnel = self.tunnel_to(self.broker.admin(), certificate);
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer)];
        let headers = if token.is_empty() { &[][..] } else { &headers[..] };
        try_request(tunnel.addr(), "GET", path, headers, b"").unwrap()
    }

    fn token(&self, of: &str) -> &str {
        &self.tokens[of].token
    }

    fn metric(&self, name: &str) -> f64 {
        http::metric_of(&self.ask("ops", "", "/metrics").body, name)
    }

    /// Another configuration, while it runs.
    fn reload(&self, rules: &str) {
        fs::write(self.setup.path("broker.toml"), text(&self.tokens, rules, "")).unwrap();
        self.broker.reload(AGAIN);
    }
}

fn text(tokens: &BTreeMap<&str, NewToken>, rules: &str, more: &str) -> String {
    let lines: Vec<_> =
        tokens.iter().map(|(name, token)| format!("{name}:{}", token.hash)).collect();
    format!("access.tokens = '{}'\n{rules}\n{more}", lines.join(";"))
}

fn produce() -> Role {
    Role::Produce { durability: Durability::Topic }
}

fn consume(name: &str) -> Role {
    let (start, heartbeat_ms) = (From::Earliest, None);
    Role::Consume { group: Some(group(name)), start, heartbeat_ms, until_end: false }
}

fn reply(through: &Tunnel, hello: &[u8]) -> Answer {
    answer(&mut connect(through.addr(), hello), AnswerTo::Handshake)
}

#[test]
fn the_name_in_a_certificate_is_who_comes_in_both_versions_of_the_protocol() {
    let guarded = Guarded::start("");
    let tunnels = ["alice", "bob", "ci.test", "ops", ""].map(|name| (name, guarded.tunnel(name)));
    for (name, tunnel) in &tunnels {
        let may = |allowed: &[&str]| allowed.contains(name);
        for (topic, role, allowed) in [
            ("orders", produce(), &["alice", "ci.test"][..]),
            ("inbox", produce(), &[""]),
            ("orders", consume("bob-1"), &["bob"]),
            ("orders", consume("other"), &[]),
        ] {
            let said = reply(tunnel, &handshake_with(topic, role.clone(), None));
            assert_eq!(said.is_ok(), may(allowed), "{name} {topic} {role:?}: {said:?}");
            if !said.is_ok() {
                let who = match *name {
                    "" => "anonymous",
                    "ci.test" => "ci",
                    name => name,
                };
                assert_eq!(said.code, Status::Unauthorized.code());
                assert!(said.message.starts_with(&format!("{who} may not ")), "{said:?}");
            }
        }
        for (topic, allowed) in [("orders", &["alice", "ci.test"][..]), ("inbox", &[""])] {
            let mut old = RawClient::produce(tunnel.addr(), topic, 0);
            if may(allowed) {
                old.append(&frame(1, b"", name.as_bytes()));
            } else {
                old.try_send(&frame(1, b"", b"x"));
                old.assert_closed_without_a_byte();
            }
        }
        let mut old = RawClient::connect(tunnel.addr());
        old.send(&handshake(CONSUME, &["bob-2", "orders"], 0));
        if may(&["bob"]) {
            assert_eq!(old.read_frame().payload(), b"alice");
        } else {
            old.assert_closed_without_a_byte();
        }
    }
    let bob = tunnels.iter().find(|(name, _)| *name == "bob").map(|(_, tunnel)| tunnel).unwrap();
    let _stays = open(bob.addr(), &handshake_with("orders", consume("bob-3"), None));
    let listed = guarded.ask("ops", "", "/api/v1/connections").json();
    let found = listed["connections"].as_array().unwrap().iter().find(|it| it["group"] == "bob-3");
    let found = found.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((&found["certificate"], &found["principal"]), (&"bob".into(), &"bob".into()));
}

#[test]
fn a_name_that_is_no_principals_is_refused_and_is_nobody_else() {
    let guarded = Guarded::start("");
    // Anonymous may produce here.
    let inbox = handshake_with("inbox", produce(), None);
    for name in ["*", "line\nbreak", " alice"] {
        let said = reply(&guarded.tunnel(name), &inbox);
        assert_eq!(said.code, Status::Unauthenticated.code(), "{name:?}: {said:?}");
        assert_eq!(guarded.ask(name, "", "/api/v1/cluster").status, 401, "{name:?}");
        assert_eq!(guarded.ask(name, guarded.token("ops"), "/api/v1/cluster").status, 200);
    }
    assert!(reply(&guarded.tunnel(""), &inbox).is_ok());
}

#[test]
fn a_token_goes_before_a_certificate_at_both_listeners() {
    let guarded = Guarded::start("");
    let (alice, nobody) = (guarded.tunnel("alice"), guarded.tunnel(""));
    let ask =
        |tunnel, role, token: &str| reply(tunnel, &handshake_with("orders", role, Some(token)));
    for _ in 0..2 {
        // Alice's certificate, and the token of somebody who may something else.
        let said = ask(&alice, produce(), guarded.token("bob"));
        assert_eq!(said.message, "bob may not produce to topic orders");
        assert!(ask(&alice, consume("bob-1"), guarded.token("bob")).is_ok());
        assert!(ask(&nobody, produce(), guarded.token("alice")).is_ok());
        // A certificate does not help whoever shows a token that is wrong.
        let said = ask(&alice, produce(), "hmq_0123456789ab_x");
        assert_eq!(said.code, Status::Unauthenticated.code(), "{said:?}");
    }
    let cluster = |certificate, token| guarded.ask(certificate, token, "/api/v1/cluster").status;
    let (ops, bob) = (guarded.token("ops"), guarded.token("bob"));
    for (certificate, token, status) in [
        ("ops", "", 200),
        ("alice", "", 403),
        ("", "", 401),
        ("", ops, 200),
        ("alice", ops, 200),
        ("ops", bob, 403),
        ("ops", "hmq_0123456789ab_x", 401),
    ] {
        assert_eq!(cluster(certificate, token), status, "{certificate:?}");
    }
}

#[test]
fn a_rule_that_is_taken_away_ends_who_came_by_certificate() {
    let guarded = Guarded::start("");
    let [alice, bob, ci] = ["alice", "bob", "ci.test"].map(|name| guarded.tunnel(name));
    let (mut new, _) = open(alice.addr(), &handshake_with("orders", produce(), None));
    let mut old = RawClient::produce(alice.addr(), "orders", 0);
    assert_eq!((new.append(&frame(1, b"", b"a")), old.append(&frame(1, b"", b"b"))), (0, 1));
    let (mut other, _) = open(ci.addr(), &handshake_with("orders", produce(), None));
    let mut consumer = RawClient::consume(bob.addr(), "bob-1", "orders", 0);
    assert_eq!(consumer.read_frames(2).len(), 2);
    guarded.reload(&rules().replace("[\"alice\", \"ci\"]", "[\"ci\"]"));
    let said = answer(&mut new, AnswerTo::Frame);
    assert_eq!(said.message, "alice may not produce to topic orders");
    assert_eq!(new.read_to_end(), b"");
    old.assert_closed_without_a_byte();
    // Others have noticed nothing.
    assert_eq!(other.append(&frame(1, b"", b"c")), 2);
    assert_eq!(consumer.read_frame().payload(), b"c");
    // The certificate is somebody else's from now on.
    guarded.reload(&rules().replace("principal = \"ci\"", "principal = \"robot\""));
    let said = answer(&mut other, AnswerTo::Frame);
    assert_eq!(said.code, Status::Unauthenticated.code(), "{said:?}");
    assert_eq!(other.read_to_end(), b"");
    assert!(reply(&alice, &handshake_with("orders", produce(), None)).is_ok());
    assert!(!reply(&ci, &handshake_with("orders", produce(), None)).is_ok());
}

/// Whether somebody was held back while a mebibyte was sent.
fn waits(guarded: &Guarded, through: &Tunnel, token: Option<&str>) -> bool {
    let before = guarded.metric("hermitmq_quota_waits_total");
    let (mut client, _) = open(through.addr(), &handshake_with("orders", produce(), token));
    let mut sender = client.split();
    let all = frame(1, b"", &vec![7; 64 * 1024 - 29]).repeat(16);
    let sending = std::thread::spawn(move || sender.send(&all));
    for _ in 0..16 {
        client.stored();
    }
    sending.join().unwrap();
    guarded.metric("hermitmq_quota_waits_total") > before
}

#[test]
fn a_quota_is_that_of_the_principal_however_it_is_known() {
    let quota = "[[security.quota]]\nprincipal = 'alice'\nproduce_kb_per_s = 512\n";
    let guarded = Guarded::start(quota);
    let [alice, ci, nobody] = ["alice", "ci.test", ""].map(|name| guarded.tunnel(name));
    let token = Some(guarded.token("alice"));
    for (through, token, expected) in
        [(&alice, None, true), (&nobody, token, true), (&ci, token, true), (&ci, None, false)]
    {
        assert_eq!(waits(&guarded, through, token), expected);
    }
}

#[test]
fn limits_hold_for_connections_with_tls() {
    let guarded = Guarded::start(
        "[security]\nmax_connections_per_address = 2\n[server]\nhandshake_timeout_sec = 1\n",
    );
    let alice = guarded.tunnel("alice");
    let begin = || open(alice.addr(), &handshake_with("orders", produce(), None)).0;
    let (first, mut second) = (begin(), begin());
    let said = reply(&alice, &handshake_with("orders", produce(), None));
    assert_eq!(said.code, Status::LimitReached.code(), "{said:?}");
    let mut old = RawClient::produce(alice.addr(), "orders", 0);
    old.try_send(&frame(1, b"", b"x"));
    old.assert_closed_without_a_byte();
    second.append(&frame(1, b"", b"x"));
    let limited = "hermitmq_connections_closed_total{reason=\"address_limit\"}";
    wait_for("both to be counted", || (guarded.metric(limited) >= 2.0).then_some(()));
    drop(first);
    wait_for("room for another", || {
        reply(&alice, &handshake_with("orders", produce(), None)).is_ok().then_some(())
    });
    // One deadline for the handshake of TLS and the one behind it, with a certificate, too.
    let identity = guarded.setup.ca.client("alice");
    let late = config(&guarded.setup.ca, Some(&identity), rustls::ALL_VERSIONS);
    drop(second);
    let name = "hermitmq_connections_closed_total{reason=\"handshake_timeout\"}";
    let before = guarded.metric(name);
    wait_for("the deadline", || {
        let mut late = connection(guarded.broker.addr(), late.clone());
        let sent = late.write_all(&handshake_with("orders", produce(), None)[..5]);
        let _ = sent.and_then(|()| late.read_to_end(&mut Vec::new()));
        (guarded.metric(name) > before).then_some(())
    });
}

/// The first line of an answer that may never end.
fn status_line(guarded: &Guarded, path: &str, token: &str) -> String {
    let no_one = config(&guarded.setup.ca, None, rustls::ALL_VERSIONS);
    let mut stream = connection(guarded.broker.admin(), no_one);
    let bearer =
        if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n").unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    String::from_utf8(line.to_vec()).unwrap()
}

#[test]
fn the_dashboard_is_open_and_what_it_shows_is_not() {
    let guarded = Guarded::start("");
    let nobody = guarded.tunnel("");
    open(nobody.addr(), &handshake_with("orders", produce(), Some(guarded.token("alice"))));
    for path in ["/", "/dashboard/app.js", "/dashboard/style.css", "/livez"] {
        assert_eq!(status_line(&guarded, path, ""), "HTTP/1.1 200", "{path}");
    }
    for path in [
        "/api/v1/events",
        "/api/v1/topics/orders/traffic",
        "/api/v1/topics/orders/partitions/0/segments",
        "/metrics",
    ] {
        for (token, status) in [("", 401), (guarded.token("bob"), 403), (guarded.token("ops"), 200)]
        {
            let line = status_line(&guarded, path, token);
            assert_eq!(line, format!("HTTP/1.1 {status}"), "{path}");
        }
    }
}

#[test]
fn the_command_line_comes_with_a_ca_and_a_token() {
    let guarded = Guarded::start("");
    let file = |of: &str| {
        let path = guarded.setup.path(&format!("{of}.token"));
        fs::write(&path, format!("{}\n", guarded.token(of))).unwrap();
        shown(&path)
    };
    let (alice, bob, ops) = (file("alice"), file("bob"), file("ops"));
    let ca = shown(&guarded.setup.path("ca.pem"));
    let (broker, admin) = (guarded.broker.addr().to_string(), guarded.broker.admin().to_string());
    let run = |words: &[&str], token: &str| {
        let mut words = [words, &["--tls-ca", &ca]].concat();
        if !token.is_empty() {
            words.extend(["--token-file", token]);
        }
        let output = run_to_end(hermitmq(&words), b"one\ntwo\n".to_vec());
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let produce = ["produce", "orders", "--broker", &*broker];
    let (good, said) = run(&produce, &alice);
    assert!(good, "{said}");
    let (good, said) = run(&produce, "");
    assert!(!good && said.contains("anonymous may not produce to topic orders"), "{said}");
    let consume = ["consume", "orders", "--until-end", "--group", "bob-1", "--broker", &*broker];
    let (good, said) = run(&consume, &bob);
    assert!(good && said.starts_with("one\ntwo\n"), "{said}");
    let (good, said) = run(&consume, &alice);
    assert!(!good && said.contains("alice may not consume"), "{said}");
    for words in [&["topic", "list"][..], &["top", "--once"]] {
        let words = [words, &["--admin", &*admin]].concat();
        let (good, said) = run(&words, &ops);
        assert!(good && said.contains("orders"), "{words:?}: {said}");
        let (good, said) = run(&words, &bob);
        assert!(!good && said.contains("bob may not administer"), "{words:?}: {said}");
        assert!(!run(&words, "").0, "{words:?}");
    }
    let (good, said) = run(&["health", "--admin", &admin], "");
    assert!(good && said == "ok\n", "{said}");
}

/// Bytes of the log that all of them read.
const LOG: usize = 12 * 1024 * 1024;

#[test]
fn plain_and_encrypted_consumers_of_one_partition_get_the_same_bytes() {
    let setup = Setup::new();
    let broker = setup.start("optional").with_admin().env("HERMITMQ_SERVER__REACTORS", 1).run();
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let mut random = Random::seeded();
    let mut log = Vec::new();
    while log.len() < LOG {
        let len = usize::try_from(1 + random.below(60_000)).unwrap();
        log.extend(frame(1, b"k", &random.bytes(len)));
    }
    let count = super::support::frames_of(&log).len();
    let mut sender = RawClient::connect(broker.addr());
    sender.send(&handshake(PRODUCE, &["t"], 0));
    let mut acks = sender.split();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(&log));
        for _ in 0..count {
            acks.stored();
        }
    });
    // While there is a producer, what is large is sent by others than the reactor; with TLS it is not.
    std::thread::scope(|scope| {
        for number in 0..6 {
            let addr = if number % 2 == 0 { broker.addr() } else { tunnel.addr() };
            let log = &log;
            scope.spawn(move || {
                let got = drain(addr, &format!("g-{number}"), "t", 0);
                let bytes: Vec<u8> = got.iter().flat_map(super::support::Frame::as_sent).collect();
                assert!(bytes == *log, "consumer {number}: {} of {}", bytes.len(), log.len());
            });
        }
    });
    assert!(super::metric(&broker, "hermitmq_delegated_sends_total") > 0.0);
    assert_eq!(sender.append(&frame(1, b"", b"x")), count as u64);
}
