//! `hermitmq log`: what it says of a data directory, what it changes, and what a broker makes of it afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use support::{
    Broker, Frame, Random, RawClient, Running, Start, assert_offsets_follow, commit, copy_dir,
    drain, exe, frame, hermitmq, listing, names_in_use, privileged, run_to_end, scratch, sha256,
    wait_for,
};

const WAL: &str = "00000000000000000000.wal";

fn start(data: &Path) -> Broker {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
        .run()
}

fn log(args: &[&str]) -> Output {
    run_to_end(hermitmq(&[&["log"], args].concat()), Vec::new())
}

/// Runs a command that must end with this exit code; returns what it printed.
fn log_ends(code: i32, args: &[&str]) -> String {
    let output = log(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    // What is not the result is one line each, and says so.
    assert!(err.lines().all(|line| line.starts_with("hermitmq: ")), "{args:?}: {err}");
    assert_eq!(err.is_empty(), code == 0, "{args:?}: {err}");
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn verified(code: i32, data: &Path) -> Value {
    json(&log_ends(code, &["verify", path(data), "--output", "json"]))
}

/// Findings of a report, of everything in it.
fn findings(report: &Value) -> Vec<Value> {
    let list = |value: &Value| value["findings"].as_array().unwrap().clone();
    let mut all = list(report);
    for partition in report["partitions"].as_array().unwrap() {
        all.extend(list(partition));
        all.extend(partition["segments"].as_array().unwrap().iter().flat_map(list));
    }
    all
}

/// Everything about a directory's files: names, bytes, times.
fn state(dir: &Path) -> BTreeMap<PathBuf, (String, i64, i64)> {
    let mut files = BTreeMap::new();
    for name in listing(dir) {
        let path = dir.join(name);
        // A running broker renames files: what is gone by now has another name.
        let Ok(meta) = fs::metadata(&path) else { continue };
        if meta.is_dir() {
            files.extend(state(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            let hash = sha256(&bytes);
            files.insert(path, (hash, meta.mtime(), meta.mtime_nsec()));
        }
    }
    files
}

/// A data directory at rest with `count` records of about a kilobyte in `t`, and those records.
fn filled(data: &Path, count: u64) -> Vec<Frame> {
    let broker = start(data);
    let mut random = Random::from(11);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..count {
        let payload = random.bytes(900 + usize::try_from(i % 200).unwrap());
        producer.append(&frame(i, if i % 2 == 0 { b"key" } else { b"" }, &payload));
    }
    let frames = drain(broker.addr(), "g", "t", 0);
    assert!(broker.terminate().0.success());
    frames
}

/// The log files of a partition, oldest first.
fn wals(partition: &Path) -> Vec<PathBuf> {
    let files = listing(partition).into_iter().map(|name| partition.join(name));
    files.filter(|file| file.extension().is_some_and(|extension| extension == "wal")).collect()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn exit_codes_say_what_was_found() {
    let (dir, data) = scratch();
    filled(&data, 2500);
    let partition = data.join("t_0");
    let report = log_ends(0, &["verify", path(&data), "--strict"]);
    assert!(report.contains("4 segments") && report.contains("0 damaged, 0 derived"), "{report}");
    log_ends(0, &["verify", path(&partition)]);
    assert_eq!(log_ends(0, &["repair", path(&data)]), "nothing to do\n");

    fs::remove_file(partition.join("00000000000000000000.idx")).unwrap();
    let report = log_ends(0, &["verify", path(&data)]);
    assert!(report.contains("derived t_0/00000000000000000000.idx: there is no offset index"));
    log_ends(3, &["verify", path(&data), "--strict"]);
    let planned = log_ends(3, &["repair", path(&data)]);
    assert_eq!(planned, "would rebuild t_0/00000000000000000000.idx\n");
    let done = log_ends(0, &["repair", path(&data), "--apply"]);
    assert_eq!(done, "rebuilt t_0/00000000000000000000.idx\n");
    log_ends(0, &["verify", path(&data), "--strict"]);

    flip(&partition.join(WAL), 5000);
    let report = log_ends(3, &["verify", path(&data)]);
    assert!(report.contains(&format!("damage  t_0/{WAL}: bytes ")), "{report}");
    log_ends(3, &["dump", path(&data), "--from", "2", "--to", "6"]);
    log_ends(0, &["dump", path(&data), "--from", "1000"]);

    log_ends(1, &["verify", path(dir.path())]);
    log_ends(1, &["verify", path(&dir.path().join("none"))]);
    log_ends(1, &["verify", path(&partition.join(WAL))]);
    log_ends(2, &["verify"]);
    log_ends(2, &["dump", path(&data), "--from", "x"]);
}

/// Where nothing can be written, and where a broker has the directory, the same is found.
#[test]
fn verify_and_dump_write_nothing() {
    let (dir, data) = scratch();
    filled(&data, 1500);
    flip(&data.join("t_0").join(WAL), 700);
    fs::remove_file(data.join("t_0/00000000000000000000.idx")).unwrap();
    let before = state(&data);
    let report = verified(3, &data);
    log_ends(3, &["dump", path(&data)]);
    log_ends(3, &["repair", path(&data), "--quarantine"]);
    assert_eq!(state(&data), before);

    // A mount of its own that is read-only, where the machine lets this process make one.
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,ro,bind {0} && touch {0}/x 2>/dev/null; \
         [ -e {0}/x ] || exec {1} log verify {0} --output json",
        path(&data),
        exe()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    match command.output() {
        Ok(output) if output.status.code() == Some(3) => {
            assert_eq!(json(&text(&output.stdout)), report);
        }
        other => assert!(!privileged(&["unshare"]), "no read-only mount here: {other:?}"),
    }
    assert_eq!(state(&data), before);
    drop(dir);
}

#[test]
fn the_originals_directory_is_whole_but_for_checksums() {
    let (dir, _) = scratch();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1");
    let file = fs::File::open(recorded.join("data-dir.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(dir.path()).unwrap();
    let data = dir.path().join("hermitmq-data");
    let report = verified(0, &data);
    let kinds: Vec<_> = findings(&report).iter().map(|found| found["kind"].clone()).collect();
    assert!(kinds.len() == 7 && kinds.iter().all(|kind| kind == "checksums_missing"), "{kinds:?}");
    log_ends(3, &["verify", path(&data), "--strict"]);

    // What it holds is what was recorded of it.
    let expected = json(&fs::read_to_string(recorded.join("expected.json")).unwrap());
    let dumped = log_ends(0, &["dump", path(&data), "--output", "json"]);
    let mut offsets = BTreeMap::<String, Vec<Value>>::new();
    for line in dumped.lines().map(json) {
        assert_eq!(line["type"], "frame");
        let name = line["partition"].as_str().unwrap().to_owned();
        offsets.entry(name).or_default().push(line["offset"].clone());
    }
    for (name, rows) in expected["topics"].as_object().unwrap() {
        let wanted: Vec<_> = rows.as_array().unwrap().iter().map(|row| row[0].clone()).collect();
        assert_eq!(offsets[&name.replace('/', "_")], wanted, "{name}");
    }

    log_ends(0, &["repair", path(&data), "--apply"]);
    log_ends(0, &["verify", path(&data), "--strict"]);
    let broker = Broker::start(&data);
    assert_eq!(drain(broker.addr(), "nobody-before", "events", 0).len(), offsets["events_0"].len());
}

#[test]
fn dumped_frames_are_what_was_sent() {
    let (_dir, data) = scratch();
    let broker = start(&data);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let records: [(&[u8], &[u8]); 4] =
        [(b"", b"plain"), (b"k\n", "ü \u{1f980}".as_bytes()), (b"\xff", b"\0\xfe"), (b"k", b"")];
    for (number, (key, payload)) in records.into_iter().enumerate() {
        producer.append(&frame(7 + number as u64, key, payload));
    }
    assert!(broker.terminate().0.success());
    let dir = data.join("t_0");

    let shown = log_ends(0, &["dump", path(&dir)]);
    let wanted = "partition=t_0 offset=0 timestamp=7 records=1 payload=\"plain\"\n\
                  partition=t_0 offset=1 timestamp=8 records=1 key=\"k\\n\" payload=\"ü \u{1f980}\"\n\
                  partition=t_0 offset=2 timestamp=9 records=1 key=\"\\xff\" payload=\"\\u{0}\\xfe\"\n\
                  partition=t_0 offset=3 timestamp=10 records=1 key=\"k\" payload=\"\"\n";
    assert_eq!(shown, wanted);
    let shown = log_ends(0, &["dump", path(&dir), "--from", "2", "--to", "3", "--payload", "hex"]);
    assert_eq!(shown, "partition=t_0 offset=2 timestamp=9 records=1 key=ff payload=00fe\n");
    let shown = log_ends(0, &["dump", path(&dir), "--from", "3", "--payload", "none"]);
    assert_eq!(shown, "partition=t_0 offset=3 timestamp=10 records=1 key=\"k\" payload_bytes=0\n");

    let lines = log_ends(0, &["dump", path(&dir), "--output", "json"]);
    let lines: Vec<_> = lines.lines().map(json).collect();
    let fields = |line: &Value| {
        ["key", "key_encoding", "payload", "payload_encoding"].map(|name| line[name].clone())
    };
    let null = Value::Null;
    assert_eq!(fields(&lines[0]), [null.clone(), null, "plain".into(), "utf8".into()]);
    assert_eq!(fields(&lines[2]), ["/w==", "base64", "AP4=", "base64"].map(Value::from));
    assert_eq!(lines[1]["position"], 34);
    assert_eq!((&lines[3]["payload_bytes"], &lines[3]["timestamp"]), (&0.into(), &10.into()));
    let line =
        log_ends(0, &["dump", path(&dir), "--to", "1", "--output", "json", "--payload", "base64"]);
    assert_eq!(json(&line)["payload"], "cGxhaW4=");
    let line =
        log_ends(0, &["dump", path(&dir), "--to", "1", "--output", "json", "--payload", "none"]);
    assert_eq!((&json(&line)["payload"], &json(&line)["payload_bytes"]), (&Value::Null, &5.into()));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_dir, data) = scratch();
    filled(&data, 2000);
    for output in ["text", "json"] {
        let mut dump = hermitmq(&["log", "dump", path(&data), "--output", output]);
        let mut child = Running::spawn(dump.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("t_0"), "{first}");
        let ended = child.output();
        assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), String::new()));
    }
}

/// Damage between good frames: readers stop there, until it is taken out.
#[test]
fn after_a_repair_readers_go_on() {
    let (_dir, data) = scratch();
    let frames = filled(&data, 2500);
    let wal = data.join("t_0").join(WAL);
    let pristine = fs::read(&wal).unwrap();
    flip(&wal, 300_000);
    let damaged = fs::read(&wal).unwrap();
    // And bytes behind the end of the last segment.
    let last = wals(&data.join("t_0")).pop().unwrap();
    fs::write(&last, [&fs::read(&last).unwrap()[..], b"torn"].concat()).unwrap();

    let report = verified(3, &data);
    let found = findings(&report);
    let kinds: Vec<_> = found.iter().map(|found| found["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["damaged", "torn_tail"], "{found:?}");
    let range = |name: &str| {
        let number = |end: &str| found[0][name][end].as_u64().unwrap();
        number("from")..number("to")
    };
    let (bytes, offsets) = (range("bytes"), range("offsets"));
    assert!(bytes.contains(&300_000));
    let good: Vec<_> =
        frames.into_iter().filter(|frame| !offsets.contains(&frame.header.offset)).collect();

    let planned = log_ends(3, &["repair", path(&data), "--quarantine"]);
    let lines: Vec<_> = planned.lines().collect();
    assert!(lines[0].starts_with("would take bytes ") && lines[0].contains("kept as"), "{planned}");
    assert!(lines.iter().any(|line| line.starts_with("would cut bytes ")), "{planned}");
    assert_eq!(fs::read(&wal).unwrap(), damaged, "planned is not done");
    let done =
        json(&log_ends(0, &["repair", path(&data), "--quarantine", "--apply", "--output", "json"]));
    assert_eq!(done["applied"], true);
    let steps = done["partitions"].as_array().unwrap().iter();
    assert_eq!(steps.flat_map(|p| p["steps"].as_array().unwrap()).count(), 5, "{done}");

    let kept = fs::read(data.join("t_0/00000000000000000000.bad-1")).unwrap();
    let range = usize::try_from(bytes.start).unwrap()..usize::try_from(bytes.end).unwrap();
    assert_eq!(kept, damaged[range.clone()]);
    let rest = [&pristine[..range.start], &pristine[range.end..]].concat();
    assert!(fs::read(&wal).unwrap() == rest, "nothing else was touched");
    assert_eq!(fs::read(last.with_extension("torn-1")).unwrap(), b"torn");

    let left = verified(0, &data);
    assert!(findings(&left).iter().all(|found| found["severity"] == "note"), "{left}");
    let broker = start(&data);
    assert!(drain(broker.addr(), "fresh", "t", 0) == good, "all that is good, to the end");
    assert_eq!(broker.lines_at("WARN").len() + broker.lines_at("ERROR").len(), 0);
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    let end = good.last().unwrap().header.next_offset();
    assert_eq!(producer.append(&frame(1, b"", b"goes on")), end);
}

#[test]
fn a_running_broker_is_looked_at_and_not_repaired() {
    let (_dir, data) = scratch();
    let broker = start(&data);
    let addr = broker.addr();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&done);
        let load = scope.spawn(|| {
            let mut producer = RawClient::produce(addr, "t", 0);
            let payload = Random::from(3).bytes(3000);
            while !done.load(Ordering::Relaxed) {
                producer.send(&frame(1, b"k", &payload).repeat(50));
                (0..50).for_each(|_| _ = producer.stored());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let pid = broker.pid().to_string();
        let mut segments = 0;
        wait_for("some segments to have been looked at", || {
            let report = verified(0, &data);
            assert_eq!(report["broker"], pid.as_str());
            let damaging = |found: &Value| found["severity"] != "note";
            assert!(!findings(&report).iter().any(damaging), "{report}");
            segments = segments.max(report["totals"]["segments"].as_u64().unwrap());
            log_ends(0, &["dump", path(&data), "--payload", "none"]);
            (segments > 6).then_some(())
        });
        for args in [&["repair", path(&data), "--apply"][..], &["repair", path(&data.join("t_0"))]]
        {
            let output = log(args);
            assert_eq!(output.status.code(), Some(1));
            let said = text(&output.stderr);
            assert!(said.contains("is in use by a broker") && said.contains(&pid), "{said}");
        }
        done.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    let ended = broker.terminate();
    assert!(ended.0.success());
    log_ends(0, &["verify", path(&data), "--strict"]);
}

/// Ends the load when the test ends, however it does: a scope waits for its threads.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each acked frame of a partition as it was sent, by its offset.
type Journal = Mutex<BTreeMap<u64, Vec<u8>>>;

/// A load that rolls segments and leaves the machine time for the rest.
fn produce_until(addr: std::net::SocketAddr, partition: u32, done: &AtomicBool, journal: &Journal) {
    const BATCH: usize = 10;
    let mut producer = RawClient::produce(addr, "t", partition);
    let noise = Random::from(u64::from(partition) + 1).bytes(8000);
    for number in (0..).step_by(BATCH) {
        let sent: Vec<_> = (number..number + BATCH)
            .map(|n| {
                let payload = &noise[n % 4000..][..500 + n % 3500];
                frame(n as u64, b"key", payload)
            })
            .collect();
        producer.send(&sent.concat());
        for bytes in sent {
            assert_eq!(journal.lock().unwrap().insert(producer.stored(), bytes), None);
        }
        if done.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Checks what a restored broker has of a partition: the beginning of the journal, and at least what is below `flushed`.
fn assert_restored(
    broker: &Broker,
    partition: u32,
    journal: &BTreeMap<u64, Vec<u8>>,
    flushed: u64,
) {
    let frames = drain(broker.addr(), "oracle", "t", partition);
    let end = assert_offsets_follow(&frames, 0);
    assert!(end >= flushed, "partition {partition}: {end} of {flushed} are there");
    for frame in frames {
        let offset = frame.header.offset;
        assert!(journal.get(&offset) == Some(&frame.as_sent()), "offset {offset}");
    }
}

/// Offset after the last flushed record of a partition.
fn flushed(report: &Value, partition: &str) -> u64 {
    let all = report["partitions"].as_array().unwrap();
    let found = all.iter().find(|report| report["partition"] == partition).unwrap();
    found["segments"].as_array().unwrap().last().unwrap()["next_offset"].as_u64().unwrap()
}

const PARTITIONS: u32 = 2;

fn start_with_partitions(data: &Path) -> Broker {
    Start::on(data)
        .env("HERMITMQ_STORAGE__MAX_SEGMENT_MB", 1)
        .env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20)
        .env("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", PARTITIONS)
        .run()
}

/// Checks a backup: what it holds of the journals, and that a broker on it goes on by itself.
fn assert_broker_of_its_own(to: &Path, journals: &[BTreeMap<u64, Vec<u8>>], least: &[u64]) {
    log_ends(0, &["verify", path(to), "--strict"]);
    assert_eq!(
        listing(to),
        [".clock", "__consumer_offsets_0", "beside.json", "catalog.json", "t_0", "t_1"],
        "partitions, what lies beside them, and nothing else"
    );
    let restored = start_with_partitions(to);
    for (n, (journal, &least)) in (0..).zip(journals.iter().zip(least)) {
        assert_restored(&restored, n, journal, least);
    }
    let resumed = drain(restored.addr(), "billing", "t", 1);
    assert_eq!(resumed[0].header.offset, 123, "the group is where it was");
    let mut producer = RawClient::produce(restored.addr(), "t", 0);
    producer.send(&frame(9, b"", &[9; 1000]).repeat(2000));
    (0..2000).for_each(|_| assert!(producer.stored() >= least[0]));
    let (ended, log) = restored.terminate();
    assert!(ended.success());
    let worse = |line: &&support::LogLine| ["WARN", "ERROR"].contains(&line.level().as_str());
    assert_eq!(log.iter().filter(worse).count(), 0, "{log:?}");
    log_ends(0, &["verify", path(to), "--strict"]);
}

#[test]
fn a_backup_of_a_broker_under_load_is_a_broker_of_its_own() {
    let (dir, data) = scratch();
    let broker = start_with_partitions(&data);
    fs::write(data.join("beside.json"), "{}").unwrap();
    fs::create_dir(data.join("lost+found")).unwrap();
    let journals: Vec<Journal> = (0..PARTITIONS).map(|_| Journal::default()).collect();
    let done = AtomicBool::new(false);
    let backups: Vec<(PathBuf, Vec<u64>)> = std::thread::scope(|scope| {
        let _stop = Stop(&done);
        let addr = broker.addr();
        let loads: Vec<_> = (0..PARTITIONS)
            .map(|n| {
                let (done, journal) = (&done, &journals[n as usize]);
                scope.spawn(move || produce_until(addr, n, done, journal))
            })
            .collect();
        wait_for("some segments", || {
            let there = data.join("t_0").is_dir().then(|| wals(&data.join("t_0")))?;
            (there.len() > 3).then_some(())
        });
        commit(addr, "billing", "t", 1, 123);
        wait_for("the commit to be flushed", || {
            (flushed(&verified(0, &data), "__consumer_offsets_0") > 0).then_some(())
        });
        let mut backups = Vec::new();
        for number in 0..3 {
            let before = verified(0, &data);
            let to = dir.path().join(format!("backup-{number}"));
            let mut args = vec!["backup", path(&data), path(&to), "--output", "json"];
            args.extend((number == 2).then_some("--copy"));
            let said = json(&log_ends(0, &args));
            assert_eq!(said["broker"], broker.pid().to_string().as_str());
            assert_eq!(said["linked_bytes"].as_u64().unwrap() > 0, number < 2, "{said}");
            assert_eq!(said["left_out"], serde_json::json!(["lost+found"]));
            let least = (0..PARTITIONS).map(|n| flushed(&before, &format!("t_{n}"))).collect();
            backups.push((to, least));
        }
        done.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().unwrap();
        }
        backups
    });
    let journals: Vec<_> = journals.into_iter().map(|j| j.into_inner().unwrap()).collect();
    for n in 0..PARTITIONS {
        let dir = data.join(format!("t_{n}"));
        wait_for("all segments to have their names", || {
            names_in_use(&dir, |name| name.ends_with(".wal.new")).is_empty().then_some(())
        });
    }
    for (to, least) in &backups {
        let before = state(&data);
        assert_broker_of_its_own(to, &journals, least);
        let logs = |state: BTreeMap<PathBuf, _>| -> Vec<_> {
            let is_log = |file: &Path| file.extension().is_some_and(|e| e == "wal");
            state.into_iter().filter(|(file, _)| is_log(file)).collect()
        };
        assert!(logs(state(&data)) == logs(before), "the original is what it was");
    }
    for n in 0..PARTITIONS {
        assert_restored(&broker, n, &journals[n as usize], 0);
    }
    assert!(broker.terminate().0.success());
    log_ends(0, &["verify", path(&data), "--strict"]);
}

/// Back where it came from: the copy of a killed broker's directory is what a start on the original would see.
#[test]
fn a_backup_of_a_directory_at_rest_is_restored_by_copying_it_back() {
    let (dir, data) = scratch();
    let broker = Start::on(&data).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 60_000).run();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for i in 0..300 {
        producer.append(&frame(i, b"k", format!("record {i}").as_bytes()));
    }
    let frames = drain(broker.addr(), "g", "t", 0);
    broker.kill();
    let to = dir.path().join("backup");
    let said = log_ends(0, &["backup", path(&data), path(&to)]);
    assert!(said.starts_with("2 partitions, 2 segments, "), "{said}");
    // As docs/BACKUP.md says, into a directory that stays: a mount point.
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    let copied = Command::new("cp").arg("-a").arg(to.join(".")).arg(&data).status();
    assert!(copied.unwrap().success());
    let broker = Broker::start(&data);
    assert!(drain(broker.addr(), "g", "t", 0) == frames);
}

#[test]
fn a_backup_takes_no_place_that_is_taken() {
    let (dir, data) = scratch();
    filled(&data, 10);
    let taken = dir.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "").unwrap();
    log_ends(1, &["backup", path(&data), path(&taken)]);
    assert_eq!(listing(&taken), ["mine"]);
    log_ends(1, &["backup", path(&data), path(&data.join("inside"))]);
    assert_eq!(listing(&data), [".clock", ".lock", "__consumer_offsets_0", "catalog.json", "t_0"]);
    log_ends(1, &["backup", path(&data.join("t_0")), path(&dir.path().join("part"))]);
    log_ends(1, &["backup", path(&dir.path().join("none")), path(&dir.path().join("x"))]);
    fs::remove_file(taken.join("mine")).unwrap();
    // As the root of a new volume is.
    fs::create_dir(taken.join("lost+found")).unwrap();
    log_ends(0, &["backup", path(&data), path(&taken)]);
}

/// Its last log may be a file that the original has, too.
#[test]
fn a_backup_that_was_broken_off_is_only_looked_at() {
    let (dir, data) = scratch();
    filled(&data, 10);
    let to = dir.path().join("backup");
    log_ends(0, &["backup", path(&data), path(&to)]);
    fs::write(to.join(".unfinished-backup"), "").unwrap();
    let before = state(&to);
    assert!(log_ends(3, &["verify", path(&to)]).contains("not finished"));
    let again = dir.path().join("again");
    for args in [
        &["log", "backup", path(&to), path(&again)][..],
        &["log", "repair", path(&to), "--apply"],
        &["log", "repair", path(&to.join("t_0")), "--apply"],
        &["serve", "--port", "0", "--data-dir", path(&to)],
    ] {
        let output = run_to_end(hermitmq(args), Vec::new());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stderr));
        let said = [output.stdout, output.stderr].map(|bytes| text(&bytes)).concat();
        assert!(said.contains("a backup that was not finished"), "{args:?}: {said}");
    }
    assert!(!again.exists() && state(&to) == before);
}

/// Whatever a file says when it is asked for, everything else is gone through.
#[test]
fn what_cannot_be_read_hides_nothing_else() {
    let (dir, data) = scratch();
    filled(&data, 2500);
    let damaged = data.join("u_0");
    copy_dir(&data.join("t_0"), &damaged);
    flip(&damaged.join(WAL), 700);
    // Nobody can open it, not even root.
    let wal = data.join("t_0").join(WAL);
    fs::remove_file(&wal).unwrap();
    std::os::unix::fs::symlink(&wal, &wal).unwrap();
    let found = |report: &Value| -> Vec<String> {
        let found = findings(report).into_iter().filter(|found| found["severity"] == "damage");
        let found = found.map(|found| format!("{} {}", found["kind"], found["file"]));
        found.map(|found| found.replace('"', "")).collect()
    };
    let all = [format!("unreadable {WAL}"), format!("damaged {WAL}")];
    assert_eq!(found(&verified(3, &data)), all);
    let said = log_ends(3, &["dump", path(&data), "--payload", "none"]);
    assert!(said.contains(&format!("damage t_0/{WAL}: ")) && said.contains("partition=u_0"));

    let to = dir.path().join("backup");
    let said = log_ends(1, &["backup", path(&data), path(&to)]);
    assert!(said.contains("2 partitions, "), "the others were copied: {said}");
    assert_eq!(wals(&to.join("u_0")).len(), wals(&damaged).len());
    assert!(log_ends(3, &["verify", path(&to)]).contains("not finished"));

    let done = log_ends(1, &["repair", path(&data), "--quarantine", "--apply"]);
    assert!(done.contains("took bytes "), "{done}");
    assert_eq!(found(&verified(3, &data)), all[..1]);
}

#[test]
fn topics_that_are_gone_are_missed() {
    let (_dir, data) = scratch();
    filled(&data, 10);
    let kinds = |report: &Value| -> Vec<String> {
        findings(report).iter().map(|found| found["kind"].as_str().unwrap().to_owned()).collect()
    };
    let aside = data.with_file_name("t_0");
    fs::rename(data.join("t_0"), &aside).unwrap();
    let report = verified(3, &data);
    assert_eq!(kinds(&report), ["missing"], "{report}");
    assert_eq!(findings(&report)[0]["file"], "t_0");
    fs::rename(&aside, data.join("t_0")).unwrap();
    verified(0, &data);

    let catalog = data.join("catalog.json");
    let bytes = fs::read(&catalog).unwrap();
    fs::write(&catalog, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(kinds(&verified(3, &data)), ["catalog"]);
}

#[test]
fn help_has_examples_and_exit_codes() {
    for command in ["verify", "dump", "repair", "backup"] {
        let help = log_ends(0, &[command, "--help"]);
        assert!(help.contains("Examples:\n  hermitmq log ") && help.contains("Exit codes: 0 "));
    }
}
