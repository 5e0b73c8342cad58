//! Threads and memory by the control group; descriptors by the hard limit.

use std::process::Command;

use super::support::{
    Broker, ControlGroup, RawClient, Start, frame, hermitmq, is_long, rounds, run_to_end, scratch,
    scratch_on_disk,
};

fn value<'a>(show: &'a str, key: &str) -> &'a str {
    let line = show.lines().find(|line| line.starts_with(key));
    line.unwrap_or_else(|| panic!("{key}: {show}"))
}

#[test]
fn a_memory_limit_is_shown_with_its_source() {
    let Some(group) = ControlGroup::memory("134217728") else { return };
    let mut words = group.enter().into_iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(super::support::exe()).args(["config", "show"]);
    let output = run_to_end(command, Vec::new());
    let show = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        value(&show, "security.receive_memory_mb"),
        format!(
            "security.receive_memory_mb = 32  # a quarter of memory limit 128 MiB of cgroup v{}",
            group.version()
        )
    );
}

#[test]
fn what_is_used_is_in_the_log() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let lines = broker.log();
    let used: Vec<_> = lines
        .iter()
        .filter(|line| line.get("message") == "how much of the machine is used")
        .collect();
    let of = |key: &str| used.iter().find(|line| line.get("key") == key).unwrap();
    assert!(of("server.reactors").get("value").parse::<u32>().unwrap() > 0);
    assert!(!of("server.reactors").get("source").is_empty());
    assert!(of("security.receive_memory_mb").get("value").parse::<u32>().unwrap() > 0);
    let output = run_to_end(hermitmq(&["config", "show"]), Vec::new());
    let show = String::from_utf8(output.stdout).unwrap();
    let reactors = of("server.reactors");
    let expected =
        format!("server.reactors = {}  # {}", reactors.get("value"), reactors.get("source"));
    assert_eq!(value(&show, "server.reactors"), expected);
}

#[test]
fn as_many_files_are_opened_as_the_hard_limit_allows() {
    let (_dir, data) = scratch();
    let low = ["sh", "-c", "ulimit -Sn 64 && exec \"$@\"", "sh"];
    let broker = Start::on(&data).run_under(&low);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.pid())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let limits: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(limits[0], limits[1], "soft and hard: {line}");
    assert_ne!(limits[0], "64");
}

/// Large frames of many producers at once, and consumers that read nothing, in 64 MiB. The long form has frames of 50 MiB.
#[test]
fn a_small_container_is_not_killed() {
    let Some(group) = ControlGroup::memory("67108864") else { return };
    // In memory its pages would be the group's.
    let (dir, data) = scratch_on_disk();
    let mut broker = Start::on(&data).by(group.enter()).run();
    let addr = broker.addr();
    let disk = rustix::fs::statvfs(dir.path()).unwrap();
    let room = disk.f_bavail * disk.f_frsize / (100 << 20);
    let (producers, mib) = if is_long() { (rounds(200).min(room), 50) } else { (40, 6) };
    assert!(room >= 20 || !is_long(), "too little room on the disk");
    let payload = vec![7; mib << 20];
    let stalled: Vec<_> =
        (0..20).map(|n| RawClient::consume(addr, &format!("g{n}"), "large", 0)).collect();
    std::thread::scope(|scope| {
        for number in 0..producers {
            let payload = &payload;
            scope.spawn(move || {
                let mut producer = RawClient::produce(addr, "large", 0);
                producer.append(&frame(number, b"", payload));
            });
        }
    });
    assert!(broker.is_running(), "{}", broker.log_text());
    assert_eq!(group.limit(), 64 << 20);
    assert!(group.peak() > mib << 20, "it was the broker's");
    drop(stalled);
    let (mut consumer, mut read) = (RawClient::consume(addr, "g", "large", 0), 0);
    while read < producers {
        assert_eq!(consumer.read_frame().payload().len(), mib << 20);
        read += 1;
    }
    assert!(broker.terminate().0.success());
}
