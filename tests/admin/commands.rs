//! `hermitmq topic` and `hermitmq group`, against a real broker.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::support::{Broker, RawClient, commit, frame, hermitmq, run_to_end, scratch};
use super::{broker, start};

/// What a command has said, and its exit code.
#[derive(Debug)]
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Said {
    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The one line of a failure.
    fn line(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        let line = self.stderr.strip_prefix("hermitmq: ").unwrap().trim_end();
        assert!(!line.contains('\n'), "{self:?}");
        line
    }
}

fn run(admin: SocketAddr, args: &str) -> Said {
    let admin = format!("http://{admin}");
    let words: Vec<&str> = args.split(' ').chain(["--admin", &admin]).collect();
    said(&words, &[])
}

fn said(words: &[&str], env: &[(&str, &str)]) -> Said {
    let mut command = hermitmq(words);
    command.envs(env.iter().copied());
    let output = run_to_end(command, Vec::new());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn topics() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    let created = run(
        admin,
        "topic create orders --partitions 2 --set durability=always --set retention_hours=24",
    );
    assert_eq!(created.code, 0, "{created:?}");
    assert!(created.stdout.contains("\n  retention_hours = 24\n"), "{created:?}");
    assert!(created.stdout.contains("\n  durability = always\n"), "{created:?}");
    assert!(created.stdout.contains("\n  retention_mb = 0  (default)\n"), "{created:?}");
    RawClient::produce(broker.addr(), "orders", 1).append(&frame(1, b"", b"x"));

    let list = run(admin, "topic list");
    assert_eq!(words(&list.stdout)[0], ["topic", "partitions", "bytes", "reserved"]);
    assert_eq!(words(&list.stdout)[2], ["orders", "2", "30", "-"]);
    let json = run(admin, "topic list --output json").json();
    assert_eq!(
        json[1],
        json!({ "name": "orders", "reserved": false, "partitions": 2, "bytes": 30 })
    );

    let described = run(admin, "topic describe orders");
    assert_eq!(words(&described.stdout).last().unwrap()[..4], ["1", "0", "1", "1"]);
    let json = run(admin, "topic describe orders --output json").json();
    assert_eq!(json["partitions"][1]["end_offset"], 1);
    assert_eq!(json["settings"]["retention_hours"], 24);

    let altered =
        run(admin, "topic alter orders --partitions 3 --set retention_hours=default --output json")
            .json();
    assert_eq!(altered["effective"]["retention_hours"], 168);
    assert_eq!(altered["partitions"].as_array().unwrap().len(), 3);
    assert!(run(admin, "topic alter orders").line(2).contains("--set"));

    // There is no terminal to ask on.
    assert!(run(admin, "topic delete orders").line(2).contains("--yes"));
    assert_eq!(run(admin, "topic list --output json").json().as_array().unwrap().len(), 2);
    assert_eq!(run(admin, "topic delete orders --yes").stdout, "deleted orders\n");
    assert_eq!(run(admin, "topic list --output json").json().as_array().unwrap().len(), 1);
}

#[test]
fn groups() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let (addr, admin) = (broker.addr(), broker.admin());
    let mut producer = RawClient::produce(addr, "orders", 0);
    for i in 0..5 {
        producer.append(&frame(i, b"", b"x"));
    }
    commit(addr, "billing", "orders", 0, 2);
    let list = run(admin, "group list");
    assert_eq!(words(&list.stdout)[1], ["billing", "0", "1", "3"]);
    let described = run(admin, "group describe billing");
    assert_eq!(words(&described.stdout)[1], ["orders", "0", "2", "0", "5", "3", "0"]);

    let plan = run(admin, "group reset billing --topic orders --to earliest --dry-run");
    assert_eq!(words(&plan.stdout)[1], ["0", "2", "0", "0", "5"]);
    assert!(plan.stdout.contains("--dry-run"), "{plan:?}");
    let step = json!({ "partition": 0, "from": 2, "to": 4, "start_offset": 0, "end_offset": 5 });
    let done =
        run(admin, "group reset billing --topic orders --partition 0 --to 4 --output json").json();
    assert_eq!(done, json!([step]));
    let json = run(admin, "group describe billing --output json").json();
    assert_eq!(
        (&json["offsets"][0]["committed"], &json["offsets"][0]["lag"]),
        (&json!(4), &json!(1))
    );
    assert!(run(admin, "group reset billing --topic orders --to 6").line(1).contains("offset 6"));
    assert!(
        run(admin, "group reset billing --topic orders --to soon").line(2).contains("earliest")
    );

    assert!(run(admin, "group delete billing").line(2).contains("--yes"));
    assert_eq!(
        run(admin, "group delete billing --yes --output json").json(),
        json!({ "deleted": "billing" })
    );
    assert!(run(admin, "group describe billing").line(1).contains("no group billing"));
}

#[test]
fn failures_are_one_line_with_their_exit_code() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    assert!(run(admin, "topic describe none").line(1).contains("no topic none"));
    assert!(run(admin, "topic create t --set retention=1").line(2).contains("retention"));
    assert!(run(admin, "topic create a/b").line(2).contains("byte 0x2f"));
    let nobody = said(&["topic", "list", "--admin", "127.0.0.1:1"], &[]);
    assert!(nobody.line(1).contains("admin.listen"), "{nobody:?}");
    let wrong = said(&["topic", "list", "--admin", "ftp://x:1"], &[]);
    assert!(wrong.line(2).contains("HOST:PORT"), "{wrong:?}");
    // The port of the clients speaks no HTTP, and closes.
    let other = said(&["topic", "list", "--admin", &broker.addr().to_string()], &[]);
    assert!(other.line(1).contains("no answer"), "{other:?}");
    let env = said(&["topic", "list"], &[("HERMITMQ_ADMIN", &admin.to_string())]);
    assert_eq!(env.code, 0, "{env:?}");
}

#[test]
fn health_finds_the_listener_in_the_configuration() {
    let (dir, data) = scratch();
    let broker: Broker = start(&data).run();
    let listen = broker.admin().to_string();
    let file = dir.path().join("here.toml");
    std::fs::write(&file, format!("[admin]\nlisten = \"{listen}\"\n")).unwrap();
    let health = said(&["health", "--config", file.to_str().unwrap()], &[]);
    assert_eq!((health.code, health.stdout.as_str()), (0, "ok\n"), "{health:?}");
    let health = said(&["health", "--ready"], &[("HERMITMQ_ADMIN__LISTEN", &listen)]);
    assert_eq!(health.code, 0, "{health:?}");
    let none = said(&["health"], &[("HERMITMQ_ADMIN__LISTEN", "")]);
    assert!(none.line(2).contains("admin.listen"), "{none:?}");
}
