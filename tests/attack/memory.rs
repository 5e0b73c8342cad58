//! Memory, more than there is: in a control group of 64 MiB or twice that, which the system ends if it takes more.

use std::net::SocketAddr;
use std::path::Path;

use hermitmq::protocol::Status;
use hermitmq::protocol::v1_1::{AnswerTo, Durability};
use hermitmq::record::{HEADER_LEN, Header};
use serde_json::Value;

use super::bystander::{alone, assert_undisturbed};
use super::crowd::{connect, push, room_for};
use super::quotas;
use super::support::http::{closed, metric, send};
use super::support::v1_1::{answer, open, producer};
use super::support::{
    Broker, ControlGroup, PRODUCE, RawClient, Start, frame, handshake, is_long, scratch,
    scratch_on_disk, wait_for,
};

const LIMIT: &str = "67108864";

fn start_of_frame(payload_size: u32) -> Vec<u8> {
    let header =
        Header { magic: 1, timestamp: 7, offset: 0, key_size: 0, payload_size, record_count: 1 };
    header.to_bytes().to_vec()
}

/// A broker in a control group, with a topic that 20 consumers are sent and read nothing of.
fn beside_stalled(group: &ControlGroup, data: &Path) -> (Broker, Vec<RawClient>) {
    let broker = Start::on(data).with_admin().by(group.enter()).run();
    let addr = broker.addr();
    let mut filling = RawClient::produce(addr, "large", 0);
    for number in 0..8 {
        filling.append(&frame(number, b"", &vec![7; 4 << 20]));
    }
    let stalled = (0..20).map(|n| RawClient::consume(addr, &format!("g{n}"), "large", 0));
    let stalled = stalled.collect();
    (broker, stalled)
}

/// 200 producers with frames of 50 MiB, each sent as far as the broker takes it.
fn large_frames(addr: SocketAddr) -> Vec<RawClient> {
    let hello = [handshake(PRODUCE, &["large"], 0), start_of_frame(50 << 20)].concat();
    let crowd = connect(addr, 200, &hello);
    for client in &crowd {
        // Gone at once when it goes: the system would send what the broker has not taken.
        let socket = socket2::SockRef::from(client.stream());
        socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
    let payload = vec![7; 256 * 1024];
    // Not the whole: it would be stored, and the disk is not what is measured.
    for _ in 0..20 {
        push(&crowd, &payload, 2 << 20);
    }
    crowd
}

fn assert_given_back(admin: SocketAddr) {
    assert!(metric(admin, "hermitmq_receive_memory_waits_total") > 190);
    assert_given_back_all(admin);
}

fn assert_given_back_all(admin: SocketAddr) {
    wait_for("all memory to be given back", || {
        (metric(admin, "hermitmq_receive_memory_bytes") == 0).then_some(())
    });
}

#[test]
fn large_frames_of_many_producers_in_little_memory() {
    let Some(group) = ControlGroup::memory(LIMIT) else { return };
    let _alone = alone();
    let (_dir, data) = scratch_on_disk();
    let (mut broker, _stalled) = beside_stalled(&group, &data);
    let addr = broker.addr();
    let mut other = RawClient::produce(addr, "other", 0);
    let crowd = large_frames(addr);
    for number in 0..200 {
        assert_eq!(other.append(&frame(number, b"", b"served all the same")), number);
    }
    assert!(broker.is_running(), "{}", broker.log_text());
    assert!(group.peak() > 32 << 20, "it was the broker's");
    drop(crowd);
    assert_given_back(broker.admin());
    assert!(broker.terminate().0.success());
}

/// With twice the memory: in less, one frame leaves next to none for the files of the log, and what others wait for is the
/// system, which makes room.
#[test]
fn large_frames_of_many_producers_disturb_nobody() {
    let Some(group) = ControlGroup::memory("134217728") else { return };
    let _alone = alone();
    let (_dir, data) = scratch_on_disk();
    let (broker, _stalled) = beside_stalled(&group, &data);
    let addr = broker.addr();
    assert_undisturbed(addr, "200 producers of 50 MiB", || large_frames(addr));
    assert_given_back(broker.admin());
    assert!(broker.terminate().0.success());
}

/// Little memory for large frames, one reactor, and a quota of next to nothing for some.
fn narrow(data: &Path) -> Broker {
    quotas::start_with(data, "produce_kb_per_s = 1", |start| {
        let start = start.arg("--set").arg("security.receive_memory_mb=1");
        start.arg("--set").arg("server.reactors=1")
    })
}

/// One whose frame has all of the memory, and lacks its last byte.
fn holder(broker: &Broker) -> RawClient {
    let large = large();
    let mut holder = RawClient::produce(broker.addr(), "held", 0);
    holder.send(&large[..large.len() - 1]);
    wait_for("the memory to be taken", || {
        (metric(broker.admin(), "hermitmq_receive_memory_bytes") > 0).then_some(())
    });
    holder
}

fn large() -> Vec<u8> {
    frame(1, b"", &vec![7; 2 << 20])
}

fn wait_until_one_waits(broker: &Broker) {
    wait_for("one to wait for memory", || {
        (metric(broker.admin(), "hermitmq_receive_memory_waits_total") == 1).then_some(())
    });
}

/// Gives the memory back, and sees that others get it.
fn assert_served(broker: &Broker, mut holder: RawClient, first: Option<RawClient>) {
    holder.send(&[7]);
    assert_eq!(holder.stored(), 0);
    // By then the reactor has woken who was first.
    assert_eq!(holder.append(&frame(2, b"", b"small")), 1);
    drop(first);
    assert_eq!(RawClient::produce(broker.addr(), "other", 0).append(&large()), 0);
}

/// Who waits for memory and is refused meanwhile is not waited for: not while it is told so, nor when it has gone.
#[test]
fn who_is_refused_while_it_waits_for_memory_holds_up_nobody() {
    let (_dir, data) = scratch();
    let broker = narrow(&data);
    let holder = holder(&broker);
    let (mut first, _) = open(broker.addr(), &producer("gone", Durability::Topic));
    first.send(&start_of_frame(2 << 20));
    wait_until_one_waits(&broker);
    send(broker.admin(), "DELETE", "/api/v1/topics/gone", &Value::Null);
    let refusal = answer(&mut first, AnswerTo::Frame);
    assert_eq!(refusal.status(), Some(Status::TopicDeleted));
    assert_served(&broker, holder, Some(first));
    assert_given_back_all(broker.admin());
}

/// Who waits for its quota, too, is not waited for.
#[test]
fn who_is_paused_while_it_waits_for_memory_holds_up_nobody() {
    let (_dir, data) = scratch();
    let broker = narrow(&data);
    let addr = broker.addr();
    let holder = holder(&broker);
    let mut first = quotas::limited(addr, &handshake(PRODUCE, &["first"], 0));
    assert_eq!(first.append(&frame(1, b"", b"let in")), 0);
    // Minutes of debt, of others with the same quota.
    let begun = [handshake(PRODUCE, &["debt"], 0), frame(1, b"", &vec![7; 12 * 1024])].concat();
    let _debtors: Vec<_> = (0..10).map(|_| quotas::limited(addr, &begun)).collect();
    wait_for("the debt", || {
        (metric(broker.admin(), "hermitmq_quota_waits_total") >= 10).then_some(())
    });
    first.send(&start_of_frame(2 << 20));
    wait_until_one_waits(&broker);
    assert_served(&broker, holder, None);
}

/// Who no longer needs it, because it may keep more now that there are fewer connections, is not waited for either.
#[test]
fn who_waits_for_memory_and_needs_none_holds_up_nobody() {
    let count = room_for(300);
    let (_dir, data) = scratch();
    let broker = narrow(&data);
    let addr = broker.addr();
    let holder = holder(&broker);
    let crowd = connect(addr, count, &handshake(PRODUCE, &["crowd"], 0));
    wait_for("the crowd", || {
        (metric(broker.admin(), "hermitmq_connections") > i64::try_from(count).unwrap())
            .then_some(())
    });
    // Less than one of few connections may keep, and more than one of so many.
    let part = frame(1, b"", &[7; 15_000]);
    let mut first = RawClient::produce(addr, "first", 0);
    first.send(&part[..HEADER_LEN]);
    wait_until_one_waits(&broker);
    drop(crowd);
    wait_for("the crowd to be gone", || {
        (metric(broker.admin(), "hermitmq_connections") == 2).then_some(())
    });
    // How much one may keep is settled when one comes.
    let mut other = RawClient::produce(addr, "another", 0);
    assert_eq!(other.append(&frame(1, b"", b"x")), 0);
    assert_served(&broker, holder, None);
    first.send(&part[HEADER_LEN..]);
    assert_eq!(first.stored(), 0);
}

/// Thousands of frames and handshakes, each small enough to be kept, and each without its last byte.
#[test]
fn small_parts_of_many_clients() {
    let _alone = alone();
    let Some(group) = ControlGroup::memory(LIMIT) else { return };
    let count = room_for(if is_long() { 8000 } else { 5000 });
    let (_dir, data) = scratch_on_disk();
    let mut start = Start::on(&data).with_admin().by(group.enter());
    for setting in ["server.handshake_timeout_sec=60", "server.reactors=2"] {
        start = start.arg("--set").arg(setting);
    }
    let mut broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "t", 0).append(&frame(1, b"", b"x"));
    let mut part = handshake(PRODUCE, &["t"], 0);
    part.extend(start_of_frame(16 * 1024 - u32::try_from(HEADER_LEN).unwrap()));
    part.extend(vec![7; 16 * 1024 - HEADER_LEN - 1]);
    // 8 KiB of fields, the last byte of which never comes.
    let mut whole = producer("t", Durability::Topic);
    let filler = 8192 - (whole.len() - 3) - 3;
    whole.extend([0x90, u8::try_from(filler >> 8).unwrap(), u8::try_from(filler & 0xff).unwrap()]);
    whole.extend(vec![7; filler]);
    whole[1..3].copy_from_slice(&[0x20, 0]);
    let parts = || {
        let frames = connect(addr, count / 2, &part);
        let handshakes = connect(addr, count / 2, &whole[..whole.len() - 1]);
        (frames, handshakes)
    };
    let clients = parts();
    // All but 256 for each reactor.
    let given_up = i64::try_from(count / 2).unwrap() - 512;
    assert!(given_up > 0, "{count} clients are too few: the hard limit of open files is low here");
    wait_for("handshakes to be given up", || {
        (closed(admin, "handshake_timeout") >= given_up).then_some(())
    });
    assert!(broker.is_running(), "{}", broker.log_text());
    let taken = broker.memory_kib("RssAnon");
    println!("{count} clients with parts of something: {taken} KiB");
    drop(clients);
    wait_for("all to be gone", || (metric(admin, "hermitmq_connections") == 0).then_some(()));
    assert_undisturbed(addr, "parts of frames and handshakes", || {
        (connect(addr, 500, &part), connect(addr, 500, &whole[..whole.len() - 1]))
    });
    assert!(broker.terminate().0.success());
}
