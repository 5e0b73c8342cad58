//! `hermitmq bench` with tiny loads: what it counts is what was asked for, and what it prints is what programs rely on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use support::{Broker, Running, drain, hermitmq, listing, run_to_end, scratch, wait_for};

const HEADER_LEN: u64 = 29;

fn bench(args: &[&str]) -> Output {
    run_to_end(hermitmq(&[&["bench"], args].concat()), Vec::new())
}

/// Runs a benchmark that must succeed, and returns its result.
fn json(args: &[&str]) -> Value {
    let output = bench(&[args, &["--output", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}: {said}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "one line of JSON");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, field: &str) -> f64 {
    let number = value[field].as_f64().unwrap_or_else(|| panic!("no number {field} in {value}"));
    assert!(number.is_finite() && number > 0.0, "{field} is {number}");
    number
}

/// What moved is exactly this, and the rates are made of it.
fn assert_moved(result: &Value, records: u64, frames: u64, frame_len: u64) {
    assert_eq!(result["records"], records, "{result}");
    assert_eq!(result["frames"], frames, "{result}");
    assert_eq!(result["bytes"], frames * frame_len, "{result}");
    let seconds = number(result, "seconds");
    for (rate, amount) in
        [("records_per_sec", "records"), ("frames_per_sec", "frames"), ("bytes_per_sec", "bytes")]
    {
        let ratio = number(result, rate) * seconds / number(result, amount);
        assert!((ratio - 1.0).abs() < 1e-6, "{rate} in {result}");
    }
}

fn assert_latencies(latency: &Value, count: u64) {
    assert_eq!(latency["count"], count, "{latency}");
    let values = ["p50_us", "p99_us", "p999_us", "max_us"].map(|field| number(latency, field));
    assert!(values.is_sorted(), "{latency}");
}

#[test]
fn what_is_produced_is_what_is_counted() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let target = ["--broker", &addr, "--topic", "t"];
    let shape = ["--record-size", "28", "--batch", "100", "--connections", "3"];
    let result = json(&[&["produce", "--count", "5000"], &target[..], &shape].concat());
    // 5,000 records on 3 connections are 1,667 on each, which take 17 frames.
    assert_moved(&result, 5100, 51, HEADER_LEN + 2800);
    assert_eq!(result["workload"], "produce");
    assert_eq!(result["broker"], addr.as_str());
    assert_eq!((&result["connections"], &result["batch_records"]), (&3.into(), &100.into()));
    assert!(result.get("ack_latency").is_none());
    let frames = drain(broker.addr(), "g", "t", 0);
    assert_eq!(frames.len(), 51);
    for frame in frames {
        assert_eq!(frame.payload().split_inclusive(|&b| b == b'\n').count(), 100);
        assert_eq!(frame.payload().len(), 2800);
    }
}

#[test]
fn connections_are_spread_over_partitions() {
    let (_dir, data) = scratch();
    let broker = Broker::start_with(&data, &["--set", "topics.default_partitions=3"], &[]);
    let addr = broker.addr().to_string();
    let target = ["--broker", &addr, "--topic", "t", "--partitions", "3", "--record-size", "100"];
    let silent = ["--idle", "5", "--parked", "5"];
    let produce = ["produce", "--count", "70", "--connections", "7"];
    let result = json(&[&produce[..], &target, &silent].concat());
    assert_moved(&result, 70, 70, HEADER_LEN + 100);
    assert_eq!((&result["partitions"], &result["connections"]), (&3.into(), &7.into()));
    assert_eq!(
        (&result["idle_connections"], &result["parked_connections"]),
        (&5.into(), &5.into())
    );
    // Ten frames on each of seven connections, the seventh on the first partition again.
    for (partition, frames) in [(0, 30), (1, 20), (2, 20)] {
        assert_eq!(drain(broker.addr(), "g", "t", partition).len(), frames, "{partition}");
    }
    let consume = ["consume", "--count", "30", "--connections", "4"];
    let result = json(&[&consume[..], &target, &silent].concat());
    assert_moved(&result, 120, 120, HEADER_LEN + 100);
    // What was missing was filled: 9 frames and one that tells how many there are.
    for partition in 0..3 {
        assert!(drain(broker.addr(), "h", "t", partition).len() >= 30, "{partition}");
    }
    // A partition that is not there.
    let output = bench(&["produce", "--broker", &addr, "--partitions", "4", "--connections", "4"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_window_of_one_measures_acks() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let args = ["produce", "--broker", &addr, "--window", "1", "--count", "200"];
    let result = json(&[&args[..], &["--connections", "2", "--record-size", "100"]].concat());
    assert_moved(&result, 200, 200, HEADER_LEN + 100);
    assert_eq!(result["window_frames"], 1);
    assert_latencies(&result["ack_latency"], 200);
    let result = json(&["produce", "--broker", &addr, "--window", "16", "--duration", "0.05"]);
    assert!(number(&result, "seconds") >= 0.05);
    let frames = result["frames"].as_u64().unwrap();
    assert_moved(&result, frames, frames, HEADER_LEN + 1024);
}

#[test]
fn a_consumer_reads_what_it_has_filled() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    let consume = |more: &[&str]| {
        let args = ["consume", "--broker", &addr, "--record-size", "10", "--count", "1000"];
        let output = bench(&[&args[..], &["--output", "json"], more].concat());
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let (code, stdout, said) = consume(&["--connections", "2"]);
    assert_eq!((code, said.contains("filled bench-1x10")), (Some(0), true), "{said}");
    let result: Value = serde_json::from_slice(&stdout).unwrap();
    assert_moved(&result, 2000, 2000, HEADER_LEN + 10);
    // Filled once.
    let (code, _, said) = consume(&[]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(drain(broker.addr(), "g", "bench-1x10", 0).len() >= 1000);
    // Frames of another size are not miscounted.
    let topic = ["--topic", "bench-1x10", "--record-size", "11"];
    let other = bench(&[&["consume", "--broker", &addr, "--count", "1000"], &topic[..]].concat());
    let said = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(said.contains("begins with a frame of 39 bytes, not 40"), "{said}");
}

#[test]
fn end_to_end_at_a_rate() {
    let (_dir, data) = scratch();
    let broker = Broker::start(&data);
    let addr = broker.addr().to_string();
    // A topic that holds something already: the consumer starts behind it.
    for _ in 0..2 {
        let args = ["e2e", "--broker", &addr, "--topic", "t", "--rate", "2000", "--count", "300"];
        let result = json(&args);
        assert_eq!((&result["records"], &result["rate_per_sec"]), (&300.into(), &2000.into()));
        assert_latencies(&result["latency"], 300);
        assert_latencies(&result["send_lateness"], 300);
        // The last of them is due after 299 intervals.
        assert!(number(&result, "seconds") >= 0.1495, "{result}");
    }
}

#[test]
fn a_broker_that_nobody_has_named_is_left_alone() {
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    // Somebody's own broker may be running: it is left alone. If nobody's is, this is no broker.
    let _other = std::net::TcpListener::bind("127.0.0.1:9092");
    let options = ["--durability", "always", "--set", "server.reactors=1", "--partitions", "2"];
    let produce = ["produce", "--dir", path, "--count", "10", "--output", "json"];
    let output = bench(&[&produce[..], &options].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("one runs in this process"), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["broker"], &result["records"]), (&"in-process".into(), &10.into()));
    // Acks come after a flush, which a broker in this process can tell.
    assert!(number(&result, "flushes_per_sec") > 0.0);
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn the_limits_of_the_machine() {
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    let small = ["--mb", "1", "--flushes", "5", "--messages", "50", "--connections", "2"];
    let result = json(&[&["limit", "--dir", path], &small[..]].concat());
    for name in ["sendfile", "recv_pwrite"] {
        let moved = &result[name];
        assert_eq!(moved["bytes"], 2 * (1_000_000 / 1053) * 1053, "{result}");
        assert!(number(moved, "bytes_per_sec") > 0.0);
    }
    assert_eq!(result["fdatasync"]["count"], 5);
    assert!(number(&result["fdatasync"], "per_sec") > 0.0);
    assert_latencies(&result["relay"], 50);
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn a_comparison_of_every_workload() {
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    let small = ["--dir", path, "--mb", "1", "--rounds", "2", "--duration", "0.05"];
    let result = json(&[&["compare"], &small[..]].concat());
    assert_eq!((&result["rounds"], &result["mb_per_round"]), (&2.into(), &1.into()));
    let workloads = result["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|w| w["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    for workload in workloads {
        assert_compared(workload);
        let name = workload["name"].as_str().unwrap();
        let latency = name == "e2e" || name.starts_with("pingpong");
        assert_eq!(workload["unit"], if latency { "p50_us" } else { "bytes_per_sec" });
        assert!(workload.get("crowded").is_none());
    }
    assert_eq!(listing(dir.path()), [""; 0]);
}

fn assert_compared(workload: &Value) {
    let ratios = ["ratio_min", "ratio", "ratio_max"].map(|field| number(workload, field));
    assert!(ratios.is_sorted(), "{workload}");
    for side in ["broker", "other"] {
        assert!(number(workload, side) > 0.0);
        assert!(!workload[&format!("{side}_is")].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_comparison_beside_silent_connections() {
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    let small = ["compare", "--dir", path, "--mb", "1", "--rounds", "1", "--duration", "0.05"];
    let only = ["--only", "e2e", "--only", "consume-1k-100part", "--only", "produce-batch"];
    let silent = ["--idle", "150", "--parked", "130"];
    let result = json(&[&small[..], &only, &silent].concat());
    let workloads = result["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 3);
    for workload in workloads {
        assert_compared(workload);
        let crowded = &workload["crowded"];
        assert_eq!((&crowded["idle"], &crowded["parked"]), (&150.into(), &130.into()));
        assert!(number(crowded, "broker") > 0.0 && number(crowded, "ratio") > 0.0);
    }
    let kept = ["--only", "e2e", "--idle", "1", "--min-kept", "1000"];
    let output = bench(&[&small[..], &kept].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("hermitmq: e2e keeps ") && said.lines().count() == 1, "{said}");
}

/// The directory of the tests, which is on a disk as a rule; elsewhere the command must say so.
#[test]
fn what_only_a_disk_can_tell() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().to_str().unwrap();
    let small = ["--dir", path, "--mb", "8", "--rounds", "1", "--duration", "0.2"];
    let only = ["compare", "--only", "cold-", "--only", "commit-", "--output", "json"];
    let output = bench(&[&only[..], &small].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let workloads = result["workloads"].as_array().unwrap();
        assert_eq!(workloads.len(), 6);
        for workload in workloads {
            assert_compared(workload);
            let commit = workload["name"].as_str().unwrap().starts_with("commit-");
            assert_eq!(workload["unit"], if commit { "acks_per_sec" } else { "p99_us" });
        }
    } else {
        assert!(said.contains("choose another --dir"), "{said}");
    }
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_no_disk() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return;
    }
    let output = bench(&["compare", "--only", "cold-reader", "--dir", "/dev/shm", "--mb", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is not on a disk"), "{said}");
}

#[test]
fn a_ratio_that_is_too_low_fails() {
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    let args = ["compare", "--dir", path, "--mb", "1", "--rounds", "1", "--only", "consume-batch"];
    let output = bench(&[&args[..], &["--min-ratio", "consume=1000"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("hermitmq: consume-batch reaches ") && said.lines().count() == 1);
    // The table is printed all the same.
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("consume-batch  MB/s "), "{table}");
    assert!(bench(&[&args[..], &["--min-ratio", "consume=0"]].concat()).status.success());
}

#[test]
fn wrong_usage_is_one_line() {
    for (args, code, want) in [
        (&["produce", "--connections", "0"][..], 2, "invalid value '0' for '--connections <N>'"),
        (&["produce", "--count", "1", "--duration", "1"], 2, "cannot be used with"),
        (&["produce", "--duration", "soon"], 2, "must be a number of seconds"),
        (&["produce", "--record-size", "1000000", "--batch", "100"], 2, "a frame may hold"),
        (&["e2e", "--rate", "0"], 2, "invalid value '0' for '--rate <N>'"),
        (&["produce", "--broker", "127.0.0.1:1", "--durability", "always"], 2, "runs already"),
        (&["produce", "--durability", "never"], 2, "invalid value 'never' for '--durability"),
        (&["produce", "--partitions", "0"], 2, "invalid value '0' for '--partitions <N>'"),
        (&["compare", "--only", "prodcue"], 2, "no workload has such a name"),
        (&["compare", "--min-kept", "0.9"], 2, "needs --idle or --parked"),
        (&["compare", "--min-ratio", "consume"], 2, "must be NAME=VALUE"),
        (&["compare", "--only", "e2e", "--min-ratio", "consume=1"], 2, "none of the workloads"),
        (&["compare", "--only", "e2e", "--set", "server.prot=1"], 1, "the broker did not start"),
        (&["limit", "--dir", "/nonexistent"], 1, "cannot create /nonexistent/hermitmq-"),
        (&["consume", "--broker", "127.0.0.1:1"], 1, "is the broker running?"),
    ] {
        let output = bench(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.starts_with("hermitmq: ") && said.contains(want), "{args:?}: {said}");
        assert_eq!((said.lines().count(), output.stdout.len()), (1, 0), "{args:?}: {said}");
    }
}

/// Children of a process, by the kernel's account.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn runs(pid: u32) -> bool {
    // A process that ended but was not waited for yet does not run.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_signal_leaves_nothing_behind() {
    if !Path::new("/proc/self/task").is_dir() {
        return;
    }
    let (dir, _) = scratch();
    let path = dir.path().to_str().unwrap();
    let args = ["bench", "compare", "--dir", path, "--mb", "1", "--rounds", "1000"];
    let child = Running::spawn(hermitmq(&args).stdout(std::process::Stdio::null()));
    let pid = child.id();
    let peers = wait_for("both sides to run", || {
        Some(children(pid)).filter(|children| children.len() == 2)
    });
    wait_for("something to leave behind", || (!listing(dir.path()).is_empty()).then_some(()));
    child.signal(Signal::INT);
    assert_eq!(child.end().code(), Some(130));
    assert_eq!(listing(dir.path()), [""; 0]);
    wait_for("both sides to end", || peers.iter().all(|&pid| !runs(pid)).then_some(()));
}
