//! The SDK's administration of a real broker: records, connections and the log level.

use hermitmq::client::Record;
use hermitmq::client::admin::{AdminClient, AdminError, PeekFrom};
use hermitmq::model::TopicName;

use super::broker;
use super::support::{HANG, RawClient, drain, frame, scratch, wait_for};

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANG, test).await.expect("the test hangs") })
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

/// The word of a problem.
fn kind<T: std::fmt::Debug>(result: Result<T, AdminError>) -> String {
    match result {
        Err(AdminError::Problem(problem)) => problem.kind().to_owned(),
        other => panic!("no problem: {other:?}"),
    }
}

#[test]
fn records_are_stored_and_looked_at() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = AdminClient::new(&broker.admin().to_string()).unwrap();
    RawClient::produce(broker.addr(), "t", 0).append(&frame(5, b"", b"first"));
    let t = topic("t");
    let records = [
        Record::new("käse").with_key("k").with_timestamp(10),
        Record::new(&b"\xff\0\xfe"[..]).with_key(&b"\x80"[..]).with_timestamp(20),
        Record::new("").with_key("gone").with_timestamp(30),
        Record::new(vec![b'x'; 800 << 10]),
    ];
    block_on(async {
        for (offset, record) in (1..).zip(&records) {
            assert_eq!(admin.store(&t, 0, record).await.unwrap(), offset);
        }
        let seen = admin.peek(&t, 0, PeekFrom::Offset(1), 3).await.unwrap();
        assert_eq!((seen.start_offset, seen.end_offset, seen.next_offset), (0, 5, 4));
        assert!(!seen.damaged);
        for (found, sent) in seen.records.iter().zip(&records) {
            assert_eq!(found.key.as_ref().unwrap().bytes, sent.key);
            assert_eq!(found.payload.bytes, sent.payload);
            assert_eq!((Some(found.timestamp_ns), found.record_count), (sent.timestamp, 1));
            assert!(!found.payload.is_cut());
        }
        let offsets = async |from, limit| {
            let seen = admin.peek(&t, 0, from, limit).await.unwrap();
            seen.records.iter().map(|record| record.offset).collect::<Vec<_>>()
        };
        assert_eq!(offsets(PeekFrom::End, 2).await, [3, 4]);
        assert_eq!(offsets(PeekFrom::Timestamp(15), 1).await, [2]);
        assert_eq!(offsets(PeekFrom::Offset(5), 1).await, [0; 0]);
        let first = admin.peek(&t, 0, PeekFrom::Offset(0), 1).await.unwrap();
        assert_eq!(first.records[0].key, None);

        // More than one look gives: the last one is not whole, and says so.
        assert_eq!(admin.store(&t, 0, &records[3]).await.unwrap(), 5);
        let large = admin.peek(&t, 0, PeekFrom::Offset(4), 2).await.unwrap().records;
        let cut = &large[1].payload;
        assert!(!large[0].payload.is_cut() && cut.is_cut());
        assert_eq!(cut.full_len as usize, records[3].payload.len());
        assert_eq!(cut.bytes, records[3].payload[..cut.bytes.len()]);

        let kind_of = async |name, partition, from, limit| {
            kind(admin.peek(&topic(name), partition, from, limit).await)
        };
        assert_eq!(kind_of("t", 0, PeekFrom::Offset(7), 1).await, "offset-out-of-range");
        assert_eq!(kind_of("t", 0, PeekFrom::End, 0).await, "invalid-request");
        assert_eq!(kind_of("t", 9, PeekFrom::End, 1).await, "unknown-partition");
        assert_eq!(kind_of("nowhere", 0, PeekFrom::End, 1).await, "unknown-topic");
        assert_eq!(kind(admin.store(&topic("nowhere"), 0, &records[0]).await), "unknown-topic");
    });
    let payloads: Vec<_> =
        drain(broker.addr(), "g", "t", 0).iter().map(|frame| frame.payload().to_vec()).collect();
    let sent = std::iter::once(&b"first"[..]).chain(records.iter().map(|r| &r.payload[..]));
    assert!(payloads[..5].iter().eq(sent), "as consumers see them");
}

#[test]
fn connections_are_listed_and_closed() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = AdminClient::new(&broker.admin().to_string()).unwrap();
    let mut producer = RawClient::produce(broker.addr(), "t", 0);
    producer.append(&frame(1, b"", b"x"));
    let mut consumer = RawClient::consume(broker.addr(), "g", "t", 0);
    consumer.read_frame();
    block_on(async {
        let all = admin.connections(10).await.unwrap();
        assert!(all.complete && all.connections.len() == 2, "{all:?}");
        assert!(!admin.connections(1).await.unwrap().complete);
        let of = |role: &str| all.connections.iter().find(|one| one.role.as_deref() == Some(role));
        let reading = of("consumer").unwrap();
        assert_eq!((reading.topic.as_deref(), reading.group.as_deref()), (Some("t"), Some("g")));
        assert_eq!((reading.partition, &reading.client_name), (Some(0), &None));
        assert_eq!(reading.peer, consumer.local_addr().to_string());
        assert_eq!(of("producer").unwrap().group, None);

        admin.close_connection(&reading.id).await.unwrap();
        assert_eq!(consumer.read_to_end(), b"");
        for (id, problem) in [
            ("99-1", "unknown-connection"),
            ("nobody", "invalid-request"),
            ("../topics/t", "invalid-request"),
            ("99-1?x", "invalid-request"),
        ] {
            assert_eq!(kind(admin.close_connection(id).await), problem, "{id}");
        }
        admin.describe_topic(&topic("t")).await.expect("nothing else was deleted");
    });
    assert_eq!(producer.append(&frame(2, b"", b"y")), 1, "the others go on");
}

#[test]
fn the_log_level_is_seen_and_set() {
    let (_dir, data) = scratch();
    let broker = broker(&data);
    let admin = AdminClient::new(&broker.admin().to_string()).unwrap();
    block_on(async {
        assert_eq!(admin.log_level().await.unwrap(), "info");
        let now = admin.set_log_level("info,hermitmq=debug").await.unwrap();
        assert!(now.contains("hermitmq=debug"), "{now}");
        assert_eq!(admin.log_level().await.unwrap(), now);
        assert_eq!(kind(admin.set_log_level("loud").await), "invalid-request");
        assert_eq!(admin.log_level().await.unwrap(), now, "nothing wrong takes effect");
    });
    wait_for("a line at debug", || {
        RawClient::produce(broker.addr(), "t", 0).append(&frame(1, b"", b"x"));
        (!broker.lines_at("DEBUG").is_empty()).then_some(())
    });
}
