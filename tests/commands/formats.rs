//! What `consume` prints, byte for byte.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::support::{Broker, RawClient, Start, frame, scratch};
use super::{complaint, ok};

/// A second, in ns.
const S: u64 = 1_000_000_000;

/// Four records, a second apart from 1970-01-01T00:00:01Z on: text, nothing, binary, a newline inside.
const RECORDS: [(&[u8], &[u8]); 4] =
    [(b"k", b"text"), (b"", b""), (b"\xfe\0", b"\xff\0\r"), (b"key", b"")];

fn broker(data: &std::path::Path) -> (Broker, String) {
    let broker = Start::on(data).env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", 2).run();
    let mut producer = RawClient::produce(broker.addr(), "t", 1);
    for (number, (key, payload)) in (1..).zip(RECORDS) {
        producer.append(&frame(number * S + 5_000_000, key, payload));
    }
    let addr = broker.addr().to_string();
    (broker, addr)
}

#[test]
fn every_format_is_byte_exact() {
    let (_dir, data) = scratch();
    let (_broker, addr) = broker(&data);
    let to_end = ["consume", "t", "--broker", &addr, "--until-end"];
    let consume = |args: &[&str]| ok(&[&to_end[..], args].concat(), "");
    let lines = b"text\n\n\xff\0\r\n\n";
    assert_eq!(consume(&[]), lines);
    assert_eq!(consume(&["--format", "lines"]), lines);
    assert_eq!(consume(&["--format", "raw"]), b"text\xff\0\r");
    assert_eq!(consume(&["--raw"]), b"text\xff\0\r");
    assert_eq!(consume(&["--format", "hex"]), b"74657874\n\nff000d\n\n");
    let json = String::from_utf8(consume(&["--format", "json"])).unwrap();
    let objects: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        objects[0],
        json!({
            "topic": "t", "partition": 1, "offset": 0, "timestamp": S + 5_000_000, "records": 1,
            "key": "k", "key_encoding": "utf8",
            "payload_bytes": 4, "payload": "text", "payload_encoding": "utf8",
        })
    );
    assert_eq!((&objects[1]["key"], &objects[1]["payload"]), (&Value::Null, &json!("")));
    assert_eq!(objects[2]["key"], "/gA=");
    assert_eq!(objects[2]["payload"], "/wAN");
    assert_eq!(objects[2]["payload_encoding"], "base64");
    assert_eq!(objects.len(), RECORDS.len());
}

#[test]
fn a_template_says_what_is_printed() {
    let (_dir, data) = scratch();
    let (_broker, addr) = broker(&data);
    let to_end = ["consume", "t", "--broker", &addr, "--until-end"];
    let consume = |args: &[&str]| ok(&[&to_end[..], args].concat(), "");
    assert_eq!(
        consume(&["-f", r"%t/%p/%o/%T [%k] %K:[%s] %S%%\x00\n"]),
        b"t/1/0/1005 [k] 1:[text] 4%\0\n\
          t/1/1/2005 [] 0:[] 0%\0\n\
          t/1/2/3005 [\xfe\0] 2:[\xff\0\r] 3%\0\n\
          t/1/3/4005 [key] 3:[] 0%\0\n"
    );
    assert_eq!(consume(&["--template", "%s", "--from", "earliest"]), b"text\xff\0\r");
    assert_eq!(consume(&["-f", "-%n", "--count", "2"]), b"-\n-\n");
    let wrong = complaint(2, &["consume", "t", "-f", "%q"]);
    assert!(wrong.contains("there is no %q") && wrong.contains("%s"), "{wrong}");
    complaint(2, &["consume", "t", "-f", "%s", "--raw"]);
    complaint(2, &["consume", "t", "--format", "hex", "--raw"]);
}

#[test]
fn a_start_may_be_a_time() {
    let (_dir, data) = scratch();
    let (broker, addr) = broker(&data);
    let consume = |from: &str| {
        let args = ["consume", "t", "--broker", &addr, "--until-end", "-f", "%o "];
        ok(&[&args[..], &["--from", from]].concat(), "")
    };
    assert_eq!(consume("1970-01-01T00:00:03Z"), b"2 3 ");
    assert_eq!(consume("1970-01-01T02:00:04.005+02:00"), b"3 ");
    assert_eq!(consume("1970-01-01"), b"0 1 2 3 ");
    assert_eq!(consume("@2.005"), b"1 2 3 ");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let now = u64::try_from(now).unwrap();
    RawClient::produce(broker.addr(), "t", 1).append(&frame(now, b"", b"new"));
    assert_eq!(consume("-1h"), b"4 ");
    assert_eq!(consume("-2d12h"), b"4 ");
    assert_eq!(consume("-20000000d"), b"0 1 2 3 4 ");
    let group = ["consume", "t", "--broker", &addr, "--until-end", "-f", "%o ", "--group", "g"];
    assert_eq!(ok(&[&group[..], &["--from=-1h"]].concat(), ""), b"4 ");
    assert_eq!(ok(&group, ""), b"", "it was committed");
    for wrong in ["yesterday", "-1", "2026-02-30", "1h"] {
        let line = complaint(2, &["consume", "t", "--from", wrong]);
        assert!(line.contains("2026-01-31T09:00:00Z") && line.contains("earliest"), "{line}");
    }
}

#[test]
fn lists_come_as_tables_json_and_yaml() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let admin = broker.admin().to_string();
    let topic = |args: &[&str]| {
        let output = ok(&[&["topic"], args, &["--admin", &admin]].concat(), "");
        String::from_utf8(output).unwrap()
    };
    topic(&["create", "orders", "--partitions", "2"]);
    let yaml = topic(&["list", "--output", "yaml"]);
    let json: Value = serde_json::from_str(&topic(&["list", "--output", "json"])).unwrap();
    let bytes = &json[0]["bytes"];
    assert_eq!(
        yaml,
        format!(
            "- bytes: {bytes}\n  name: __consumer_offsets\n  partitions: 1\n  reserved: true\n\
             - bytes: 0\n  name: orders\n  partitions: 2\n  reserved: false\n"
        )
    );
    let described = topic(&["describe", "orders", "--output", "yaml"]);
    assert!(described.contains("\npartitions:\n  - bytes: 0\n    damaged: []\n"), "{described}");
    let yaml = ok(&["config", "show", "--port", "7", "--output", "yaml"], "");
    let yaml = String::from_utf8(yaml).unwrap();
    let port = "- key: server.port\n  source: \"--port\"\n  value: \"7\"\n";
    assert!(yaml.contains(port), "{yaml}");
    let json = ok(&["config", "show", "--port", "7", "--output", "json"], "");
    let json: Value = serde_json::from_slice(&json).unwrap();
    let port = json!({ "key": "server.port", "value": "7", "source": "--port" });
    assert!(json.as_array().unwrap().contains(&port), "{json}");
    let verified = ok(&["log", "verify", data.to_str().unwrap(), "--output", "yaml"], "");
    assert!(String::from_utf8(verified).unwrap().contains("\nok: true\n"));
}
