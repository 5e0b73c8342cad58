//! Memory, more than there is: in a control group of 64 MiB or twice that, which the system ends if it takes more.

use std::net::SocketAddr;
use std::path::Path;

use hermitmq::protocol::v1_1::Durability;
use hermitmq::record::{HEADER_LEN, Header};

use super::bystander::{alone, assert_undisturbed};
use super::crowd::{connect, push, room_for};
use super::support::http::{closed, metric};
use super::support::v1_1::producer;
use super::support::{
    Broker, ControlGroup, PRODUCE, RawClient, Start, frame, handshake, is_long, scratch_on_disk,
    wait_for,
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
