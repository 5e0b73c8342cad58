//! The programs in `examples/`, against a broker: what they print and what they leave behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use support::{Broker, Start, run_to_end, scratch_in_memory};

/// The directory of the programs. `cargo test` builds them all, a single test target does not.
fn examples() -> &'static PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--examples"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "the examples do not compile");
        let test = std::env::current_exe().unwrap();
        test.parent().and_then(|deps| deps.parent()).unwrap().join("examples")
    })
}

/// Runs an example to its end, which must be a good one; what it printed.
fn example(broker: &Broker, name: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new(examples().join(name));
    command.args(args).env("HERMITMQ_BROKER", broker.addr().to_string());
    command.env("HERMITMQ_ADMIN", broker.admin().to_string());
    let output = run_to_end(command, input.as_bytes().to_vec());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{name}");
    text(&output.stdout)
}

fn broker(data: &std::path::Path) -> Broker {
    Start::on(data).with_admin().arg("--set").arg("topics.default_partitions=2").run()
}

#[test]
fn what_produce_sends_consume_gets_once() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let lines: Vec<_> = (0..250).map(|n| format!("key-{}=value {n}", n % 7)).collect();
    assert_eq!(
        example(&broker, "produce", &["orders"], &lines.join("\n")),
        "250 of 250 records stored\n"
    );

    let first = example(&broker, "consume", &["orders", "billing", "150"], "");
    // It was committed to the last: the rest is what comes next.
    let rest = example(&broker, "consume", &["orders", "billing", "100"], "");
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    };
    let mut got = values(&first);
    got.extend(values(&rest));
    let mut sent = lines;
    got.sort();
    sent.sort();
    assert_eq!(got, sent);
}

#[test]
fn blocking_gives_back_what_it_was_given() {
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    assert_eq!(
        example(&broker, "blocking", &["greetings", "hello, world"], ""),
        "0: hello, world\n"
    );
    assert_eq!(example(&broker, "blocking", &["greetings", "again"], ""), "1: again\n");
}

#[test]
fn topics_shows_what_is_there() {
    let (_dir, data) = scratch_in_memory();
    let broker = Start::on(&data).with_admin().run();
    example(&broker, "produce", &["orders"], "a\nb\nc\n");
    example(&broker, "consume", &["orders", "billing", "2"], "");
    let shown = example(&broker, "topics", &["prices"], "");
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "billing: 1 records behind",
            "orders: 1 partitions, 90 bytes",
            "prices: 3 partitions, 0 bytes"
        ]
    );
}
