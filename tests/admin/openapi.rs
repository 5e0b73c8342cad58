//! `/api/v1/openapi.json` against what is answered: every path and method is there, and answers have the form that is described.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::events::Events;
use super::support::http::{Answer, get, send};
use super::support::{RawClient, commit, frame, scratch, wait_for};
use super::{broker, start};

/// What is wrong with a value, seen from its schema: the first thing, and where.
fn mismatch(spec: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(path) = schema["$ref"].as_str() {
        let schema =
            spec.pointer(path.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{path}"));
        return mismatch(spec, schema, value, at);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema[choice].as_array() {
            let fits = schemas.iter().any(|schema| mismatch(spec, schema, value, at).is_none());
            return (!fits).then(|| format!("{at}: {value} is none of {choice}"));
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        types => types.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&is) {
        return Some(format!("{at}: {value} is not {types:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Some(format!("{at}: {value} is not among {words:?}"));
    }
    match value {
        Value::Array(items) => items.iter().enumerate().find_map(|(number, item)| {
            mismatch(spec, &schema["items"], item, &format!("{at}[{number}]"))
        }),
        Value::Object(fields) => {
            let known = schema["properties"].as_object()?;
            let required = schema["required"].as_array().into_iter().flatten();
            let missing =
                required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name));
            if let Some(missing) = missing {
                return Some(format!("{at}.{missing} is missing"));
            }
            fields.iter().find_map(|(name, value)| match known.get(name) {
                Some(schema) => mismatch(spec, schema, value, &format!("{at}.{name}")),
                None if schema["additionalProperties"] == false => {
                    Some(format!("{at}.{name} is not described"))
                }
                None => None,
            })
        }
        _ => None,
    }
}

/// Checks an answer against the operation that it is of.
fn check(spec: &Value, path: &str, method: &str, answer: &Answer) {
    let operation = &spec["paths"][path][method.to_ascii_lowercase()];
    assert!(operation.is_object(), "{method} {path} is not described");
    let responses = &operation["responses"];
    let response = &responses[answer.status.to_string()];
    assert!(response.is_object(), "{method} {path} answers {}: {answer:?}", answer.status);
    let schema = &response["content"]["application/json"]["schema"];
    if schema.is_null() {
        assert_eq!(answer.body, "", "{method} {path}");
        return;
    }
    assert_eq!(answer.header("content-type"), "application/json", "{method} {path}");
    let wrong = mismatch(spec, schema, &answer.json(), "");
    assert_eq!(wrong, None, "{method} {path}: {}", answer.body);
}

#[test]
fn answers_are_as_described() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let spec = get(admin, "/api/v1/openapi.json").json();
    RawClient::produce(addr, "orders", 0).append(&frame(1, b"k", b"\xff"));
    RawClient::produce(addr, "orders", 0).append(&frame(1, b"", b"text"));
    commit(addr, "billing", "orders", 0, 1);
    let record = json!({ "payload": { "data": "x" } });
    let reset = json!({ "topic": "orders", "to": { "offset": 0 } });
    let messages = "/topics/{topic}/partitions/{partition}/messages";
    let _open = RawClient::consume(addr, "other", "orders", 0);
    let connection = wait_for("a connection", || {
        let all = get(admin, "/api/v1/connections").json();
        all["connections"].as_array().unwrap().first().map(|c| c["id"].as_str().unwrap().to_owned())
    });
    let mut seen = BTreeSet::new();
    for (method, path, body) in [
        ("GET", "/openapi.json", Value::Null),
        ("GET", "/cluster", Value::Null),
        ("GET", "/config", Value::Null),
        ("GET", "/events", Value::Null),
        ("GET", "/log-level", Value::Null),
        ("GET", "/connections", Value::Null),
        ("DELETE", "/connections/{connection}", Value::Null),
        ("PUT", "/log-level", json!({ "log_level": "info" })),
        ("GET", "/topics", Value::Null),
        ("GET", "/topics/{topic}", Value::Null),
        ("PATCH", "/topics/{topic}", json!({ "retention_mb": 7 })),
        ("GET", "/topics/{topic}/traffic", Value::Null),
        ("GET", "/topics/{topic}/partitions/{partition}/segments", Value::Null),
        ("GET", messages, Value::Null),
        ("POST", messages, record),
        ("GET", "/groups", Value::Null),
        ("GET", "/groups/{group}", Value::Null),
        ("POST", "/groups/{group}/reset", reset),
        ("DELETE", "/groups/{group}", Value::Null),
        ("DELETE", "/topics/{topic}", Value::Null),
        ("POST", "/topics", json!({ "name": "new", "retention_mb": 7 })),
    ] {
        let described = &spec["paths"][path][method.to_ascii_lowercase()];
        let schema = &described["requestBody"]["content"]["application/json"]["schema"];
        if !body.is_null() {
            assert_eq!(mismatch(&spec, schema, &body, ""), None, "{method} {path}: {body}");
        }
        let filled = path.replace("{topic}", "orders").replace("{partition}", "0");
        let filled = filled.replace("{group}", "billing").replace("{connection}", &connection);
        if path == "/events" {
            // It never ends: two events of it, one with rates and one without.
            let schema = &described["responses"]["200"]["content"]["text/event-stream"]["schema"];
            for event in Events::watch(admin).take(2) {
                assert_eq!(mismatch(&spec, schema, &event, ""), None, "{event}");
            }
            seen.insert((path.to_owned(), "get".to_owned()));
            continue;
        }
        let answer = send(admin, method, &format!("/api/v1{filled}"), &body);
        check(&spec, path, method, &answer);
        seen.insert((path.to_owned(), method.to_ascii_lowercase()));
    }
    let paths = spec["paths"].as_object().unwrap().iter();
    let described: BTreeSet<_> = paths
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (path.clone(), method.clone()))
        })
        .collect();
    assert_eq!(described, seen, "each of them was asked");
    let problem = get(admin, "/api/v1/topics/none").json();
    assert_eq!(mismatch(&spec, &spec["components"]["schemas"]["Problem"], &problem, ""), None);
}

#[test]
fn every_path_is_described() {
    let routes = include_str!("../../src/admin/api/mod.rs");
    let routes: BTreeSet<&str> = routes.split('"').skip(1).step_by(2).collect();
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let spec = get(broker.admin(), "/api/v1/openapi.json").json();
    let described: BTreeSet<&str> =
        spec["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(routes, described);
}

#[test]
fn mismatches_are_found() {
    let spec = json!({ "s": { "type": "string", "enum": ["a"] } });
    let schema = json!({
        "type": "object", "required": ["x"], "additionalProperties": false,
        "properties": { "x": { "type": ["integer", "null"] }, "y": { "type": "array", "items": { "$ref": "#/s" } } },
    });
    let wrong = |value: Value| mismatch(&spec, &schema, &value, "");
    assert_eq!(wrong(json!({ "x": 1, "y": ["a"] })), None);
    assert_eq!(wrong(json!({ "x": null })), None);
    for bad in [
        json!({}),
        json!({ "x": "1" }),
        json!({ "x": 1, "z": 1 }),
        json!({ "x": 1, "y": ["b"] }),
        json!([]),
    ] {
        assert!(wrong(bad.clone()).is_some(), "{bad}");
    }
}
