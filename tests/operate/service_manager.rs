//! What a service manager is told, by one that listens.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::support::http::get;
use super::support::{
    Broker, HANG, INJECT_TOOLS, RawClient, Start, Tracer, frame, inject, privileged, scratch,
    scratch_in_memory, wait_for,
};

/// A socket that is told.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        Self(UnixDatagram::bind(path).unwrap())
    }

    /// The next message, its lines; none after `time`.
    fn next_within(&self, time: Duration) -> Option<Vec<String>> {
        self.0.set_read_timeout(Some(time)).unwrap();
        let mut buf = [0; 4096];
        let len = self.0.recv(&mut buf).ok()?;
        let text = std::str::from_utf8(&buf[..len]).unwrap();
        Some(text.lines().map(str::to_owned).collect())
    }

    fn next(&self) -> Vec<String> {
        self.next_within(HANG).expect("a message")
    }

    /// The next message that is no sign of life.
    fn news(&self) -> Vec<String> {
        wait_for("news", || Some(self.next()).filter(|message| message != &["WATCHDOG=1"]))
    }
}

#[test]
fn it_is_told_in_order() {
    let (dir, data) = scratch();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let broker = Start::on(&data).env("NOTIFY_SOCKET", path.display()).run();
    let starting = manager.news();
    assert_eq!(starting, ["STATUS=recovering the log", "EXTEND_TIMEOUT_USEC=30000000"]);
    let serving = [String::from("READY=1"), format!("STATUS=serving on {}", broker.addr())];
    // Other reports of a start that is slow here.
    wait_for("READY=1", || (manager.news() == serving).then_some(()));

    broker.signal(Signal::HUP);
    let reloading = manager.news();
    assert_eq!(reloading[0], "RELOADING=1");
    let at = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap();
    assert!(at.parse::<u64>().unwrap() > 0, "{reloading:?}");
    assert_eq!(manager.news(), serving);

    assert!(broker.terminate().0.success());
    let stopping = manager.news();
    assert_eq!(stopping[0], "STOPPING=1");
    assert!(stopping[1].starts_with("STATUS="), "{stopping:?}");
    assert_eq!(
        manager.next_within(Duration::from_millis(50)),
        None,
        "no sign of life was asked for"
    );
}

#[test]
fn a_name_in_the_abstract_namespace() {
    let (_dir, data) = scratch();
    let name = format!("hermitmq-test-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager(UnixDatagram::bind_addr(&addr).unwrap());
    let broker = Start::on(&data).env("NOTIFY_SOCKET", format!("@{name}")).run();
    wait_for("READY=1", || (manager.news()[0] == "READY=1").then_some(()));
    assert!(broker.terminate().0.success());
}

#[test]
fn nobody_who_listens_is_no_harm() {
    let (dir, data) = scratch();
    for socket in [dir.path().join("nobody").display().to_string(), "nonsense".to_owned()] {
        let broker = Start::on(&data).env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", 1000).run();
        assert!(broker.terminate().0.success());
    }
}

#[test]
fn a_long_recovery_is_given_time() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (dir, data) = scratch_in_memory();
    let before = Broker::start(&data);
    RawClient::produce(before.addr(), "t", 0).append(&frame(1, b"", b"x"));
    before.kill();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let log = data.join("t_0").join(format!("{:020}.wal", 0));
    let mut slow = inject("openat:delay_enter=60000000");
    slow.extend(["-P".into(), log.into_os_string()]);
    let mut broker = Start::on(&data).env("NOTIFY_SOCKET", path.display()).by(slow).spawn();
    let status = wait_for("a status with a count", || {
        let message = manager.news();
        assert_ne!(message[0], "READY=1", "not before it is");
        assert_eq!(message[1], "EXTEND_TIMEOUT_USEC=30000000");
        message[0].contains(" of 2 partitions").then(|| message[0].clone())
    });
    assert!(status.starts_with("STATUS=recovering the log: "), "{status}");
    broker.end_injection();
    broker.listening().unwrap();
    wait_for("READY=1", || (manager.news()[0] == "READY=1").then_some(()));
}

#[test]
fn the_signs_of_life_stop_with_a_reactor() {
    if !privileged(&INJECT_TOOLS) {
        return;
    }
    let (dir, data) = scratch_in_memory();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let broker = Start::on(&data)
        .with_admin()
        .env("NOTIFY_SOCKET", path.display())
        .env("WATCHDOG_USEC", 400_000)
        .env("HERMITMQ_SERVER__REACTORS", 1)
        .run();
    let admin = broker.admin();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    producer.append(&frame(1, b"", b"x"));
    let alive = || manager.next() == ["WATCHDOG=1"];
    // Several, whether or not there is something to do.
    for _ in 0..4 {
        wait_for("a sign of life", || alive().then_some(()));
    }
    // Until the tracer goes, or very long.
    let tracer = Tracer::attach(broker.pid(), "pwrite64:delay_enter=20000000");
    producer.send(&frame(2, b"", b"y"));
    // Far longer than between two of them: the reactor is in its write.
    let silent = || manager.next_within(Duration::from_secs(1)).is_none();
    wait_for("the silence", || silent().then_some(()));
    wait_for("its reason", || (get(admin, "/readyz").status == 503).then_some(()));
    let line =
        super::said(&broker, "a reactor does not turn; the service manager gets no sign of life");
    assert_eq!((line.level().as_str(), line.get("reactor").as_str()), ("ERROR", "0"));
    drop(tracer);
    wait_for("a sign of life", || alive().then_some(()));
    assert!(broker.terminate().0.success());
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let (dir, data) = scratch();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let broker = Start::on(&data)
        .env("NOTIFY_SOCKET", path.display())
        .env("WATCHDOG_USEC", 20_000)
        .env("WATCHDOG_PID", 1)
        .run();
    wait_for("READY=1", || (manager.next()[0] == "READY=1").then_some(()));
    assert_eq!(manager.next_within(Duration::from_millis(200)), None);
    assert!(broker.terminate().0.success());
}
