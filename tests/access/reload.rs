//! SIGHUP: other tokens and rules, while connections stand.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{Answer, AnswerTo, Durability, Role, Start};

use super::support::http::{get, try_request};
use super::support::v1_1::{Got, answer, connect, control, group, handshake_with, next, open};
use super::support::{
    AGAIN, CONSUME, HANG, KEPT, PRODUCE, RawClient, Start as Process, frame, handshake, scratch,
    wait_for,
};
use super::{Guarded, PRINCIPALS, RULES, generate, lines, whole};

impl Guarded {
    fn reload(&self, outcome: &str) {
        self.broker.reload(outcome);
    }

    fn handshake(&self, principal: &str, role: Role) -> Vec<u8> {
        handshake_with("orders", role, Some(self.token(principal)))
    }

    fn producer(&self) -> Vec<u8> {
        self.handshake("alice", Role::Produce { durability: Durability::Topic })
    }

    fn consumer(&self, principal: &str) -> Vec<u8> {
        let role = Role::Consume {
            group: None,
            start: Start::Earliest,
            heartbeat_ms: None,
            until_end: false,
        };
        self.handshake(principal, role)
    }

    fn reply(&self, handshake: &[u8]) -> Answer {
        answer(&mut connect(self.broker.addr(), handshake), AnswerTo::Handshake)
    }
}

#[test]
fn a_token_that_is_taken_away_ends_its_connections() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let (mut alice, _) = open(addr, &guarded.producer());
    assert_eq!(alice.append(&frame(1, b"", b"x")), 0);
    let (mut bob, _) = open(addr, &guarded.consumer("bob"));
    let (mut carol, _) = open(addr, &guarded.consumer("carol"));
    for consumer in [&mut bob, &mut carol] {
        assert!(matches!(next(consumer), Got::Frame(_)));
    }
    let left: Vec<&str> =
        PRINCIPALS.iter().copied().filter(|who| !["alice", "carol"].contains(who)).collect();
    fs::write(guarded.dir.path().join("tokens"), lines(&guarded.tokens, &left)).unwrap();
    guarded.reload(AGAIN);
    let said = answer(&mut alice, AnswerTo::Frame);
    assert_eq!(said.code, Status::Unauthenticated.code(), "{said:?}");
    assert_eq!(said.message, "alice is not known any more");
    assert_eq!(alice.read_to_end(), b"");
    let told = control(&mut carol);
    assert_eq!(told.code, Status::Unauthenticated.code(), "{told:?}");
    assert_eq!(carol.read_to_end(), b"");
    assert_eq!(guarded.reply(&guarded.producer()).code, Status::Unauthenticated.code());
    // Back again, and the others have noticed nothing.
    fs::write(guarded.dir.path().join("tokens"), lines(&guarded.tokens, PRINCIPALS)).unwrap();
    guarded.reload(AGAIN);
    let (mut alice, _) = open(addr, &guarded.producer());
    assert_eq!(alice.append(&frame(1, b"", b"y")), 1);
    assert!(matches!(next(&mut bob), Got::Frame(frame) if frame.header.offset == 1));
}

#[test]
fn other_rules_hold_for_those_who_are_there() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let (mut alice, _) = open(addr, &guarded.producer());
    assert_eq!(alice.append(&frame(1, b"", b"x")), 0);
    let (mut bob, _) = open(addr, &guarded.consumer("bob"));
    assert!(matches!(next(&mut bob), Got::Frame(_)));
    let mut inbox = RawClient::produce(addr, "inbox", 0);
    assert_eq!(inbox.append(&frame(1, b"", b"x")), 0);
    let rules = RULES.replace("\"inbox\"", "\"letters\"").replace("[\"alice\"]", "[\"bob\"]");
    fs::write(guarded.config(), whole(&guarded.dir, &rules)).unwrap();
    guarded.reload(AGAIN);
    let said = answer(&mut alice, AnswerTo::Frame);
    assert_eq!(said.code, Status::Unauthorized.code(), "{said:?}");
    assert_eq!(said.message, "alice may not produce to topic orders");
    inbox.assert_closed_without_a_byte();
    assert_eq!(guarded.reply(&guarded.producer()).code, Status::Unauthorized.code());
    let producer = guarded.handshake("bob", Role::Produce { durability: Durability::Topic });
    let (mut producer, _) = open(addr, &producer);
    assert_eq!(producer.append(&frame(1, b"", b"y")), 1);
    assert!(matches!(next(&mut bob), Got::Frame(frame) if frame.header.offset == 1));
    let setting = guarded.ask("ops", "GET", "/api/v1/config", "").body;
    assert!(setting.contains("letters") && !setting.contains("inbox"), "{setting}");
}

/// The stream of events is asked for anew, and by those alone who still may.
#[test]
fn who_watches_is_judged_anew() {
    let guarded = Guarded::start();
    let watch = |principal: &str| {
        let mut stream = TcpStream::connect(guarded.broker.admin()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let token = guarded.token(principal);
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let status = lines.next().unwrap();
        (status, lines)
    };
    let (status, mut lines) = watch("ops");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(lines.any(|line| line.starts_with("data: ")));
    let left: Vec<&str> = PRINCIPALS.iter().copied().filter(|who| *who != "ops").collect();
    fs::write(guarded.dir.path().join("tokens"), super::lines(&guarded.tokens, &left)).unwrap();
    guarded.reload(AGAIN);
    // The last chunk: it ends in order, and not only after many more events.
    assert!(lines.take(200).any(|line| line == "0"));
    assert_eq!(watch("ops").0, "HTTP/1.1 401 Unauthorized");
    fs::write(guarded.dir.path().join("tokens"), super::lines(&guarded.tokens, PRINCIPALS))
        .unwrap();
    guarded.reload(AGAIN);
    let (status, mut lines) = watch("ops");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(lines.any(|line| line.starts_with("data: ")));
}

#[test]
fn what_is_wrong_changes_nothing() {
    let guarded = Guarded::start();
    let tokens = guarded.dir.path().join("tokens");
    let (mut alice, _) = open(guarded.broker.addr(), &guarded.producer());
    fs::write(&tokens, "alice:nonsense\n").unwrap();
    guarded.reload(KEPT);
    fs::remove_file(&tokens).unwrap();
    guarded.reload(KEPT);
    fs::write(&tokens, lines(&guarded.tokens, PRINCIPALS)).unwrap();
    fs::write(guarded.config(), whole(&guarded.dir, &RULES.replace("\"produce\"", "\"prodce\"")))
        .unwrap();
    guarded.reload(KEPT);
    assert_eq!(alice.append(&frame(1, b"", b"x")), 0);
    let (mut again, _) = open(guarded.broker.addr(), &guarded.producer());
    assert_eq!(again.append(&frame(1, b"", b"x")), 1);
    let said = guarded.broker.log_text();
    for part in ["must be PRINCIPAL:HASH", "cannot read ", "did you mean "] {
        assert!(said.contains(part), "{part}");
    }
}

#[test]
fn committers_and_clients_of_1_0_are_ended_too() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let legacy = IpAddr::from([127, 0, 0, 2]);
    let mut old = RawClient::connect_from(legacy, addr);
    old.send(&handshake(CONSUME, &["legacy", "legacy-a"], 0));
    let mut producer = RawClient::connect_from(legacy, addr);
    producer.send(&handshake(PRODUCE, &["legacy-a"], 0));
    assert_eq!(producer.append(&frame(1, b"", b"x")), 0);
    assert_eq!(old.read_frame().header.offset, 0);
    let role = Role::Commit { group: group("bob-1") };
    let (mut bob, _) = open(addr, &guarded.handshake("bob", role));
    bob.send(&[0; 8]);
    assert!(answer(&mut bob, AnswerTo::Commit).is_ok());
    let rules = RULES.replace("127.0.0.2/32", "127.0.0.3/32").replace("\"bob-*\"", "\"bobs\"");
    fs::write(guarded.config(), whole(&guarded.dir, &rules)).unwrap();
    guarded.reload(AGAIN);
    old.assert_closed_without_a_byte();
    producer.assert_closed_without_a_byte();
    assert_eq!(bob.read_to_end(), b"");
    let line = guarded.audit(|line| line.get("principal") == "bob");
    assert_eq!(line.get("reason"), "bob may not commit for group bob-1");
}

#[test]
fn a_listener_that_others_reach_keeps_asking() {
    let (dir, data) = scratch();
    let token = generate().unwrap();
    let config = dir.path().join("a.toml");
    let rule = "[[access.rule]]\nprincipals = ['ops']\noperations = ['admin']\n";
    let hash = format!("[[access.token]]\nprincipal = 'ops'\nhash = '{}'\n", token.hash);
    fs::write(&config, format!("{rule}{hash}")).unwrap();
    let start = Process::on(&data).arg("--config").arg(&config);
    let broker = start.env("HERMITMQ_ADMIN__LISTEN", "0.0.0.0:0").run();
    let admin = SocketAddr::from(([127, 0, 0, 1], broker.admin().port()));
    for text in ["", rule, &hash] {
        fs::write(&config, text).unwrap();
        broker.reload(KEPT);
        assert_eq!(get(admin, "/api/v1/cluster").status, 401, "{text}");
    }
    let bearer = format!("Bearer {}", token.token);
    let headers = [("authorization", &*bearer)];
    assert_eq!(try_request(admin, "GET", "/api/v1/cluster", &headers, b"").unwrap().status, 200);
}

/// Beside producers another thread sends to a consumer. What ends it has its reason all the same.
#[test]
fn a_consumer_that_is_being_sent_to_is_ended_for_its_reason() {
    let guarded = Guarded::start();
    let addr = guarded.broker.addr();
    let (mut alice, _) = open(addr, &guarded.producer());
    for number in 0..16 {
        assert_eq!(alice.append(&frame(number, b"", &vec![7; 1 << 20])), number);
    }
    let (done, bob) = (AtomicBool::new(false), guarded.consumer("bob"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && alice.try_send(&frame(1, b"", b"x")) {
                alice.stored();
            }
        });
        // Each takes what it is sent in bits, for as long as it is sent anything.
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| take_slowly(addr, &bob))).collect();
        let sent = || guarded.metric("hermitmq_delegated_sends_total");
        wait_for("all to be sent to", || (sent() >= 4).then_some(()));
        fs::write(guarded.config(), whole(&guarded.dir, &RULES.replace("[\"bob\"]", "[\"ben\"]")))
            .unwrap();
        guarded.reload(AGAIN);
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let closed = "hermitmq_connections_closed_total{reason=\"unauthorized\"}";
    wait_for("each to count", || (guarded.metric(closed) == 4).then_some(()));
}

fn take_slowly(addr: SocketAddr, handshake: &[u8]) {
    let (client, _) = open(addr, handshake);
    client.narrow();
    let mut part = [0; 8192];
    // A reset is an end, too.
    while client.stream().read(&mut part).is_ok_and(|read| read > 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
