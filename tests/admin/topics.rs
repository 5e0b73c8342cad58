//! Topics and groups over HTTP, and what they are for the clients of the broker.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::support::http::{Answer, get, send};
use super::support::{RawClient, commit, drain, frame, listing, scratch, wait_for};
use super::{Broker, broker, problem, start};

fn create(admin: SocketAddr, topic: &Value) -> Answer {
    send(admin, "POST", "/api/v1/topics", topic)
}

#[test]
fn a_topic_from_its_creation_to_its_end() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let asked =
        json!({ "name": "orders", "partitions": 2, "retention_hours": 24, "durability": "always" });
    let answer = create(admin, &asked);
    assert_eq!(answer.status, 201, "{answer:?}");
    let topic = answer.json();
    assert_eq!((&topic["name"], &topic["reserved"]), (&json!("orders"), &json!(false)));
    assert_eq!(topic["settings"]["retention_hours"], 24);
    assert_eq!(topic["settings"]["max_segment_mb"], json!(null));
    assert_eq!(topic["effective"]["max_segment_mb"], 1024);
    assert_eq!(topic["effective"]["durability"], "always");
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 2);

    assert_eq!(RawClient::produce(addr, "orders", 1).append(&frame(1, b"", b"x")), 0);
    let described = get(admin, "/api/v1/topics/orders").json();
    let partition = &described["partitions"][1];
    assert_eq!(
        (
            &partition["partition"],
            &partition["end_offset"],
            &partition["flushed_offset"],
            &partition["bytes"]
        ),
        (&json!(1), &json!(1), &json!(1), &json!(30))
    );
    let list = get(admin, "/api/v1/topics").json();
    let names: Vec<_> =
        list["topics"].as_array().unwrap().iter().map(|topic| &topic["name"]).collect();
    assert_eq!(names, ["__consumer_offsets", "orders"]);

    let change = json!({ "partitions": 3, "retention_hours": null, "durability": "interval" });
    let answer = send(admin, "PATCH", "/api/v1/topics/orders", &change);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["effective"]["retention_hours"], 168);
    assert_eq!(answer.json()["effective"]["durability"], "interval");
    assert_eq!(RawClient::produce(addr, "orders", 2).append(&frame(1, b"", b"x")), 0);

    let answer = send(admin, "DELETE", "/api/v1/topics/orders", &json!({}));
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    problem(&get(admin, "/api/v1/topics/orders"), 404, "unknown-topic", Some("topic"));
    problem(
        &send(admin, "DELETE", "/api/v1/topics/orders", &json!({})),
        404,
        "unknown-topic",
        Some("topic"),
    );
    wait_for("its directories to go", || {
        listing(&data).iter().all(|name| !name.contains("orders")).then_some(())
    });
}

#[test]
fn what_cannot_be_a_topic_is_refused() {
    let (_dir, data) = scratch();
    let broker = start(&data).env("HERMITMQ_TOPICS__MAX_PARTITIONS", 10).run();
    let admin = broker.admin();
    assert_eq!(create(admin, &json!({ "name": "t" })).status, 201);
    for (wrong, status, code, field) in [
        (json!({ "name": "t" }), 409, "conflict", Some("name")),
        (json!({ "name": "a b" }), 400, "invalid-request", Some("name")),
        (json!({ "name": ".." }), 400, "invalid-request", Some("name")),
        (json!({ "name": "__mine" }), 403, "reserved", Some("topic")),
        (json!({}), 400, "invalid-request", None),
        (json!({ "name": "u", "partitions": 0 }), 400, "invalid-request", Some("partitions")),
        (json!({ "name": "u", "partitions": -1 }), 400, "invalid-request", Some("partitions")),
        (json!({ "name": "u", "partitions": 11 }), 409, "limit-reached", Some("partitions")),
        (
            json!({ "name": "u", "max_segment_mb": 99_999_999 }),
            400,
            "invalid-request",
            Some("max_segment_mb"),
        ),
        (json!({ "name": "u", "durability": "never" }), 400, "invalid-request", Some("durability")),
        (json!({ "name": "u", "retention": 1 }), 400, "invalid-request", Some("retention")),
        (json!([]), 400, "invalid-request", None),
    ] {
        let answer = create(admin, &wrong);
        assert_eq!(
            answer.json()["type"],
            format!("urn:hermitmq:problem:{code}"),
            "{wrong}: {answer:?}"
        );
        problem(&answer, status, code, field);
    }
    let alter = |topic: &str, change: &Value| {
        send(admin, "PATCH", &format!("/api/v1/topics/{topic}"), change)
    };
    problem(&alter("t", &json!({ "partitions": 0 })), 400, "invalid-request", Some("partitions"));
    problem(&alter("t", &json!({ "name": "v" })), 400, "invalid-request", Some("name"));
    problem(&alter("u", &json!({})), 404, "unknown-topic", Some("topic"));
    problem(&alter("__consumer_offsets", &json!({})), 403, "reserved", Some("topic"));
    let reserved = "/api/v1/topics/__consumer_offsets";
    problem(&send(admin, "DELETE", reserved, &json!({})), 403, "reserved", Some("topic"));
    assert_eq!(create(admin, &json!({ "name": "v", "partitions": 3 })).status, 201);
    problem(&alter("v", &json!({ "partitions": 2 })), 409, "conflict", Some("partitions"));
    assert_eq!(get(admin, "/api/v1/topics").json()["topics"].as_array().unwrap().len(), 3);
}

/// A broker with ten records in `orders`, 100 ns apart.
fn with_orders() -> (tempfile::TempDir, Broker) {
    let (dir, data) = scratch();
    let broker = broker(&data);
    let mut producer = RawClient::produce(broker.addr(), "orders", 0);
    for i in 0..10 {
        producer.append(&frame(i * 100, b"", b"x"));
    }
    (dir, broker)
}

fn reset(admin: SocketAddr, to: &Value) -> Answer {
    send(admin, "POST", "/api/v1/groups/billing/reset", to)
}

#[test]
fn groups_are_described() {
    let (_dir, broker) = with_orders();
    let (addr, admin) = (broker.addr(), broker.admin());
    assert_eq!(get(admin, "/api/v1/groups").json(), json!({ "groups": [] }));
    problem(&get(admin, "/api/v1/groups/billing"), 404, "unknown-group", Some("group"));
    commit(addr, "billing", "orders", 0, 4);
    let groups = get(admin, "/api/v1/groups").json();
    let group = &groups["groups"][0];
    assert_eq!(
        (&group["name"], &group["lag"], &group["partitions"]),
        (&json!("billing"), &json!(6), &json!(1))
    );
    let described = get(admin, "/api/v1/groups/billing").json();
    let offset = &described["offsets"][0];
    assert_eq!(
        (&offset["topic"], &offset["committed"], &offset["lag"]),
        (&json!("orders"), &json!(4), &json!(6))
    );
    assert!(offset["last_commit_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000);
    let metrics = get(admin, "/metrics").body;
    let lag = "hermitmq_group_lag_records{group=\"billing\",topic=\"orders\",partition=\"0\"} 6\n";
    assert!(metrics.contains(lag), "{metrics}");
    problem(&get(admin, "/api/v1/groups/a%20b"), 400, "invalid-request", Some("group"));
}

#[test]
fn groups_are_put_somewhere_else() {
    let (_dir, broker) = with_orders();
    let (addr, admin) = (broker.addr(), broker.admin());
    commit(addr, "billing", "orders", 0, 4);
    let plan = reset(admin, &json!({ "topic": "orders", "to": { "offset": 7 }, "dry_run": true }));
    assert_eq!(plan.status, 200, "{plan:?}");
    let step = json!({ "partition": 0, "from": 4, "to": 7, "start_offset": 0, "end_offset": 10 });
    assert_eq!(plan.json(), json!({ "dry_run": true, "steps": [step] }));
    assert_eq!(get(admin, "/api/v1/groups/billing").json()["offsets"][0]["committed"], 4);
    for (to, resumes) in [
        (json!({ "offset": 7 }), 7),
        (json!("earliest"), 0),
        (json!({ "timestamp_ns": 850 }), 9),
        (json!("latest"), 10),
        (json!({ "offset": 7 }), 7),
    ] {
        let answer = reset(admin, &json!({ "topic": "orders", "to": to }));
        assert_eq!(answer.json()["steps"][0]["to"], resumes, "{answer:?}");
        assert_eq!(get(admin, "/api/v1/groups/billing").json()["offsets"][0]["committed"], resumes);
    }
    assert_eq!(drain(addr, "billing", "orders", 0).len(), 3, "the group resumes there");
    for (wrong, status, code, field) in [
        (
            json!({ "topic": "orders", "to": { "offset": 11 } }),
            400,
            "offset-out-of-range",
            Some("to"),
        ),
        (json!({ "topic": "none", "to": "latest" }), 404, "unknown-topic", Some("topic")),
        (
            json!({ "topic": "orders", "to": "latest", "partitions": [1] }),
            404,
            "unknown-partition",
            Some("partitions"),
        ),
        (json!({ "topic": "orders", "to": "newest" }), 400, "invalid-request", Some("to")),
        (json!({ "topic": "orders" }), 400, "invalid-request", None),
    ] {
        let answer = reset(admin, &wrong);
        assert_eq!(
            answer.json()["type"],
            format!("urn:hermitmq:problem:{code}"),
            "{wrong}: {answer:?}"
        );
        problem(&answer, status, code, field);
    }
}

#[test]
fn a_group_is_left_alone_while_its_consumers_are_connected() {
    let (_dir, broker) = with_orders();
    let (addr, admin) = (broker.addr(), broker.admin());
    commit(addr, "billing", "orders", 0, 4);
    let consumer = RawClient::consume(addr, "billing", "orders", 0);
    wait_for("the consumer to be known", || {
        let consumers = get(admin, "/api/v1/groups/billing").json()["consumers"].as_u64();
        (consumers == Some(1)).then_some(())
    });
    problem(&reset(admin, &json!({ "topic": "orders", "to": "latest" })), 409, "conflict", None);
    let delete = || send(admin, "DELETE", "/api/v1/groups/billing", &json!({}));
    problem(&delete(), 409, "conflict", None);
    drop(consumer);
    wait_for("the consumer to be gone", || (delete().status == 204).then_some(()));
    problem(&get(admin, "/api/v1/groups/billing"), 404, "unknown-group", Some("group"));
}
