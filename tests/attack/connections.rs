//! Connections, more than anybody needs.

use std::time::Duration;

use hermitmq::protocol::v1_1::{Durability, Start as Position};

use super::bystander::{alone, assert_undisturbed};
use super::crowd::{Attacker, connect, room_for};
use super::support::http::{closed, metric};
use super::support::v1_1::{follower, producer};
use super::support::{RawClient, Start, frame, scratch_in_memory, wait_for};

/// What an idle connection may take of the broker's own memory, in KiB: `docs/LIMITS.md`.
const KIB_EACH: u64 = 2;

#[test]
fn ten_thousand_that_are_idle() {
    let _alone = alone();
    let count = room_for(10_000);
    let (_dir, data) = scratch_in_memory();
    let broker = Start::on(&data).with_admin().run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "idle", 0).append(&frame(1, b"", b"x"));
    let there = || metric(admin, "hermitmq_connections");
    let roles = || {
        let of = |role| metric(admin, &format!("hermitmq_connections_by_role{{role=\"{role}\"}}"));
        of("producer") + of("consumer")
    };
    let (before, memory) = (roles(), broker.memory_kib("RssAnon"));
    let mut grown = 0;
    let idle = || {
        // Of the round before nobody is left: the two are the bystander.
        wait_for("the others to be gone", || (roles() <= before + 2).then_some(()));
        let mut crowd = connect(addr, count / 2, &follower("idle", None, Position::Latest));
        crowd.extend(connect(addr, count / 2, &producer("idle", Durability::Topic)));
        wait_for("all to be served", || {
            (roles() >= before + 2 + i64::try_from(crowd.len()).unwrap()).then_some(())
        });
        grown = grown.max(broker.memory_kib("RssAnon").saturating_sub(memory));
        crowd
    };
    assert_undisturbed(addr, "10,000 idle connections", idle);
    println!("{count} idle connections: {grown} KiB");
    // What is taken once, whatever their number, counts where they are few.
    assert!(grown <= KIB_EACH * count as u64 + 1024, "{grown} KiB for {count} connections");
    wait_for("all to be gone", || (there() == 0).then_some(()));
}

#[test]
fn a_flood_beyond_the_limit() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().arg("--set").arg("security.max_connections=50");
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let flood = || {
        let held = connect(addr, 100, b"");
        let hello = producer("t", Durability::Topic);
        let coming = Attacker::start(Duration::from_millis(10), move || {
            drop(connect(addr, 5, &hello));
        });
        (coming, held)
    };
    assert_undisturbed(addr, "connections beyond the limit", flood);
    wait_for("those who came to be counted", || {
        (closed(admin, "connection_limit") > 30).then_some(())
    });
    wait_for("all to be gone", || (metric(admin, "hermitmq_connections") == 0).then_some(()));
}

/// Out of descriptors the broker serves those who are there, does not spin, and goes on once there are some again.
#[test]
fn no_descriptors_left() {
    let _alone = alone();
    let (_dir, data) = scratch_in_memory();
    let start = Start::on(&data).with_admin().arg("--set").arg("server.reactors=2");
    let broker = start.run_under(&["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"]);
    let addr = broker.addr();
    let mut there = RawClient::produce(addr, "t", 0);
    there.append(&frame(1, b"", b"x"));
    let mut ticks = (0, 0);
    let many = || {
        let crowd = connect(addr, 100, b"");
        let before = broker.cpu_ticks();
        std::thread::sleep(Duration::from_millis(500));
        // 50 ticks of a hundredth of a second each are all of one processor.
        ticks = (ticks.0 + broker.cpu_ticks() - before, ticks.1 + 50);
        crowd
    };
    assert_undisturbed(addr, "no descriptors left", many);
    assert!(2 * ticks.0 < ticks.1, "it spins: {} of {} ticks", ticks.0, ticks.1);
    assert!(broker.log_text().contains("cannot accept connections for now"));
    assert_eq!(there.append(&frame(2, b"", b"y")), 1);
    wait_for("descriptors for new connections", || {
        let mut client = RawClient::try_begin(addr, &producer("t", Durability::Topic))?;
        client.try_read_ack().map(|_| ())
    });
    assert!(metric(broker.admin(), "hermitmq_accept_errors_total") > 0);
}
