//! A client that somebody else wrote from `docs/PROTOCOL.md` alone: the page of Python in `examples/python`, against the broker
//! and the SDK.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::process::{Command, Stdio};

use hermitmq::client::{ConsumerOptions, Packing, ProducerOptions, Record, blocking};
use hermitmq::model::{GroupName, TopicName};
use support::{Broker, run_to_end, scratch_in_memory};

/// A broker, if Python is there: a machine with Rust alone does not have it.
fn broker() -> Option<(tempfile::TempDir, Broker)> {
    let version = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("SKIPPED: python3 is not installed");
        return None;
    }
    let (dir, data) = scratch_in_memory();
    let broker = Broker::start(&data);
    Some((dir, broker))
}

/// Runs a program that has the client and the broker's address; what it printed.
fn run(broker: &Broker, program: &str) -> String {
    let mut command = Command::new("python3");
    let program = format!("import sys\nfrom hermitmq import *\nbroker = sys.argv[1]\n{program}");
    command.args(["-B", "-c", &program, &broker.addr().to_string()]);
    command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python"));
    let output = run_to_end(command, Vec::new());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn topic() -> TopicName {
    TopicName::parse("t").unwrap()
}

#[test]
fn what_python_sends_the_sdk_gets() {
    let Some((_dir, broker)) = broker() else { return };
    let printed = run(
        &broker,
        r#"
producer = Producer(broker, "t")
print(producer.value, producer.send(b"a cup", key=b"customer-7", timestamp=5))
for n in range(1000):
    producer.write(bytes([n % 256]) * n)
print(sum(producer.acked() for _ in range(1000)))
"#,
    );
    assert_eq!(printed, format!("0 0\n{}\n", (1..=1000).sum::<u64>()));

    let options = ConsumerOptions { until_end: true, ..ConsumerOptions::default() };
    let addr = broker.addr().to_string();
    let mut consumer = blocking::Consumer::connect(&addr, None, topic(), 0, options).unwrap();
    let first = consumer.recv().unwrap();
    assert_eq!(
        (first.timestamp, &first.key[..], &first.payload[..]),
        (5, &b"customer-7"[..], &b"a cup"[..])
    );
    for n in 0..1000usize {
        let message = consumer.recv().unwrap();
        assert_eq!(message.payload, vec![n.to_le_bytes()[0]; n]);
    }
}

#[test]
fn what_the_sdk_sends_python_gets_and_commits() {
    let Some((_dir, broker)) = broker() else { return };
    let addr = broker.addr().to_string();
    let packing = Packing::Lines { max_records: 100 };
    let linger = std::time::Duration::from_millis(50);
    let options = ProducerOptions { packing, linger, ..ProducerOptions::default() };
    let producer = blocking::Producer::connect(&addr, topic(), 0, options).unwrap();
    for n in 0..10 {
        producer.send_with(Record::new(format!("record {n}")), |_| ()).unwrap();
    }
    producer.send(Record::new("the \n last").with_key("k")).unwrap().wait().unwrap();
    producer.close();

    let read = r#"
records = list(Consumer(broker, "t", group="billing", until_end=True))
print([(r.offset, r.key, r.payload) for r in records])
"#;
    let expected: Vec<String> = (0..10)
        .map(|n| format!("({n}, b'', b'record {n}')"))
        .chain(["(10, b'k', b'the \\n last')".to_owned()])
        .collect();
    assert_eq!(run(&broker, read), format!("[{}]\n", expected.join(", ")));
    // Ended by the broker, it can still commit.
    run(
        &broker,
        r#"
consumer = Consumer(broker, "t", group="billing")
for record in consumer:
    if record.offset == 10:
        record.commit()
        break
consumer.socket.shutdown(socket.SHUT_WR)
while consumer.stream.read(4096): pass
"#,
    );
    assert_eq!(run(&broker, read), "[]\n");
    let group = GroupName::parse("billing").unwrap();
    let options = ConsumerOptions { until_end: true, ..ConsumerOptions::default() };
    let mut rest = blocking::Consumer::connect(&addr, group, topic(), 0, options).unwrap();
    assert_eq!(rest.recv().unwrap_err(), hermitmq::client::ConsumeError::End);
}

#[test]
fn what_python_is_refused_has_a_reason() {
    let Some((_dir, broker)) = broker() else { return };
    let printed = run(
        &broker,
        r#"
for topic, partition in ("../x", 0), ("t", 7), ("__consumer_offsets", 0):
    try:
        Producer(broker, topic, partition)
    except Refused as refused:
        print(*refused.args)
producer = Producer(broker, "t")
try:
    producer.send(bytes(60 * 1024 * 1024))
except (Refused, ConnectionError) as refused:
    print(refused.args[0] if isinstance(refused, Refused) else 8)
print(Producer(broker, "t").value)
"#,
    );
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].starts_with("5 0 topic (0x01) is not allowed"), "{printed}");
    assert_eq!(lines[1], "7 1 t has no partition 7");
    assert!(lines[2].starts_with("10 0 "), "{printed}");
    assert_eq!(lines[3..], ["8", "0"], "nothing of what is too large was stored");
    drop(broker);
}
