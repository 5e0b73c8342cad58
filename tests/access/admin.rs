//! The admin listener.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use hermitmq::access::{NewToken, generate};
use serde_json::Value;

use super::Guarded;
use super::support::http::{Answer, exchange, try_request};
use super::support::{
    Broker, INJECT_TOOLS, Start, Tracer, commit, privileged, scratch, scratch_in_memory,
};

/// What each operation is about, by its path.
fn is_of(path: &str) -> &'static str {
    match path {
        path if path.contains("{topic}") => "topic",
        path if path.contains("{group}") => "group",
        "/topics" | "/groups" => "list",
        _ => "broker",
    }
}

#[test]
fn events_are_for_who_may_administer() {
    let guarded = Guarded::start();
    assert_eq!(guarded.ask("", "GET", "/api/v1/events", "").status, 401);
    assert_eq!(guarded.ask("alice", "GET", "/api/v1/events", "").status, 403);
    let mut stream = std::net::TcpStream::connect(guarded.broker.admin()).unwrap();
    stream.set_read_timeout(Some(super::support::HANG)).unwrap();
    let token = guarded.token("ops");
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut begin = [0; 15];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
}

#[test]
fn every_request_asks_for_the_right_to_administer() {
    let guarded = Guarded::start();
    let described = guarded.ask("ops", "GET", "/api/v1/openapi.json", "").json();
    let mut count = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let path = path.trim_start_matches("/api/v1");
        if !path.starts_with('/') || ["/livez", "/readyz", "/startupz", "/metrics"].contains(&path)
        {
            continue;
        }
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            if !["GET", "PUT", "POST", "PATCH", "DELETE"].contains(&&*method) {
                continue;
            }
            let url = |topic: &str, group: &str| {
                let names = path.replace("{topic}", topic).replace("{group}", group);
                format!(
                    "/api/v1{}",
                    names.replace("{partition}", "0").replace("{connection}", "0-1")
                )
            };
            let status = |who: &str, topic: &str, group: &str| {
                guarded.ask(who, &method, &url(topic, group), "{}").status
            };
            let what = format!("{method} {path}");
            count += 1;
            assert_eq!(status("", "orders", "bob-1"), 401, "{what}");
            for who in ["alice", "bob", "carol"] {
                assert_eq!(status(who, "orders", "bob-1"), 403, "{what} by {who}");
            }
            if path == "/events" {
                // Its answer has no end: `events_are_for_who_may_administer` looks at its beginning.
                assert_eq!(status("team", "team-a", "team"), 403, "{what}");
                continue;
            }
            let ops = status("ops", "orders", "bob-1");
            assert!(![401, 403].contains(&ops), "{what} by ops: {ops}");
            let (own, others) =
                (status("team", "team-a", "team"), status("team", "orders", "bob-1"));
            match is_of(path) {
                "topic" | "group" => {
                    assert_eq!(others, 403, "{what} of others");
                    assert!(![401, 403].contains(&own), "{what} of its own: {own}");
                }
                "list" => assert!(![401, 403].contains(&own), "{what}: {own}"),
                _ => assert_eq!((own, others), (403, 403), "{what}"),
            }
        }
    }
    assert!(count >= 18, "{count} operations are described");
    for path in ["/livez", "/readyz", "/startupz"] {
        assert_eq!(guarded.ask("", "GET", path, "").status, 200, "{path} is for everybody");
    }
    assert_eq!(guarded.ask("", "GET", "/metrics", "").status, 401);
    assert_eq!(guarded.ask("alice", "GET", "/metrics", "").status, 403);
    assert_eq!(guarded.ask("ops", "GET", "/metrics", "").status, 200);
    // Names cannot be written so that a rule does not see them.
    assert_eq!(guarded.ask("team", "GET", "/api/v1/topics/%6frders", "").status, 403);
    assert_eq!(guarded.ask("team", "GET", "/api/v1/topics/team-%2e%2e%2forders", "").status, 400);
}

#[test]
fn lists_hold_what_the_caller_may_see() {
    let guarded = Guarded::start();
    let create = |who: &str, name: &str| {
        guarded.ask(who, "POST", "/api/v1/topics", &format!("{{\"name\":{name:?}}}")).status
    };
    assert_eq!((create("ops", "orders"), create("team", "team-a")), (201, 201));
    assert_eq!((create("team", "other"), create("team", "orders")), (403, 403));
    let names = |who: &str| -> Vec<Value> {
        let topics = guarded.ask(who, "GET", "/api/v1/topics", "").json();
        topics["topics"].as_array().unwrap().iter().map(|topic| topic["name"].clone()).collect()
    };
    assert_eq!(names("team"), ["team-a"]);
    assert_eq!(names("ops"), ["__consumer_offsets", "orders", "team-a"]);
    assert_eq!(guarded.ask("ops", "DELETE", "/api/v1/topics/team-a", "").status, 204);
    let line = guarded.audit(|line| line.get("action") == "DELETE /api/v1/topics/team-a");
    assert_eq!((line.level(), line.get("principal")), ("INFO".into(), "ops".into()));
    assert_eq!((line.get("status"), line.get("done")), ("204".into(), "true".into()));
    assert_eq!(line.get("peer"), "127.0.0.1");
    let line = guarded.audit(|line| line.get("asked") == "POST /api/v1/topics");
    assert_eq!(line.get("reason"), "team may not administer topic other");
}

/// Whoever leaves before the answer has asked all the same, and it is done all the same.
#[test]
fn who_leaves_before_the_answer_is_told_of() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let guarded = Guarded::start_in(scratch_in_memory(), super::RULES);
    assert_eq!(guarded.ask("ops", "POST", "/api/v1/topics", "{\"name\":\"orders\"}").status, 201);
    let path = "/api/v1/topics/orders/partitions/0/messages";
    // Until the tracer goes, or very long.
    let tracer = Tracer::attach(guarded.broker.pid(), "pwrite64:delay_enter=20000000");
    let (token, body) = (guarded.token("ops"), r#"{"payload":{"data":"x"}}"#);
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(guarded.broker.admin()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    drop(stream);
    // One thread answers both: it has seen that the other one left.
    assert_eq!(guarded.ask("", "GET", "/livez", "").status, 200);
    drop(tracer);
    let line = guarded.audit(|line| line.get("action") == format!("POST {path}"));
    assert_eq!((line.get("principal"), line.get("status")), ("ops".into(), "201".into()));
    assert_eq!(guarded.ask("ops", "GET", path, "").json()["end_offset"], 1);
}

/// An offset is of a group and of a topic: whoever puts a group somewhere else needs what committing takes.
#[test]
fn groups_are_moved_by_those_who_may_read_the_topic() {
    let rules = format!(
        "{}[[access.rule]]\nprincipals = ['team']\noperations = ['consume']\ntopics = ['inbox']\n\
         [[access.network]]\ncidr = '127.0.0.1/32'\nprincipal = 'here'\n\
         [[access.rule]]\nprincipals = ['here']\noperations = ['consume', 'commit']\ntopics = ['*']\ngroups = ['*']\n",
        super::RULES
    );
    let guarded = Guarded::start_with(&rules);
    for name in ["team-a", "inbox", "orders"] {
        let body = format!("{{\"name\":{name:?}}}");
        assert_eq!(guarded.ask("ops", "POST", "/api/v1/topics", &body).status, 201);
    }
    let reset = |who: &str, topic: &str| {
        let body = format!("{{\"topic\":{topic:?},\"to\":\"earliest\",\"dry_run\":true}}");
        guarded.ask(who, "POST", "/api/v1/groups/team/reset", &body).status
    };
    assert_eq!((reset("team", "team-a"), reset("team", "inbox")), (200, 200));
    assert_eq!((reset("team", "orders"), reset("ops", "orders")), (403, 200));
    assert_eq!(reset("team", "none"), 403, "whether it exists is not told");
    let delete = |who: &str| guarded.ask(who, "DELETE", "/api/v1/groups/team", "").status;
    commit(guarded.broker.addr(), "team", "team-a", 0, 0);
    commit(guarded.broker.addr(), "team", "orders", 0, 0);
    let topics = |who: &str| -> Vec<Value> {
        let group = guarded.ask(who, "GET", "/api/v1/groups/team", "").json();
        group["offsets"].as_array().unwrap().iter().map(|at| at["topic"].clone()).collect()
    };
    assert_eq!((topics("team"), topics("ops").len()), (vec!["team-a".into()], 2));
    let refused = guarded.ask("team", "DELETE", "/api/v1/groups/team", "");
    assert!(refused.status == 403 && !refused.body.contains("orders"), "{}", refused.body);
    let line = guarded.audit(|line| line.get("asked") == "DELETE /api/v1/groups/team");
    assert_eq!(line.get("reason"), "team may not consume topic orders");
    assert_eq!(delete("ops"), 204);
    commit(guarded.broker.addr(), "team", "team-a", 0, 0);
    commit(guarded.broker.addr(), "team", "inbox", 0, 0);
    assert_eq!(delete("team"), 204);
}

#[test]
fn tokens_are_shown_in_one_way() {
    let guarded = Guarded::start();
    let token = guarded.token("ops").to_owned();
    let get = |headers: &[(&str, &str)]| {
        try_request(guarded.broker.admin(), "GET", "/api/v1/cluster", headers, b"").unwrap()
    };
    let bearer = format!("Bearer {token}");
    assert_eq!(get(&[("authorization", &bearer)]).status, 200);
    assert_eq!(get(&[("authorization", &bearer.replace("Bearer", "bearer"))]).status, 200);
    for headers in [
        &[("authorization", &*token)][..],
        &[("authorization", "Bearer hmq_0123456789ab_x")],
        &[("authorization", "Basic b3BzOm9wcw==")],
        &[("authorization", &bearer), ("authorization", &bearer)],
        &[("cookie", &bearer), ("x-token", &token)],
        &[],
    ] {
        let answer = get(headers);
        assert_eq!(answer.status, 401, "{headers:?}");
        assert!(answer.header("www-authenticate").starts_with("Bearer realm="), "{answer:?}");
        assert_eq!(answer.json()["type"], "urn:hermitmq:problem:unauthenticated");
    }
    // Not in an address, which is logged.
    let query = format!("/api/v1/cluster?access_token={token}");
    assert_eq!(guarded.ask("", "GET", &query, "").status, 401);
    assert_eq!(guarded.ask("ops", "GET", &query, "").status, 400);
}

/// Where the network names somebody, its browser has that name, too.
#[test]
fn a_page_of_another_site_changes_nothing() {
    let rules = "[[access.network]]\ncidr = '127.0.0.0/8'\nprincipal = 'local'\n\
        [[access.rule]]\nprincipals = ['local']\noperations = ['admin']\n";
    let guarded = Guarded::start_with(rules);
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        try_request(guarded.broker.admin(), method, path, headers, body.as_bytes()).unwrap()
    };
    let json = ("content-type", "application/json");
    let body = "{\"name\":\"a\"}";
    let created = ask("POST", "/api/v1/topics", &[json], body);
    assert_eq!(created.status, 201, "{created:?}");
    for headers in [
        &[json, ("origin", "https://example.org")][..],
        &[json, ("origin", "null")],
        &[json, ("sec-fetch-site", "cross-site")],
        // A form sends no JSON.
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded"), ("origin", "https://example.org")],
        // A name that resolves to this machine.
        &[json, ("host", "example.org"), ("origin", "https://example.org")],
    ] {
        let answer = ask("POST", "/api/v1/topics", headers, "{\"name\":\"b\"}");
        assert!([403, 415, 421, 400].contains(&answer.status), "{headers:?}: {answer:?}");
        let answer = ask("DELETE", "/api/v1/topics/a", headers, "");
        let form = headers == [("content-type", "text/plain")];
        assert!(form || [403, 421, 400].contains(&answer.status), "{headers:?}: {answer:?}");
        if form {
            assert_eq!(ask("POST", "/api/v1/topics", &[json], body).status, 201);
        }
        // It cannot ask before either: nothing allows another origin.
        let asked = ask("OPTIONS", "/api/v1/topics", headers, "");
        assert_eq!(asked.header("access-control-allow-origin"), "", "{asked:?}");
    }
    let own = format!("http://{}", guarded.broker.admin());
    let same = ask("DELETE", "/api/v1/topics/a", &[("origin", &own)], "");
    assert_eq!(same.status, 204, "{same:?}");
}

/// A broker with these rules whose admin listener has a public address, and a token of `ops`.
fn reached_by_others(rules: &str) -> (tempfile::TempDir, Broker, NewToken) {
    let (dir, data) = scratch();
    let token = generate().unwrap();
    let config = dir.path().join("a.toml");
    std::fs::write(&config, rules).unwrap();
    let start = Start::on(&data).arg("--config").arg(&config);
    let start = start.env("HERMITMQ_ADMIN__LISTEN", "0.0.0.0:0");
    let broker = start.env("HERMITMQ_ACCESS__TOKENS", format!("ops:{}", token.hash)).run();
    (dir, broker, token)
}

/// Where its admin listener is reached from here.
fn here(broker: &Broker) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], broker.admin().port()))
}

/// Such a page comes from the same site, as far as its browser can tell.
#[test]
fn a_page_that_gives_the_listener_a_name_has_no_network() {
    let (_dir, broker, token) = reached_by_others(
        "[[access.network]]\ncidr = '127.0.0.0/8'\nprincipal = 'ops'\n\
         [[access.rule]]\nprincipals = ['ops']\noperations = ['admin']\n",
    );
    let admin = here(&broker);
    let get = |more: &[(&str, &str)]| get(admin, "/api/v1/cluster", more).status;
    let bearer = format!("Bearer {}", token.token);
    assert_eq!(get(&[("host", "127.0.0.1")]), 200);
    assert_eq!(get(&[("host", "localhost:1")]), 200);
    assert_eq!(get(&[("host", "example.org")]), 421);
    assert_eq!(get(&[("host", "example.org"), ("authorization", &bearer)]), 200);
}

/// Whoever may nothing without a token learns that one would help, under whichever name; nobody else is let in by it.
#[test]
fn who_is_not_known_is_asked_for_a_token_under_any_name() {
    let (_dir, broker, _token) = reached_by_others(
        "[[access.rule]]\nprincipals = ['ops']\noperations = ['admin']\n\
         [[access.rule]]\nprincipals = ['anonymous']\noperations = ['admin']\ntopics = ['inbox']\n",
    );
    let admin = here(&broker);
    let strange = ("host", "broker.example.org");
    for path in ["/api/v1/cluster", "/api/v1/events", "/api/v1/topics/orders", "/metrics"] {
        let answer = get(admin, path, &[strange]);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"hermitmq\"");
    }
    for path in ["/api/v1/topics", "/api/v1/topics/inbox"] {
        assert_eq!(get(admin, path, &[strange]).status, 421, "{path}");
        assert_ne!(get(admin, path, &[("host", "localhost")]).status, 421, "{path}");
    }
    // What is refused once it is known what it is about is challenged, too.
    let json = [("content-type", "application/json")];
    let other = b"{\"name\":\"other\"}";
    let answer = try_request(admin, "POST", "/api/v1/topics", &json, other).unwrap();
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"hermitmq\"");
}

/// Asks under the name in the header `host`.
fn get(admin: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut lines = vec![format!("GET {path} HTTP/1.1"), "connection: close".to_owned()];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    exchange(admin, format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap()
}

#[test]
fn metrics_may_be_for_everybody() {
    let guarded = Guarded::start_with(&format!("admin.metrics_open = true\n{}", super::RULES));
    assert_eq!(guarded.ask("", "GET", "/metrics", "").status, 200);
    // Who has a token that is not valid any more is one of them.
    let old = format!("Bearer {}", hermitmq::access::generate().unwrap().token);
    let headers = [("authorization", &*old)];
    let admin = guarded.broker.admin();
    assert_eq!(try_request(admin, "GET", "/metrics", &headers, b"").unwrap().status, 200);
    assert_eq!(guarded.ask("", "GET", "/api/v1/cluster", "").status, 401);
}

#[test]
fn an_address_that_others_reach_needs_rules_and_somebody_to_know() {
    let token = hermitmq::access::generate().unwrap();
    let tokens = format!("ops:{}", token.hash);
    let rule = "[[access.rule]]\nprincipals = ['ops']\noperations = ['admin']\n";
    let network = "[[access.network]]\ncidr = '10.0.0.0/8'\nprincipal = 'ops'\n";
    for (file, tokens, insecure, starts) in [
        ("", "", false, false),
        ("", "", true, true),
        (rule, "", false, false),
        ("", &*tokens, false, false),
        (rule, &*tokens, false, true),
        (&*format!("{network}{rule}"), "", false, true),
        (network, "", false, false),
    ] {
        for host in ["0.0.0.0", "127.0.0.1"] {
            let (dir, data) = scratch();
            let config = dir.path().join("a.toml");
            std::fs::write(&config, file).unwrap();
            let start = Start::on(&data)
                .arg("--config")
                .arg(&config)
                .env("HERMITMQ_ADMIN__LISTEN", format!("{host}:0"))
                .env("HERMITMQ_ADMIN__INSECURE", insecure)
                .env("HERMITMQ_ACCESS__TOKENS", tokens);
            let what = format!("{host} {file:?} {insecure}");
            match start.try_run() {
                Ok(_) => assert!(starts || host == "127.0.0.1", "{what}"),
                Err(ended) => {
                    assert!(!starts && host == "0.0.0.0", "{what}: {}", ended.log);
                    assert!(ended.log.contains("admin.insecure = true"), "{}", ended.log);
                }
            }
        }
    }
}

#[test]
fn a_broker_that_asks_nobody_says_so_where_others_reach_it() {
    let (_dir, data) = scratch();
    let open = |host: &str| {
        let broker: Broker = Start::on(&data).arg("--host").arg(host).run();
        let said = broker.log_text().contains("whoever can connect may do everything");
        broker.kill();
        said
    };
    assert!(open("0.0.0.0"));
    assert!(!open("127.0.0.1"));
}
