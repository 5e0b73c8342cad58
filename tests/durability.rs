//! When a record counts as stored: the two modes, declared topics, slow disks, failing ones, and little space.
//!
//! Where the order of system calls is the matter, the broker runs under `strace`, which also makes its disk slow or fail;
//! where that does not work, those tests say so and pass. Nothing here is measured in seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hermitmq::protocol::ACK_LEN;
use rustix::process::Signal;
use support::{
    Broker, Event, Frame, LogLine, Random, RawClient, Start, Trace, assert_offsets_follow, commit,
    drain, frame, hermitmq, listing, privileged, run_to_end, scratch, wait_for,
};

/// A topic of each mode, whatever the mode of the others.
const TOPICS: &str = "[[topic]]\nname = 'careful'\ndurability = 'always'\n\
    [[topic]]\nname = 'quick'\ndurability = 'interval'\n";

/// A broker on `data` with this configuration file beside it.
fn configured(data: &Path, text: &str) -> Start {
    let file = data.with_extension("toml");
    fs::write(&file, text).unwrap();
    Start::on(data).arg("--config").arg(file)
}

/// Frames that all have one length, numbered.
fn numbered(number: u64) -> Vec<u8> {
    frame(number, b"", format!("record {number:08}").as_bytes())
}

/// Whether a call is about a segment of the topic, and not about what belongs to it.
fn is_of_log(event: &Event, topic: &str) -> bool {
    event.args.contains(&format!("/{topic}_0/")) && event.args.contains(".wal")
}

/// Follows the calls of a broker that holds one topic of frames of one length: how much was on the disk at each of its
/// answers. Returns how many frames were acked, and how many were acked or sent before they were on the disk.
fn answers_before_the_disk(events: &[Event], topic: &str) -> (u64, u64) {
    let len = numbered(0).len() as u64;
    let of_topic = |event: &Event| is_of_log(event, topic);
    let (mut written, mut durable, mut acked, mut too_early) = (0, 0, 0, 0);
    let mut begun = HashMap::new();
    for event in events {
        let result = event.result.and_then(|result| u64::try_from(result).ok());
        match (event.call.as_str(), result) {
            ("pwrite64", Some(bytes)) if of_topic(event) => written += bytes,
            ("fdatasync", None) if of_topic(event) && event.result.is_none() => {
                begun.insert(event.thread, written);
            }
            ("fdatasync", Some(0)) if of_topic(event) => {
                durable = durable.max(begun[&event.thread]);
            }
            ("sendto", Some(bytes)) => {
                assert!(bytes.is_multiple_of(ACK_LEN as u64), "{event:?}");
                acked += bytes / ACK_LEN as u64;
                too_early += u64::from(acked * len > durable);
            }
            // `[from] => [to]`
            ("sendfile", Some(bytes)) if bytes > 0 => {
                let to = event.args.rsplit_once('[').unwrap().1.split(']').next().unwrap();
                too_early += u64::from(to.parse::<u64>().unwrap() > durable);
            }
            _ => {}
        }
    }
    (acked, too_early)
}

/// Runs producers of both kinds and a consumer that waits at the end, under `strace` on a slow disk.
fn traced_answers(topic: &str) -> Option<(u64, u64)> {
    const FRAMES: u64 = 200;
    let (dir, data) = scratch();
    let calls = "fdatasync,pwrite64,sendto,sendfile";
    let trace = Trace::of(dir.path(), calls, "fdatasync:delay_enter=2000")?;
    let traced = trace.run(configured(&data, TOPICS));
    let addr = traced.broker.addr();
    let mut consumer = RawClient::consume(addr, "g", topic, 0);
    let mut producer = RawClient::produce(addr, topic, 0);
    for number in 0..20 {
        assert_eq!(producer.append(&numbered(number)), number);
        assert_eq!(consumer.read_frame().header.offset, number);
    }
    for number in 20..FRAMES {
        producer.send(&numbered(number));
    }
    for number in 20..FRAMES {
        assert_eq!(producer.stored(), number);
        assert_eq!(consumer.read_frame().as_sent(), numbered(number));
    }
    // The client may be ahead of the trace.
    Some(wait_for("all acks to be in the trace", || {
        let seen = answers_before_the_disk(&traced.so_far(), topic);
        (seen.0 == FRAMES).then_some(seen)
    }))
}

#[test]
fn always_answers_nobody_before_fdatasync_has_returned() {
    let Some((_, too_early)) = traced_answers("careful") else { return };
    assert_eq!(too_early, 0);
}

/// The counterpart: the same look at the other mode finds what it looks for.
#[test]
fn interval_does_not_wait_for_fdatasync() {
    let Some((acked, too_early)) = traced_answers("quick") else { return };
    assert!(too_early > 10, "{too_early} answers before the disk, for {acked} acks");
}

#[test]
fn producers_that_wait_for_each_ack_share_flushes() {
    const PRODUCERS: u64 = 64;
    const FRAMES: u64 = 10;
    let (dir, data) = scratch();
    let slow = Trace::of(dir.path(), "fdatasync", "fdatasync:delay_enter=30000");
    let Some(trace) = slow else { return };
    let traced = trace.run(configured(&data, TOPICS));
    let addr = traced.broker.addr();
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            scope.spawn(move || {
                let mut client = RawClient::produce(addr, "careful", 0);
                for number in 0..FRAMES {
                    client.append(&numbered(producer * FRAMES + number));
                }
            });
        }
    });
    let stored = drain(addr, "g", "careful", 0);
    assert_eq!(assert_offsets_follow(&stored, 0), PRODUCERS * FRAMES);
    let events = traced.kill();
    let of_topic = |event: &&Event| is_of_log(event, "careful");
    let flushes = events.iter().filter(of_topic).filter(|event| event.ends("fdatasync")).count();
    let acks = usize::try_from(PRODUCERS * FRAMES).unwrap();
    assert!(flushes > 0 && flushes < acks / 8, "{flushes} flushes for {acks} acks");
}

#[test]
fn large_frames_and_small_ones_are_acked_in_order() {
    let (_dir, data) = scratch();
    let broker = configured(&data, TOPICS).run();
    let mut producer = RawClient::produce(broker.addr(), "careful", 0);
    let mut consumer = RawClient::consume(broker.addr(), "g", "careful", 0);
    let large = frame(1, b"large", &Random::from(9).bytes(3_000_000));
    let sent: Vec<Vec<u8>> = (0..300)
        .map(|number| if number % 60 == 30 { large.clone() } else { numbered(number) })
        .collect();
    let sending = {
        let (mut sender, bytes) = (producer.split(), sent.concat());
        std::thread::spawn(move || {
            sender.send(&bytes);
            // Half-closed with acks to come.
            sender.finish_sending();
        })
    };
    for number in 0..sent.len() as u64 {
        assert_eq!(producer.stored(), number);
    }
    assert_eq!(producer.read_to_end(), b"", "the broker closes once all is acked");
    sending.join().unwrap();
    for (number, sent) in sent.iter().enumerate() {
        let got = consumer.read_frame();
        assert!(got.header.offset == number as u64 && &got.as_sent() == sent, "frame {number}");
    }
}

/// More acks wait than a session may owe: it is read on once some are out.
#[test]
fn many_small_frames_at_once_are_all_acked() {
    const FRAMES: u64 = 50_000;
    let (_dir, data) = scratch();
    let broker = configured(&data, TOPICS).run();
    let mut producer = RawClient::produce(broker.addr(), "careful", 0);
    let sending = {
        let mut sender = producer.split();
        let frames = frame(1, b"", b"").repeat(usize::try_from(FRAMES).unwrap());
        std::thread::spawn(move || sender.send(&frames))
    };
    for number in 0..FRAMES {
        assert_eq!(producer.stored(), number);
    }
    sending.join().unwrap();
    // A peer that ends in the middle of a frame, or breaks the protocol, gets the acks of what was whole.
    for rest in [&frame(1, b"", b"cut off")[..30], &[9; 40]] {
        let mut producer = RawClient::produce(broker.addr(), "careful", 0);
        producer.send(&[frame(1, b"", b"").repeat(3), rest.to_vec()].concat());
        producer.finish_sending();
        let acks = producer.read_to_end();
        assert_eq!(acks.len(), 3 * ACK_LEN);
        assert!(acks.chunks(ACK_LEN).all(|ack| ack[0] == 0), "{acks:?}");
    }
}

#[test]
fn a_disk_that_stands_still_costs_no_memory_and_disturbs_no_other_partition() {
    let (dir, data) = scratch();
    let slow = Trace::of(dir.path(), "fdatasync", "fdatasync:delay_enter=3000000");
    let Some(trace) = slow else { return };
    let broker = configured(&data, TOPICS).run();
    let addr = broker.addr();
    let mut quick = RawClient::produce(addr, "quick", 0);
    quick.append(&numbered(0));
    let traced = trace.on(&data.join("careful_0/00000000000000000000.wal")).attach(broker);
    let resident = traced.broker.memory_kib("RssAnon");
    let greedy = RawClient::produce(addr, "careful", 0);
    greedy.stream().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let block = frame(1, b"", b"").repeat(10_000);
    let mut blocks = 0u64;
    while blocks < 400 && greedy.stream().write_all(&block).is_ok() {
        blocks += 1;
        assert_eq!(quick.append(&numbered(blocks)), blocks);
    }
    assert!(blocks < 400, "its producer is not read for ever");
    let grown = traced.broker.memory_kib("RssAnon").saturating_sub(resident);
    assert!(grown < 4 * 1024, "the broker grew by {grown} KiB");
    drop(traced);
}

/// Fault 4: what the disk said about one flush is told to everybody who waited for it, and never taken back.
#[test]
fn a_failed_flush_is_told_to_all_who_wait_and_to_no_other_partition() {
    let (dir, data) = scratch();
    // Slow, so that all are waiting when it fails.
    let inject = "fdatasync:error=EIO:delay_enter=300000";
    let Some(trace) = Trace::of(dir.path(), "fdatasync", inject) else { return };
    let broker = configured(&data, TOPICS).run();
    let stored = numbered(7);
    assert_eq!(RawClient::produce(broker.addr(), "careful", 0).append(&stored), 0);
    let traced = trace.on(&data.join("careful_0/00000000000000000000.wal")).attach(broker);
    let broker = &traced.broker;
    let mut producers: Vec<_> =
        (0..8).map(|_| RawClient::produce(broker.addr(), "careful", 0)).collect();
    for producer in &mut producers {
        producer.send(&frame(1, b"", b"x").repeat(5));
    }
    for producer in &mut producers {
        for _ in 0..5 {
            assert_eq!(producer.read_ack().code, 0xFF);
        }
        // And at once from then on.
        producer.send(&frame(1, b"", b"later"));
        assert_eq!(producer.read_ack().code, 0xFF);
    }
    let shown = drain(broker.addr(), "g", "careful", 0);
    assert!(shown.len() == 1 && shown[0].as_sent() == stored, "none of it is shown");
    assert_eq!(RawClient::produce(broker.addr(), "quick", 0).append(&numbered(0)), 0);
    wait_for("the state of health", || {
        let told =
            |line: &LogLine| line.get("message").contains("read-only until a restart: careful/0");
        broker.lines_at("WARN").iter().any(told).then_some(())
    });
    let errors = broker.lines_at("ERROR");
    let failed = errors.iter().filter(|line| line.get("message") == "flush failed").count();
    assert_eq!(failed, 1, "{errors:?}");
    traced.kill();
    let broker = configured(&data, TOPICS).run();
    let next = RawClient::produce(broker.addr(), "careful", 0).append(&numbered(1));
    let stored = drain(broker.addr(), "g", "careful", 0);
    assert_eq!(assert_offsets_follow(&stored, 0), next + 1);
    assert_eq!(stored.last().map(Frame::as_sent), Some(numbered(1)));
}

/// A power cut takes no more than two intervals and a flush: producers of a disk that does not keep up are not read.
#[test]
fn producers_of_a_slow_disk_are_held_up_while_it_catches_up() {
    let (dir, data) = scratch();
    let start = configured(&data, TOPICS).env("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS", 20);
    let slow = Trace::of(dir.path(), "fdatasync,pwrite64", "fdatasync:delay_enter=600000");
    let Some(trace) = slow else { return };
    let traced = trace.run(start);
    let mut producer = RawClient::produce(traced.broker.addr(), "quick", 0);
    // Flushes of 600 ms, of which it may go on for 40 each.
    let flushes = |events: &[Event]| {
        let of_topic = events.iter().filter(|event| is_of_log(event, "quick"));
        of_topic.filter(|event| event.ends("fdatasync")).count()
    };
    let mut number = 0;
    wait_for("five flushes", || {
        for _ in 0..10 {
            assert_eq!(producer.append(&numbered(number)), number);
            number += 1;
        }
        (flushes(&traced.so_far()) >= 5).then_some(())
    });
    let events = traced.kill();
    let of_topic: Vec<&Event> = events.iter().filter(|event| is_of_log(event, "quick")).collect();
    let mut shares = Vec::new();
    let mut begun: Option<f64> = None;
    let mut last_write = 0.0;
    for event in of_topic {
        if event.ends("pwrite64") {
            last_write = event.at;
        } else if event.begins("fdatasync") {
            begun = Some(event.at);
        } else if event.ends("fdatasync")
            && let Some(begun) = begun.take().filter(|&begun| last_write > begun)
        {
            shares.push((last_write - begun) / (event.at - begun));
        }
    }
    // On a busy machine one that was let write may do it late.
    shares.sort_by(f64::total_cmp);
    assert!(shares.len() >= 2, "{shares:?}: flushes during which something was written");
    assert!(
        shares[(shares.len() - 1) / 2] < 0.5,
        "it was written to for {shares:.2?} of the flushes"
    );
}

/// Sends until the connection ends; returns the offsets that were acked.
fn produce_until_closed(mut client: RawClient) -> Vec<u64> {
    let mut sender = client.split();
    let sending = std::thread::spawn(move || {
        let mut number = 0;
        while sender.try_send(&numbered(number)) {
            number += 1;
        }
    });
    let mut acks = Vec::new();
    while let Some(ack) = client.try_read_ack() {
        assert_eq!(ack.code, 0, "{ack:?}");
        acks.push(ack.offset);
    }
    drop(client);
    sending.join().unwrap();
    acks
}

#[test]
fn sigterm_acks_what_it_took_after_the_flush() {
    let (dir, data) = scratch();
    let slow = Trace::of(dir.path(), "fdatasync", "fdatasync:delay_enter=20000");
    let Some(trace) = slow else { return };
    let traced = trace.run(configured(&data, TOPICS));
    let broker = traced.broker;
    let addr = broker.addr();
    // One that waits for each ack: its last frame, which the broker has taken, is acked. The broker goes with whatever fails:
    // the producers end with it.
    let (mut broker, acks) = std::thread::scope(move |scope| {
        let producers: Vec<_> = (0..4)
            .map(|_| {
                let client = RawClient::produce(addr, "careful", 0);
                scope.spawn(move || produce_until_closed(client))
            })
            .collect();
        let mut waiting = RawClient::produce(addr, "careful", 0);
        waiting.append(&numbered(0));
        waiting.send(&numbered(1));
        std::thread::sleep(Duration::from_millis(5));
        broker.signal(Signal::TERM);
        let mut acks = vec![waiting.stored()];
        acks.extend(producers.into_iter().flat_map(|producer| producer.join().unwrap()));
        (broker, acks)
    });
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{status}");
    let bad: Vec<_> = lines.iter().filter(|line| line.level() != "INFO").collect();
    assert!(bad.is_empty(), "{bad:?}");
    let broker = Broker::start(&data);
    let end = assert_offsets_follow(&drain(broker.addr(), "g", "careful", 0), 0);
    assert!(acks.iter().all(|&offset| offset < end), "{acks:?}, {end}");
    assert_eq!(acks.iter().collect::<std::collections::BTreeSet<_>>().len(), acks.len());
}

#[test]
fn declared_topics_are_there_before_anybody_asks() {
    let (_dir, data) = scratch();
    let text = "[[topic]]\nname = 'orders'\npartitions = 3\n[[topic]]\nname = 'events'\n\
        [topics]\nauto_create = false\n";
    let broker = configured(&data, text).run();
    let expected = ["__consumer_offsets_0", "events_0", "orders_0", "orders_1", "orders_2"];
    let dirs = |data: &Path| {
        let mut names = listing(data);
        names.retain(|name| name.contains('_'));
        names
    };
    assert_eq!(dirs(&data), expected);
    assert_eq!(RawClient::produce(broker.addr(), "orders", 2).append(&numbered(0)), 0);
    RawClient::consume(broker.addr(), "g", "unknown", 0).assert_closed_without_a_byte();
    assert!(broker.terminate().0.success());

    // More partitions: those that were there keep their records.
    let broker = configured(&data, &text.replace('3', "4")).run();
    assert_eq!(drain(broker.addr(), "g", "orders", 2).len(), 1);
    assert_eq!(RawClient::produce(broker.addr(), "orders", 3).append(&numbered(0)), 0);
    assert!(broker.terminate().0.success());

    let before = dirs(&data);
    let output = run_to_end(configured(&data, &text.replace('3', "2")).command(), Vec::new());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.contains("topic orders has 4 partitions, and 2 are declared")
            && last.ends_with("declare at least 4"),
        "{said}"
    );
    assert_eq!(dirs(&data), before);
}

#[test]
fn a_wrong_declaration_stops_the_start_with_its_key() {
    let (_dir, data) = scratch();
    let refused = |text: &str, what: &[&str]| {
        let output = run_to_end(configured(&data, text).command(), Vec::new());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        for what in what {
            assert!(said.contains(what), "{what}: {said}");
        }
    };
    let topic = |line: &str| format!("[[topic]]\nname = 'first'\n[[topic]]\nname = 'a'\n{line}\n");
    refused(
        &topic("durability = 'some'"),
        &["topic[1].durability", "one of interval, always", ".toml"],
    );
    refused(&topic("partitions = 0"), &["topic[1].partitions", "from 1 to 10000, not 0"]);
    refused(
        &topic("durabilty = 'always'"),
        &["topic[1].durabilty", "did you mean topic[1].durability"],
    );
    refused("[[topic]]\nname = '__mine'\n", &["topic[0].name", "keeps for itself"]);
    refused("[storage]\ndurability = 5\n", &["storage.durability"]);
    assert!(!data.exists(), "nothing is created with a wrong configuration");

    let file = data.with_extension("toml");
    fs::write(&file, topic("durability = 'always'")).unwrap();
    let show =
        run_to_end(hermitmq(&["config", "show", "--config", file.to_str().unwrap()]), Vec::new());
    let shown = String::from_utf8(show.stdout).unwrap();
    assert!(shown.contains("topic[1].durability = \"always\"  # "), "{shown}");
}

/// A file system of its own, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path, mebibytes: u32) -> Option<Self> {
        if !privileged(&["mount", "umount"]) {
            return None;
        }
        fs::create_dir_all(at).unwrap();
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output().unwrap();
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        Some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).output();
    }
}

#[test]
fn producers_are_told_to_wait_before_the_disk_is_full() {
    let (dir, _) = scratch();
    let mount = dir.path().join("mount");
    let Some(_disk) = SmallDisk::mount(&mount, 64) else { return };
    let (data, filler) = (mount.join("data"), mount.join("filler"));
    let broker = Start::on(&data).env("HERMITMQ_STORAGE__MIN_FREE_MB", 16).run();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    for number in 0..5 {
        assert_eq!(producer.append(&numbered(number)), number);
    }
    let mut stored = 5;
    // Twice: it ends by itself, and begins again.
    for round in 1..3 {
        fs::write(&filler, vec![1; 50 << 20]).unwrap();
        let refused = wait_for("a refusal", || {
            producer.send(&numbered(9));
            let ack = producer.read_ack();
            stored += u64::from(ack.code == 0);
            (ack.code != 0).then_some(ack)
        });
        assert_eq!((refused.code, refused.offset), (0xFF, 0));
        commit(broker.addr(), "g", "t", 0, stored);
        let errors = wait_for("the line that says so", || {
            let lines = broker.lines_at("ERROR");
            (lines.len() == round).then_some(lines)
        });
        assert!(errors[round - 1].get("message").contains("less than 16 MiB"), "{errors:?}");

        fs::remove_file(&filler).unwrap();
        wait_for("appends to work again", || {
            producer.send(&numbered(9));
            let ack = producer.read_ack();
            stored += u64::from(ack.code == 0);
            (ack.code == 0).then_some(())
        });
        wait_for("the line that says so", || {
            let again = |line: &&LogLine| line.get("message").contains("enough disk space again");
            (broker.lines_at("INFO").iter().filter(again).count() == round).then_some(())
        });
    }
    assert_eq!(broker.lines_at("ERROR").len(), 2, "one for each time");
    assert_eq!(assert_offsets_follow(&drain(broker.addr(), "other", "t", 0), 0), stored);
    assert!(broker.terminate().0.success());
}
