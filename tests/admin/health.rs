//! `/livez`, `/startupz` and `/readyz` while all is well, and while it is not.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;

use super::support::http::{Answer, get, send, try_request};
use super::support::{
    Broker, INJECT_TOOLS, RawClient, Start, Tracer, VOLUME_TOOLS, Volume, frame, hermitmq,
    inject_on, privileged, run_to_end, scratch, scratch_in_memory, wait_for,
};
use super::{broker, problem, start};

/// The reason that a check gives, if it is not ok.
fn reason(answer: &Answer, check: &str) -> Option<String> {
    let body = answer.json();
    let checks = body["checks"].as_array().unwrap();
    let found =
        checks.iter().find(|found| found["name"] == check).unwrap_or_else(|| panic!("{body}"));
    assert_eq!(found["ok"] == true, found.get("reason").is_none(), "{body}");
    found.get("reason").map(|reason| reason.as_str().unwrap().to_owned())
}

/// Waits until `/readyz` says that it is not ready because of this check; gives the reason.
fn wait_until_not_ready(admin: SocketAddr, check: &str) -> String {
    wait_for(check, || {
        let answer = get(admin, "/readyz");
        let reason = reason(&answer, check)?;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.json()["ok"], false);
        Some(reason)
    })
}

fn wait_until_ready(admin: SocketAddr) {
    wait_for("the broker to be ready", || (get(admin, "/readyz").status == 200).then_some(()));
}

/// What `hermitmq health` does: its exit code, and what it says.
fn health(admin: SocketAddr, what: &[&str]) -> (i32, String) {
    let admin = admin.to_string();
    let args = [&["health", "--admin", &admin][..], what].concat();
    let output = run_to_end(hermitmq(&args), Vec::new());
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn all_is_well() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = broker.admin();
    wait_until_ready(admin);
    for path in ["/livez", "/startupz", "/readyz"] {
        let answer = get(admin, path);
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.json()["ok"], true, "{answer:?}");
        problem(
            &send(admin, "POST", path, &serde_json::json!({})),
            405,
            "method-not-allowed",
            None,
        );
    }
    let ready = get(admin, "/readyz");
    for check in ["recovery", "shutdown", "reactors", "disk_space", "flush", "damage"] {
        assert_eq!(reason(&ready, check), None);
    }
    assert_eq!(health(admin, &[]).0, 0);
    assert_eq!(health(admin, &["--live"]).0, 0);
}

#[test]
fn a_long_recovery_is_told_from_a_hang() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let before = broker(&data);
    RawClient::produce(before.addr(), "t", 0).append(&frame(1, b"", b"x"));
    before.kill();
    let log = data.join("t_0").join(format!("{:020}.wal", 0));
    let slow = inject_on(&log, "openat:delay_enter=60000000");
    let mut broker = start(&data).by(slow).spawn();
    let admin = broker.admin();
    let reason = wait_until_not_ready(admin, "recovery");
    assert!(reason.contains("recovered"), "{reason}");
    assert_eq!(get(admin, "/livez").status, 200);
    assert_eq!(get(admin, "/startupz").status, 503);
    assert_eq!(health(admin, &[]).0, 1);
    assert_eq!(health(admin, &["--live"]).0, 0);
    problem(&get(admin, "/api/v1/topics/t/partitions/0/messages"), 503, "starting", None);
    assert_eq!(get(admin, "/api/v1/cluster").json()["state"], "starting");
    broker.end_injection();
    broker.listening().unwrap();
    wait_until_ready(admin);
    assert_eq!(get(admin, "/startupz").status, 200);
}

#[test]
fn a_reactor_that_does_not_turn() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let broker = start(&data).env("HERMITMQ_SERVER__REACTORS", 1).run();
    let admin = broker.admin();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    producer.append(&frame(1, b"", b"x"));
    // Until the tracer goes, or very long.
    let tracer = Tracer::attach(broker.pid(), "pwrite64:delay_enter=20000000");
    producer.send(&frame(2, b"", b"y"));
    let reason = wait_until_not_ready(admin, "reactors");
    assert!(reason.contains("reactor 0 has not turned for"), "{reason}");
    // Not long enough to be taken for dead.
    assert_eq!(get(admin, "/livez").status, 200);
    drop(tracer);
    wait_until_ready(admin);
}

#[test]
fn a_flush_that_failed() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (_dir, data) = scratch_in_memory();
    let broker = broker(&data);
    let admin = broker.admin();
    RawClient::produce(broker.addr(), "doomed", 0).append(&frame(1, b"", b"x"));
    broker.wait_flushed("doomed");
    let tracer = Tracer::attach(broker.pid(), "fdatasync:error=EIO");
    RawClient::produce(broker.addr(), "doomed", 0).append(&frame(2, b"", b"y"));
    let reason = wait_until_not_ready(admin, "flush");
    assert!(reason.contains("doomed/0"), "{reason}");
    drop(tracer);
    assert_eq!(get(admin, "/livez").status, 200, "a restart is the operator's to decide");
    let metrics = get(admin, "/metrics").body;
    assert!(metrics.contains("\nhermitmq_flush_errors_total 1\n"), "{metrics}");
    assert!(metrics.contains("read_only{topic=\"doomed\",partition=\"0\"} 1\n"), "{metrics}");
}

#[test]
fn a_disk_that_is_full() {
    if !privileged(&VOLUME_TOOLS) {
        return;
    }
    let volume = Volume::new(64);
    let broker = start(&volume.data()).env("HERMITMQ_STORAGE__MIN_FREE_MB", 16).run();
    let admin = broker.admin();
    wait_until_ready(admin);
    let ballast = volume.fill(0);
    let reason = wait_until_not_ready(admin, "disk_space");
    assert!(reason.contains("16 MiB"), "{reason}");
    assert!(get(admin, "/metrics").body.contains("\nhermitmq_disk_space_low 1\n"));
    ballast.remove();
    wait_until_ready(admin);
}

#[test]
fn little_space_is_seen_from_the_start() {
    let (_dir, data) = scratch();
    let broker = start(&data).env("HERMITMQ_STORAGE__MIN_FREE_MB", u32::MAX).run();
    let reason = wait_until_not_ready(broker.admin(), "disk_space");
    assert!(reason.contains("producers are told to retry"), "{reason}");
}

#[test]
fn damage_is_told_and_takes_nothing_with_it() {
    let (_dir, data) = scratch();
    let before = broker(&data);
    let mut producer = RawClient::produce(before.addr(), "t", 0);
    for i in 0..50 {
        producer.append(&frame(i, b"", &[7; 400]));
    }
    assert!(before.terminate().0.success());
    let log = data.join("t_0").join(format!("{:020}.wal", 0));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let broker = broker(&data);
    let admin = broker.admin();
    // The first comparison begins with the start.
    wait_for("the damage to be found, and the broker to be ready all the same", || {
        let answer = get(admin, "/readyz");
        (reason(&answer, "damage").is_some() && answer.status == 200).then_some(())
    });
}

#[test]
fn the_end_is_told_before_it_begins() {
    let (_dir, data) = scratch();
    let broker = start(&data).env("HERMITMQ_SERVER__DRAIN_DELAY_MS", 1500).run();
    let (addr, admin) = (broker.addr(), broker.admin());
    broker.signal(Signal::TERM);
    let reason = wait_until_not_ready(admin, "shutdown");
    assert!(reason.contains("going down"), "{reason}");
    // It still accepts, and answers.
    assert_eq!(RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"late")), 0);
    assert_eq!(get(admin, "/livez").status, 200);
    let mut broker = broker;
    assert!(broker.wait().0.success());
    assert!(try_request(admin, "GET", "/livez", &[], b"").is_err());
    let (code, said) = health(admin, &["--live"]);
    assert_eq!(code, 1);
    assert!(said.contains(&admin.to_string()), "{said}");
}

#[test]
fn the_listener_is_where_the_configuration_says() {
    let (_dir, data) = scratch();
    let fails = |data: &Path, listen: &str| {
        let start = Start::on(data).env("HERMITMQ_ADMIN__LISTEN", listen);
        let output = run_to_end(start.command(), Vec::new());
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().last().unwrap().to_owned()
    };
    let holder = broker(&data);
    let taken = holder.admin().to_string();
    let (_dir2, other) = scratch();
    let said = fails(&other, &taken);
    assert!(said.contains(&taken) && said.contains("admin.listen"), "{said}");
    let said = fails(&other, "0.0.0.0:0");
    assert!(said.contains("admin.insecure"), "{said}");
    let said = fails(&other, "9093");
    assert!(said.contains("admin.listen") && said.contains("must be an address"), "{said}");

    let open = Start::on(&other)
        .env("HERMITMQ_ADMIN__LISTEN", "0.0.0.0:0")
        .env("HERMITMQ_ADMIN__INSECURE", true)
        .run();
    let port = open.admin().port();
    assert_eq!(get(([127, 0, 0, 1], port).into(), "/livez").status, 200);
    drop(open);
    let none = Broker::start(&other);
    assert!(!none.log_text().contains("admin listener"), "{}", none.log_text());
}
