//! What is said where something is wrong: the name of what is wrong, and what to do.

use super::support::{Start, scratch, wait_for};
use super::{complaint, ok};

#[test]
fn a_broker_without_a_port_has_the_default_one() {
    // Nothing listens on the default port of that address.
    let line = complaint(1, &["consume", "t", "--broker", "127.0.0.99"]);
    assert!(line.contains("127.0.0.99:9092"), "{line}");
}

#[test]
fn what_protocol_1_0_cannot_do_is_said_with_what_it_can() {
    for (args, instead) in [
        (&["--until-end"][..], "--count N"),
        (&["--member", "0/2"], "--partition N"),
        (&["--from", "-1h"], "an offset, earliest and latest"),
    ] {
        let args = [&["consume", "t", "--protocol", "1.0"], args].concat();
        let line = complaint(2, &args);
        assert!(line.contains(instead) && line.contains("Without --protocol 1.0"), "{line}");
    }
}

#[test]
fn an_unknown_setting_of_a_topic_is_named_with_the_nearest_one() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let admin = broker.admin().to_string();
    ok(&["topic", "create", "t", "--admin", &admin], "");
    for (command, setting, want) in [
        ("create", "x=1", "x: there is no such name; there are "),
        (
            "alter",
            "retention_hour=1",
            "retention_hour: there is no such name; did you mean retention_hours?",
        ),
        ("alter", "retention_hours=soon", "retention_hours: "),
    ] {
        let line = complaint(2, &["topic", command, "t", "--set", setting, "--admin", &admin]);
        assert!(line.contains(want), "{line}");
        assert!(!line.contains("body"), "nobody has typed a body: {line}");
    }
}

#[test]
fn the_offsets_topic_is_reset_by_nobody() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let (addr, admin) = (broker.addr().to_string(), broker.admin().to_string());
    ok(&["produce", "t", "--broker", &addr], "a\n");
    ok(&["consume", "t", "--broker", &addr, "--group", "g", "--count", "1"], "");
    let reset = ["group", "reset", "g", "--topic", "__consumer_offsets", "--to", "earliest"];
    let line = complaint(1, &[&reset[..], &["--admin", &admin]].concat());
    assert!(line.contains("__consumer_offsets is the broker's own topic"), "{line}");
}

#[test]
fn the_log_says_what_was_altered_in_plain_words() {
    let (_dir, data) = scratch();
    let broker = Start::on(&data).with_admin().run();
    let admin = broker.admin().to_string();
    ok(&["topic", "create", "t", "--admin", &admin], "");
    let set = ["--set", "retention_hours=24", "--set", "durability=always"];
    ok(&[&["topic", "alter", "t", "--admin", &admin], &set[..]].concat(), "");
    let line = wait_for("the line", || broker.said("topic altered").pop());
    assert_eq!(line.get("settings"), "durability=always partitions=1 retention_hours=24");
}
