//! Consumers that leave while they wait at the end of a log: nothing of them stays behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use hermitmq::protocol::v1_1::Start;
use support::v1_1::{follower, group, open};
use support::{RawClient, Start as StartBroker, drain, frame, scratch_in_memory, wait_for};

const CLIENTS: usize = 10_000;
const THREADS: usize = 4;

/// Entries of a directory of the process.
fn count(pid: u32, what: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count()
}

/// Memory that belongs to the process alone, in KiB.
fn private_kib(pid: u32) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Comes, waits at the end, and goes: with an end, with half a connection, or with a reset.
fn come_and_go(addr: SocketAddr, number: usize) {
    let new = number.is_multiple_of(2);
    let client = if new {
        // Its reply says that it is there.
        open(addr, &follower("t", Some(group("g")), Start::Latest)).0
    } else {
        RawClient::consume(addr, "g", "t", 0)
    };
    match number % 3 {
        0 => drop(client),
        1 => {
            client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        }
        _ => {
            let socket = socket2::SockRef::from(client.stream());
            socket.set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
}

/// FAULTS: the original leaves a thread of execution for each.
#[test]
fn ten_thousand_of_them() {
    let (_dir, data) = scratch_in_memory();
    // As a rule none of this is over before the others have come: a deadline that is kept behind a handshake would show.
    let broker = StartBroker::on(&data).arg("--set").arg("server.handshake_timeout_sec=60").run();
    let (addr, pid) = (broker.addr(), broker.pid());
    let mut producer = RawClient::produce(addr, "t", 0);
    producer.append(&frame(1, b"", b"first"));
    let crowd = |clients: usize| {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    (0..clients / THREADS).for_each(|n| come_and_go(addr, n * THREADS + thread));
                });
            }
        });
    };
    // What is made once, and kept, is there after a few.
    crowd(CLIENTS / 20);
    let settled = wait_for("the first ones to be gone", || {
        let fds = count(pid, "fd");
        thread::sleep(Duration::from_millis(50));
        (count(pid, "fd") == fds).then_some(fds)
    });
    let threads = count(pid, "task");
    let mut memory = Vec::new();
    for _ in 0..4 {
        crowd(CLIENTS);
        wait_for("all descriptors to be back", || (count(pid, "fd") <= settled).then_some(()));
        assert_eq!(count(pid, "task"), threads);
        memory.push(private_kib(pid));
    }
    // What the allocator keeps for the next ones, it has after the first.
    println!("after each {CLIENTS} consumers: {memory:?} KiB");
    // How many were there at once is chance, and so is when the most were: but each crowd would add 976 KiB if each of it
    // left 100 bytes.
    let mut grown = memory.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(grown.any(|kib| kib < 900), "{memory:?} KiB");

    // The one who waits among them is still there, and so is everything else.
    let mut waiting = RawClient::consume(addr, "other", "t", 0);
    assert_eq!(waiting.read_frame().payload(), b"first");
    producer.append(&frame(2, b"", b"second"));
    assert_eq!(waiting.read_frame().payload(), b"second");
    assert_eq!(drain(addr, "g", "t", 0).len(), 2);
    assert!(broker.terminate().0.success());
}
